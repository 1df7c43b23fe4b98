//! The numeric keywords, checked in time linear in the number of digits. The validator's own implementations take
//! quadratic time, and even count the digits that an exponent implies: half a million instructions for `"minimum": 0`
//! and the item `1e-999`.

use std::cmp::Ordering;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Number, Value};

use crate::decimal::{Decimal, Divisor};
use crate::reading::{InstanceView, ValidatedJson, are_equal};
use crate::schema::SchemaOptions;

/// Replaces the validator's numeric keywords.
pub(crate) fn with_keywords<'a>(options: SchemaOptions<'a>, schema: &Value) -> SchemaOptions<'a> {
    // Other schemas keep the validator's own `const`, which the validator uses to find the matching `oneOf` branch.
    let options = if contains_numeric_const(schema) {
        options.with_keyword("const", |_, expected, _| Ok(Box::new(Constant(expected.clone()))))
    } else {
        options
    };
    let options = options
        .with_keyword("multipleOf", multiple_of)
        .with_keyword("minimum", |parent, limit, _| Ok(inclusive_bound(MINIMUM, parent, limit)))
        .with_keyword("maximum", |parent, limit, _| Ok(inclusive_bound(MAXIMUM, parent, limit)));
    options
        .with_keyword("exclusiveMinimum", |_, limit, _| Ok(exclusive_bound(MINIMUM, limit)))
        .with_keyword("exclusiveMaximum", |_, limit, _| Ok(exclusive_bound(MAXIMUM, limit)))
}

type AnyKeyword = Box<dyn for<'i> Keyword<'i, ValidatedJson>>;

/// One end of a range.
#[derive(Clone, Copy)]
struct RangeEnd {
    /// The ordering of an invalid number relative to the limit.
    beyond: Ordering,
    /// The member that, if `true`, excludes the limit itself in older drafts.
    exclusive: &'static str,
    /// The phrases for violations of an inclusive and of an exclusive limit.
    phrases: [&'static str; 2],
}

const MINIMUM: RangeEnd = RangeEnd {
    beyond: Ordering::Less,
    exclusive: "exclusiveMinimum",
    phrases: ["less than the minimum of", "less than or equal to the minimum of"],
};
const MAXIMUM: RangeEnd = RangeEnd {
    beyond: Ordering::Greater,
    exclusive: "exclusiveMaximum",
    phrases: ["greater than the maximum of", "greater than or equal to the maximum of"],
};

fn inclusive_bound(end: RangeEnd, parent: &Map<String, Value>, limit: &Value) -> AnyKeyword {
    let is_exclusive = parent.get(end.exclusive) == Some(&Value::Bool(true));
    limit.as_number().map_or_else(allow_any_number, |limit| {
        Box::new(NumericKeyword { rule: NumericRule::Within { end, is_exclusive }, operand: limit.clone() })
    })
}

/// Creates an exclusive limit. In draft 4 the keyword is a boolean, which [`inclusive_bound`] reads.
fn exclusive_bound(end: RangeEnd, limit: &Value) -> AnyKeyword {
    limit.as_number().map_or_else(allow_any_number, |limit| {
        Box::new(NumericKeyword {
            rule: NumericRule::Within { end, is_exclusive: true },
            operand: limit.clone(),
        })
    })
}

fn multiple_of<'a>(
    _: &'a Map<String, Value>,
    divisor: &'a Value,
    _: Location,
) -> Result<AnyKeyword, ValidationError<'a>> {
    let Some(number) = divisor.as_number() else {
        return Ok(allow_any_number());
    };
    match Divisor::from_number(number) {
        Some(divisor) => {
            Ok(Box::new(NumericKeyword { rule: NumericRule::MultipleOf(divisor), operand: number.clone() }))
        }
        // Zero also ends up here: the meta-schema rejects it, except in a schema that is referenced by `$ref` but
        // stored under a name that is not a keyword.
        None => Err(ValidationError::custom("\"multipleOf\" is 0, or has more than 37 digits")),
    }
}

/// Creates a keyword that allows every number, for an operand that the meta-schema has already rejected.
fn allow_any_number() -> AnyKeyword {
    Box::new(NumericKeyword { rule: NumericRule::Any, operand: Number::from(0) })
}

struct NumericKeyword {
    rule: NumericRule,
    /// The limit or divisor, as written in the schema.
    operand: Number,
}

enum NumericRule {
    MultipleOf(Divisor),
    Within { end: RangeEnd, is_exclusive: bool },
    Any,
}

impl<'i> Keyword<'i, ValidatedJson> for NumericKeyword {
    fn validate(&self, node: InstanceView<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(node) {
            return Ok(());
        }
        let phrase = match &self.rule {
            NumericRule::MultipleOf(_) => "not a multiple of",
            NumericRule::Within { end, is_exclusive } => end.phrases[usize::from(*is_exclusive)],
            NumericRule::Any => "allowed",
        };
        Err(ValidationError::custom(format!("is {phrase} {}", self.operand)))
    }

    fn is_valid(&self, node: InstanceView<'i>) -> bool {
        let Some(number) = node.value().as_number() else {
            return true;
        };
        let number = Decimal::from_number(number);
        match &self.rule {
            NumericRule::MultipleOf(divisor) => number.is_multiple_of(divisor),
            NumericRule::Within { end, is_exclusive } => {
                match number.cmp(&Decimal::from_number(&self.operand)) {
                    Ordering::Equal => !is_exclusive,
                    side => side != end.beyond,
                }
            }
            NumericRule::Any => true,
        }
    }
}

/// Returns true if a `const` anywhere in the schema is a number, even if that `const` is a property name or part of
/// other data, which is harmless.
fn contains_numeric_const(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.get("const").is_some_and(Value::is_number) || members.values().any(contains_numeric_const)
        }
        Value::Array(items) => items.iter().any(contains_numeric_const),
        _ => false,
    }
}

struct Constant(Value);

impl<'i> Keyword<'i, ValidatedJson> for Constant {
    fn validate(&self, node: InstanceView<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(node) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("{} was expected", self.0)))
    }

    fn is_valid(&self, node: InstanceView<'i>) -> bool {
        node.is_budget_spent() || are_equal(node.value(), &self.0)
    }
}

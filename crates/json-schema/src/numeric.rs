//! The keywords of numbers, in time linear in their digits. The validator's own take the square of them, and of what an
//! exponent writes in short.

use std::cmp::Ordering;

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Number, Value};

use crate::decimal::{Decimal, Divisor};
use crate::meter::{NUMBER, of_bytes};
use crate::metered::{Metered, Reading};
use crate::schema::Options;

/// Has numbers checked here.
pub(crate) fn keywords(options: Options<'_>) -> Options<'_> {
    let options = options
        .with_keyword("multipleOf", multiple_of)
        .with_keyword("minimum", |parent, limit, _| Ok(bound(MINIMUM, parent, limit)))
        .with_keyword("maximum", |parent, limit, _| Ok(bound(MAXIMUM, parent, limit)));
    options
        .with_keyword("exclusiveMinimum", |_, limit, _| Ok(exclusive(MINIMUM, limit)))
        .with_keyword("exclusiveMaximum", |_, limit, _| Ok(exclusive(MAXIMUM, limit)))
}

type AnyKeyword = Box<dyn for<'i> Keyword<'i, Metered>>;

/// One end of a range.
#[derive(Clone, Copy)]
struct End {
    /// What a number beyond it is.
    beyond: Ordering,
    /// The older drafts' further member, which is `true` if the limit itself does not belong to the range.
    exclusive: &'static str,
    /// What is said of a number beyond it, without and with the limit itself.
    words: [&'static str; 2],
}

const MINIMUM: End = End {
    beyond: Ordering::Less,
    exclusive: "exclusiveMinimum",
    words: ["less than the minimum of", "less than or equal to the minimum of"],
};
const MAXIMUM: End = End {
    beyond: Ordering::Greater,
    exclusive: "exclusiveMaximum",
    words: ["greater than the maximum of", "greater than or equal to the maximum of"],
};

fn bound(end: End, parent: &Map<String, Value>, limit: &Value) -> AnyKeyword {
    let is_exclusive = parent.get(end.exclusive) == Some(&Value::Bool(true));
    limit.as_number().map_or_else(anything, |limit| {
        Box::new(Numeric { rule: Rule::Within { end, is_exclusive }, operand: limit.clone() })
    })
}

/// In draft 4 it is a boolean, which is [`bound`]'s.
fn exclusive(end: End, limit: &Value) -> AnyKeyword {
    limit.as_number().map_or_else(anything, |limit| {
        Box::new(Numeric { rule: Rule::Within { end, is_exclusive: true }, operand: limit.clone() })
    })
}

fn multiple_of<'a>(
    _: &'a Map<String, Value>,
    divisor: &'a Value,
    _: Location,
) -> Result<AnyKeyword, ValidationError<'a>> {
    let Some(number) = divisor.as_number() else {
        return Ok(anything());
    };
    match Divisor::of(number) {
        Some(divisor) => Ok(Box::new(Numeric { rule: Rule::MultipleOf(divisor), operand: number.clone() })),
        // Zero, too: the meta-schema refuses it, but does not look at what a reference leads to under a name that is no
        // keyword.
        None => Err(ValidationError::custom("\"multipleOf\" is 0, or has more than 37 digits")),
    }
}

/// What the meta-schema has refused already.
fn anything() -> AnyKeyword {
    Box::new(Numeric { rule: Rule::Any, operand: Number::from(0) })
}

struct Numeric {
    rule: Rule,
    /// As the schema writes it.
    operand: Number,
}

enum Rule {
    MultipleOf(Divisor),
    Within { end: End, is_exclusive: bool },
    Any,
}

impl<'i> Keyword<'i, Metered> for Numeric {
    fn validate(&self, node: Reading<'i>) -> Result<(), ValidationError<'i>> {
        if self.is_valid(node) {
            return Ok(());
        }
        let words = match &self.rule {
            Rule::MultipleOf(_) => "not a multiple of",
            Rule::Within { end, is_exclusive } => end.words[usize::from(*is_exclusive)],
            Rule::Any => "allowed",
        };
        Err(ValidationError::custom(format!("is {words} {}", self.operand)))
    }

    fn is_valid(&self, node: Reading<'i>) -> bool {
        let Some(number) = node.value.as_number() else {
            return true;
        };
        if !node.spend(NUMBER + of_bytes(number.as_str().len())) {
            return true;
        }
        let number = Decimal::of(number);
        match &self.rule {
            Rule::MultipleOf(divisor) => {
                !node.spend(number.steps_of_division(divisor)) || number.is_multiple_of(divisor)
            }
            Rule::Within { end, is_exclusive } => match number.cmp(&Decimal::of(&self.operand)) {
                Ordering::Equal => !is_exclusive,
                side => side != end.beyond,
            },
            Rule::Any => true,
        }
    }
}

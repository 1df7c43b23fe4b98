//! One broken rule: where and which, never the value.

use std::fmt;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) of the culprit; empty for the whole document.
    pub pointer: String,
    /// The rule, as a phrase that follows the pointer.
    pub rule: String,
}

impl Violation {
    /// A rule that no schema can say.
    #[must_use]
    pub fn new(pointer: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), rule: rule.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "(whole document)" } else { &self.pointer };
        write!(f, "{place} {}", self.rule)
    }
}

/// All of them in one line.
#[must_use]
pub fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// All exponents of a document together. A validator writes out the digits of `1e-400`: a message full of such numbers
/// would take it minutes, and with these few at most half a second.
const EXPONENTS_MAX: u32 = 1_000_000;
/// Smaller exponents cost nothing worth counting.
const EXPONENT_FREE: u32 = 30;
/// More would only be cut off; and a hostile message can break a rule half a million times.
const VIOLATIONS_MAX: usize = 100;

/// What `instance` breaks of a schema, the first hundred rules; `at` is the instance's own pointer.
pub(super) fn violations(validator: &Validator, instance: &Value, at: &str) -> Vec<Violation> {
    let mut left = EXPONENTS_MAX;
    if let Some(pointer) = too_far(instance, &mut left) {
        return vec![Violation::new(
            format!("{at}{pointer}"),
            format!(
                "brings the exponents to more than {EXPONENTS_MAX} together, which takes too long to check"
            ),
        )];
    }
    let mut found = Vec::new();
    for error in validator.iter_errors(instance).take(VIOLATIONS_MAX) {
        let pointer = format!("{at}{}", error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                found.extend(unexpected.iter().map(|name| {
                    Violation::new(format!("{pointer}/{}", escaped(name)), "is not a known member")
                }));
            }
            ValidationErrorKind::Required { property } => {
                let name = escaped(property.as_str().unwrap_or_default());
                found.push(Violation::new(format!("{pointer}/{name}"), "is missing"));
            }
            // Here the value is the name of a member: it has a place in the pointer, as the others' names.
            ValidationErrorKind::PropertyNames { error } => {
                let name = escaped(error.instance().as_str().unwrap_or_default());
                let rule = without_value(&error.masked_with("").to_string());
                found.push(Violation::new(format!("{pointer}/{name}"), format!("has a name that {rule}")));
            }
            _ => found.push(Violation::new(pointer, without_value(&error.masked_with("").to_string()))),
        }
    }
    found.truncate(VIOLATIONS_MAX);
    found
}

/// The pointer of the number whose exponent is more than what is `left`.
fn too_far(instance: &Value, left: &mut u32) -> Option<String> {
    match instance {
        Value::Number(number) => match left.checked_sub(exponent(&number.to_string())) {
            Some(rest) => {
                *left = rest;
                None
            }
            None => Some(String::new()),
        },
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| Some(format!("/{index}{}", too_far(item, left)?))),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, value)| Some(format!("/{}{}", escaped(name), too_far(value, left)?))),
        _ => None,
    }
}

/// The exponent without its sign, 0 where it is small.
fn exponent(number: &str) -> u32 {
    let Some((_, exponent)) = number.split_once(['e', 'E']) else {
        return 0;
    };
    let exponent = exponent.trim_start_matches(['+', '-']).parse().unwrap_or(u32::MAX);
    if exponent > EXPONENT_FREE { exponent } else { 0 }
}

/// A member's name as JSON Pointer writes it.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A masked message begins with a space where the value was, or has one inside.
fn without_value(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

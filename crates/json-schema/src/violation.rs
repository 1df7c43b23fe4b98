//! One broken rule: where and which, never the value.

use std::fmt;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::meter::Meter;
use crate::metered::{Metered, NOT_READ, Reading};

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

/// More would only be cut off; and a hostile message can break a rule half a million times.
const VIOLATIONS_MAX: usize = 100;
/// The rule that a hostile message breaks.
const TAKES_TOO_LONG: &str =
    "takes too long to check: it has too much of what the schema looks at again and again";

/// What `instance` breaks of a schema, the first hundred rules; `at` is the instance's own pointer.
pub(super) fn violations(
    validator: &Validator<Metered>,
    instance: &Value,
    meter: &Meter,
    at: &str,
) -> Vec<Violation> {
    let reading = Reading { value: instance, meter: Some(meter) };
    let errors = validator.iter_errors(reading);
    let errors = errors.filter(|error| !std::ptr::eq(error.instance().as_ref(), &raw const NOT_READ));
    let mut found = Vec::new();
    for error in errors.take(VIOLATIONS_MAX) {
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
    let is_unknown = found.is_empty() || !meter.marks_what_is_not_read();
    if meter.is_exhausted() && is_unknown { vec![Violation::new(at, TAKES_TOO_LONG)] } else { found }
}

/// A member's name as JSON Pointer writes it.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A masked message begins with a space where the value was, or has one inside.
fn without_value(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

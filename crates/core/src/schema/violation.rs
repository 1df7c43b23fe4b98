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
        Self {
            pointer: pointer.into(),
            rule: rule.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() {
            "(whole document)"
        } else {
            &self.pointer
        };
        write!(f, "{place} {}", self.rule)
    }
}

/// All of them in one line.
#[must_use]
pub fn list(violations: &[Violation]) -> String {
    violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// What `instance` breaks of a schema; `at` is the instance's own pointer.
pub(crate) fn violations(validator: &Validator, instance: &Value, at: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for error in validator.iter_errors(instance) {
        let pointer = format!("{at}{}", error.instance_path().as_str());
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                found.extend(unexpected.iter().map(|name| {
                    Violation::new(
                        format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")),
                        "is not a known member",
                    )
                }));
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                found.push(Violation::new(format!("{pointer}/{name}"), "is missing"));
            }
            _ => found.push(Violation::new(
                pointer,
                without_value(&error.masked_with("").to_string()),
            )),
        }
    }
    found
}

/// A masked message begins with a space where the value was, or has one inside.
fn without_value(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

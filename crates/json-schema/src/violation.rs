//! Violations: the violated rule and its location, without the value.

use std::fmt;

/// A violated rule and its location. Displayed as `/data/cents is not of type "integer"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer (RFC 6901) to the violating value; empty for the whole document.
    pub pointer: String,
    /// The rule, as a phrase that follows the pointer.
    pub rule: String,
}

impl Violation {
    /// Creates a violation, for example of a rule that a schema cannot express.
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

/// Joins all violations into one line, separated by `; `.
#[must_use]
pub fn join_violations(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns the JSON Pointer (RFC 6901) to a member of the object at `parent`, with `~` and `/` in its name escaped.
#[must_use]
pub fn pointer_to(parent: &str, name: &str) -> String {
    format!("{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
}

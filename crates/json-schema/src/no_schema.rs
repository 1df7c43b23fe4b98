//! The schema type of programs without the validator.

use serde_json::Value;

use crate::{SchemaError, Violation};

/// Has no values.
#[derive(Clone, Debug)]
pub enum Schema {}

impl Schema {
    /// Compiles nothing.
    ///
    /// # Errors
    /// Always [`SchemaError::NoValidator`].
    pub fn of(_: &Value) -> Result<Self, SchemaError> {
        Err(SchemaError::NoValidator)
    }

    #[must_use]
    pub fn violations(&self, _: &Value, _: &str) -> Vec<Violation> {
        match *self {}
    }
}

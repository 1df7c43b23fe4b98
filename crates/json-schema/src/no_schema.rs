//! The schema type in programs without the validator.

use serde_json::Value;

use crate::{SchemaError, Violation};

/// A schema that cannot be created, since the program was built without the validator.
#[derive(Clone, Debug)]
pub enum Schema {}

impl Schema {
    /// Refuses every schema.
    ///
    /// # Errors
    /// Always fails with [`SchemaError::NoValidator`].
    pub fn from_value(_: &Value) -> Result<Self, SchemaError> {
        Err(SchemaError::NoValidator)
    }

    /// Never called, since the type has no values.
    #[must_use]
    pub fn violations(&self, _: &Value, _: &str) -> Vec<Violation> {
        match *self {}
    }
}

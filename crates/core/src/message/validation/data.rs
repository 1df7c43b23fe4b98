//! The user's schema: for `data`, or for the bodies of plain messages.

use redeliver_json_schema::{Schema, SchemaError, Violation};
use thiserror::Error;

use crate::json::value;

/// The reason why such a schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the schema is {0}")]
pub struct DataSchemaError(#[from] pub SchemaError);

/// A compiled schema for `data`. The dialect is its `$schema`, or 2020-12 without one.
#[derive(Clone, Debug)]
pub struct DataSchema(Schema);

impl DataSchema {
    /// Compiles a JSON Schema document.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, or a remote `$ref`: nothing is ever fetched.
    pub fn new(text: &str) -> Result<Self, DataSchemaError> {
        let schema = value::read(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        Ok(Self(Schema::of(&schema)?))
    }

    /// Violations of a well-formed text; `at` is its own pointer.
    #[must_use]
    pub fn violations(&self, text: &str, at: &str) -> Vec<Violation> {
        match value::read(text) {
            Ok(value) => self.0.violations(&value, at),
            // Skimming found it well-formed, so this is an error that skimming does not detect.
            Err(_) => vec![Violation::new(
                at,
                "has a lone surrogate in a string, which no schema can be checked against",
            )],
        }
    }
}

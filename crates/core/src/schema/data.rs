//! The user's schema for `data`.

use redeliver_json_schema::{Schema, SchemaError, Violation};
use thiserror::Error;

use crate::value;

/// Why a data schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the data schema is {0}")]
pub struct DataSchemaError(#[from] pub SchemaError);

/// A compiled schema for `data`. The dialect is that of its `$schema`, 2020-12 without one.
#[derive(Clone, Debug)]
pub struct DataSchema(Schema);

impl DataSchema {
    /// Compiles the text of a JSON Schema document.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, or a remote `$ref`: nothing is ever fetched.
    pub fn new(text: &str) -> Result<Self, DataSchemaError> {
        let schema = value::read(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        Ok(Self(Schema::of(&schema)?))
    }

    /// What the text of `data` breaks.
    #[must_use]
    pub fn violations(&self, data: &str) -> Vec<Violation> {
        match value::read(data) {
            Ok(value) => self.0.violations(&value, "/data"),
            // Skimming found it well-formed, so this is what skimming lets pass.
            Err(_) => vec![Violation::new(
                "/data",
                "has a lone surrogate in a string, which no schema can be checked against",
            )],
        }
    }
}

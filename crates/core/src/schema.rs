//! Schemas.

/// The message schema, and the user's schema for `data`.
#[derive(Debug)]
pub struct MessageSchema;

/// Why a data schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(String);

impl MessageSchema {
    /// Compiles the schemas; `data_schema` is the text of a JSON Schema 2020-12 document.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, a remote `$ref`.
    pub fn new(_data_schema: Option<&str>) -> Result<Self, SchemaError> {
        Ok(Self)
    }
}

//! The user's schema for `data`.

use jsonschema::{Retrieve, Uri, Validator};
use serde_json::Value;
use thiserror::Error;

use super::violation::{Violation, violations};
use crate::value;

/// Why a data schema is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The JSON parser's own words.
    #[error("the data schema is not JSON: {0}")]
    NotJson(String),
    /// Not a schema, or a reference that leads nowhere.
    #[error("the data schema is not a valid JSON Schema: {0}")]
    NotASchema(String),
}

/// A compiled schema for `data`. The dialect is that of its `$schema`, 2020-12 without one.
#[derive(Clone, Debug)]
pub struct DataSchema(Validator);

impl DataSchema {
    /// Compiles the text of a JSON Schema document.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, or a remote `$ref`: nothing is ever fetched.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        let schema: Value =
            serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        jsonschema::options()
            .with_retriever(NothingIsFetched)
            .build(&schema)
            .map(Self)
            .map_err(|error| SchemaError::NotASchema(describe(&error)))
    }

    /// What the text of `data` breaks.
    #[must_use]
    pub fn violations(&self, data: &str) -> Vec<Violation> {
        match value::read(data) {
            Ok(value) => violations(&self.0, &value, "/data"),
            // Skimming found it well-formed, so this is what skimming lets pass.
            Err(_) => vec![Violation::new(
                "/data",
                "has a lone surrogate in a string, which no schema can be checked against",
            )],
        }
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str();
    if pointer.is_empty() { error.to_string() } else { format!("{pointer}: {error}") }
}

struct NothingIsFetched;

impl Retrieve for NothingIsFetched {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("remote references are refused; put {uri} under \"$defs\" of the schema itself").into())
    }
}

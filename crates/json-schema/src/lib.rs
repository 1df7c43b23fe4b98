//! JSON Schema: what a document breaks of a schema, with JSON Pointers and without values.
//!
//! A crate of its own, since the validator's code is generic and compiled with its user: here it is built to be small, while
//! the core, which looks at every message, is built to be fast.

mod violation;

use jsonschema::{Retrieve, Uri, ValidationError, ValidationOptions, Validator};
use serde_json::Value;
use thiserror::Error;

pub use violation::{Violation, list};

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema(Validator);

/// Why a schema is refused: what it is, as a phrase.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The JSON parser's own words.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// Not a schema, or a reference that leads nowhere.
    #[error("not a valid JSON Schema: {0}")]
    NotASchema(String),
}

impl Schema {
    /// Compiles a schema. The dialect is that of its `$schema`, 2020-12 without one.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, or a remote `$ref`: nothing is ever fetched.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        Self::build(text, jsonschema::options())
    }

    /// The same, but each `format` is checked, which drafts from 2019-09 on do only if asked to.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn with_formats(text: &str) -> Result<Self, SchemaError> {
        Self::build(text, jsonschema::options().should_validate_formats(true))
    }

    fn build(text: &str, options: ValidationOptions<'_>) -> Result<Self, SchemaError> {
        let schema: Value =
            serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        let options = options.with_retriever(NothingIsFetched);
        options.build(&schema).map(Self).map_err(|error| SchemaError::NotASchema(describe(&error)))
    }

    /// What `instance` breaks, the first hundred rules; `at` is the instance's own pointer.
    #[must_use]
    pub fn violations(&self, instance: &Value, at: &str) -> Vec<Violation> {
        violation::violations(&self.0, instance, at)
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str();
    if pointer.is_empty() { error.to_string() } else { format!("{pointer}: {error}") }
}

struct NothingIsFetched;

impl Retrieve for NothingIsFetched {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("remote references are refused; put {uri} under \"$defs\" of the schema itself").into())
    }
}

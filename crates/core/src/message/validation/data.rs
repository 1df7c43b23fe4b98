//! The user's schema for `data`, or for the bodies of plain messages.

use redeliver_json_schema::{Schema, SchemaError, Violation};
use thiserror::Error;

use crate::json::members::skip_string;
use crate::json::value;

/// Limit on the number of values: a document with more is not checked. SQS limits its bytes, but 1 MiB can hold half a
/// million values, and a published schema needs up to ten thousand instructions per value.
const VALUES_MAX: usize = 100_000;

/// Length limit for numbers: a document with a longer one is not checked.
const NUMBER_LENGTH_MAX: usize = 1_000;

/// The reason why a schema for `data` is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the schema is {0}")]
pub struct DataSchemaError(#[from] pub SchemaError);

/// A compiled schema for `data`. Its `$schema` gives the dialect; without one, it is 2020-12.
#[derive(Clone, Debug)]
pub struct DataSchema(Schema);

impl DataSchema {
    /// Compiles a JSON Schema document.
    ///
    /// # Errors
    /// Returns an error if the document is not JSON, is not a valid schema, or has a remote `$ref`: nothing is ever
    /// fetched.
    pub fn new(text: &str) -> Result<Self, DataSchemaError> {
        let schema = value::parse_value(text).map_err(|error| SchemaError::NotJson(error.to_string()))?;
        Ok(Self(Schema::from_value(&schema)?))
    }

    /// Returns all violations in a well-formed JSON text that is located at the pointer `at`. A document with more than
    /// 100,000 values, or with a number of more than 1,000 characters, is not checked; this is then its only violation.
    #[must_use]
    pub fn violations(&self, text: &str, at: &str) -> Vec<Violation> {
        if let Some(excess) = find_exceeded_limit(text) {
            return vec![Violation::new(at, format!("has {excess}, too much to check against a schema"))];
        }
        match value::parse_value(text) {
            Ok(value) => self.0.violations(&value, at),
            // The text is well-formed, so this is the only error that skimming does not detect.
            Err(_) => vec![Violation::new(at, "has a lone surrogate in a string, so no schema can check it")],
        }
    }
}

/// Returns the limit that a document exceeds, if any. Used before the document is parsed.
fn find_exceeded_limit(text: &str) -> Option<String> {
    let (mut values, mut number_length, mut last) = (1_usize, 0_usize, b' ');
    let mut bytes = text.bytes().enumerate();
    while let Some((_, byte)) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            b'"' => skip_string(&mut bytes),
            // An opening bracket counts as the first value inside it.
            b',' | b'[' | b'{' => values += 1,
            b']' | b'}' if matches!(last, b'[' | b'{') => values -= 1,
            _ => {}
        }
        last = byte;
        number_length = if matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E') {
            number_length + 1
        } else {
            0
        };
        if number_length > NUMBER_LENGTH_MAX {
            return Some(format!("a number of more than {NUMBER_LENGTH_MAX} characters"));
        }
    }
    (values > VALUES_MAX).then(|| format!("more than {VALUES_MAX} values"))
}

//! Compiled schemas.

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, ValidationOptions, Validator};
use regex::RegexBuilder;
use serde_json::Value;

use crate::reading::ValidatedJson;
use crate::{SchemaError, Violation, check, numeric};

/// Size limit of a compiled pattern: the default of `regex::RegexBuilder::size_limit`.
const PATTERN_MIB_MAX: usize = 10;
/// The longest value or pointer that an error quotes in full, in bytes.
const QUOTED_BYTES_MAX: usize = 200;

/// Options for compiling a schema.
pub(crate) type SchemaOptions<'a> = ValidationOptions<'a, Arc<dyn Retrieve>, ValidatedJson>;

/// A compiled JSON Schema.
#[derive(Clone, Debug)]
pub struct Schema(Validator<ValidatedJson>);

impl Schema {
    /// Compiles one of redeliver's own schemas. `$schema` sets the dialect, 2020-12 by default.
    ///
    /// # Errors
    /// The text is not JSON, is not a valid schema, or has a remote `$ref`, which is never fetched.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        Self::from_value(&parse_json(text)?)
    }

    /// Compiles any schema, like [`Schema::new`]. The caller must have rejected member names that `serde_json`
    /// reserves.
    ///
    /// # Errors
    /// Same as [`Schema::new`].
    pub fn from_value(schema: &Value) -> Result<Self, SchemaError> {
        Self::compile_schema(schema, jsonschema::options_for())
    }

    /// Compiles a schema like [`Schema::new`], and also checks each `format`, which is optional since draft 2019-09.
    ///
    /// # Errors
    /// Same as [`Schema::new`].
    pub fn with_formats(text: &str) -> Result<Self, SchemaError> {
        Self::compile_schema(&parse_json(text)?, jsonschema::options_for().should_validate_formats(true))
    }

    fn compile_schema(schema: &Value, options: SchemaOptions<'_>) -> Result<Self, SchemaError> {
        // This engine never backtracks, so the cost of a match is proportional to the string's length.
        let patterns = PatternOptions::regex().size_limit(PATTERN_MIB_MAX << 20);
        let options = options.with_retriever(NoRemoteReferences).with_pattern_options(patterns);
        let validator = numeric::with_keywords(options, schema).build(schema);
        validator.map(Self).map_err(|error| SchemaError::NotASchema(describe_error(&error)))
    }

    /// Returns the violations in `instance`, at most 100 and about 64 KiB of text. Each pointer starts with `at`. Empty
    /// if the instance is valid.
    #[must_use]
    pub fn violations(&self, instance: &Value, at: &str) -> Vec<Violation> {
        check::find_violations(&self.0, instance, at)
    }
}

struct NoRemoteReferences;

impl Retrieve for NoRemoteReferences {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("remote references are refused; put {uri} under \"$defs\" of the schema itself").into())
    }
}

fn parse_json(text: &str) -> Result<Value, SchemaError> {
    serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))
}

fn describe_error(error: &ValidationError<'_>) -> String {
    let pointer = shorten_text(error.instance_path().as_str());
    let value = error.instance().to_string();
    let rule = match value.len() > QUOTED_BYTES_MAX {
        true => error.masked_with(shorten_text(&value)).to_string(),
        false => error.to_string(),
    };
    let rule = match explain_regex_error(error) {
        Some(why) => format!("{rule}: {why}"),
        None => rule,
    };
    if pointer.is_empty() { rule } else { format!("{pointer}: {rule}") }
}

/// Explains why the engine rejects a regular expression; `None` for a syntax error.
fn explain_regex_error(error: &ValidationError<'_>) -> Option<String> {
    let pattern = error.instance().as_str()?;
    if may_backtrack(pattern) {
        let why = "look-around and back-references are not supported; write \"(?!x)\" as \"not\"";
        return Some(why.to_owned());
    }
    let is_regex_error =
        matches!(error.kind(), ValidationErrorKind::Format { format } if format.as_str() == "regex");
    // The validator reports only that the pattern is not a regular expression.
    let compiled = || RegexBuilder::new(pattern).size_limit(PATTERN_MIB_MAX << 20).build();
    (is_regex_error && matches!(compiled(), Err(regex::Error::CompiledTooBig(_)))).then(|| {
        format!("it needs more than {PATTERN_MIB_MAX} MiB when compiled; write long counts as maxLength")
    })
}

/// True if a pattern appears to use look-around or back-references, which the engine does not support.
fn may_backtrack(pattern: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!", r"\1", r"\2", r"\k<"].iter().any(|token| pattern.contains(token))
}

/// Truncates a string to [`QUOTED_BYTES_MAX`].
fn shorten_text(text: &str) -> String {
    if text.len() <= QUOTED_BYTES_MAX {
        return text.to_owned();
    }
    let quote = if text.starts_with('"') { "\"" } else { "" };
    format!("{}…{quote}", &text[..text.floor_char_boundary(QUOTED_BYTES_MAX)])
}

#[cfg(test)]
mod tests;

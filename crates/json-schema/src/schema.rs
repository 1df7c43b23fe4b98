//! A schema, compiled.

use std::rc::Rc;
use std::sync::Arc;

use jsonschema::{PatternOptions, Retrieve, Uri, ValidationError, ValidationOptions, Validator};
use serde_json::Value;

use crate::evaluations::Evaluations;
use crate::meter::{Meter, Names};
use crate::metered::Metered;
use crate::{SchemaError, Violation, found, numeric, pattern};

#[derive(Clone, Debug)]
pub struct Schema {
    validator: Validator<Metered>,
    names: Names,
}

/// How a schema is compiled.
pub(crate) type Options<'a> = ValidationOptions<'a, Arc<dyn Retrieve>, Metered>;

impl Schema {
    /// Compiles a schema of our own. The dialect is that of its `$schema`, 2020-12 without one.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, or a remote `$ref`: nothing is ever fetched.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        Self::of(&read(text)?)
    }

    /// Compiles a schema like [`Schema::new`], whoever has written it: who has read the text has seen to the names that
    /// `serde_json` keeps for itself.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn of(schema: &Value) -> Result<Self, SchemaError> {
        Self::build(schema, jsonschema::options_for())
    }

    /// Compiles a schema like [`Schema::new`], but each `format` is checked, which drafts from 2019-09 on do only if asked to.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn with_formats(text: &str) -> Result<Self, SchemaError> {
        Self::build(&read(text)?, jsonschema::options_for().should_validate_formats(true))
    }

    fn build(schema: &Value, options: Options<'_>) -> Result<Self, SchemaError> {
        let metered = Evaluations::of(schema)?.with_metering_rules(schema);
        let options = pattern::keyword(numeric::keywords(options.with_retriever(NothingIsFetched)));
        let of_byte = of_names(schema);
        // First by an engine that never steps back, whose cost is known from a text's length.
        let linear = options.clone().with_pattern_options(pattern::linear(of_byte));
        if let Ok(validator) = linear.build(&metered) {
            return Ok(Self { validator, names: Names { of_byte, ..Names::default() } });
        }
        // Either it is wrong, or names are matched with look-around.
        let engine = PatternOptions::fancy_regex().backtrack_limit(pattern::STEPS_BACK_OF_NAME);
        let options = options.with_pattern_options(engine);
        // What is wrong with it is told in its own words.
        let validator = options.clone().build(&metered).or_else(|_| options.build(schema));
        let validator = validator.map_err(|error| SchemaError::NotASchema(describe(&error)))?;
        let (of_name, of_step) = pattern::of_steps_back(pattern::STEPS_BACK_OF_NAME);
        let names = Names { of_name, of_byte: of_byte + of_step, step_back: true };
        Ok(Self { validator, names })
    }

    /// What `instance` breaks, the first hundred rules; `at` is the instance's own pointer. A check that takes too long
    /// is one.
    #[must_use]
    pub fn violations(&self, instance: &Value, at: &str) -> Vec<Violation> {
        found::violations(&self.validator, instance, &self.meter(), at)
    }

    /// For one check.
    fn meter(&self) -> Rc<Meter> {
        Rc::new(Meter::new(self.names))
    }
}

fn read(text: &str) -> Result<Value, SchemaError> {
    serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))
}

/// What a byte of a name takes, with the dearest pattern of any `patternProperties`.
fn of_names(schema: &Value) -> u64 {
    match schema {
        Value::Object(members) => {
            let patterns = members.get("patternProperties").and_then(Value::as_object);
            let patterns = patterns.into_iter().flat_map(|patterns| patterns.keys());
            let here = patterns.map(|pattern| pattern::of_byte(pattern)).max().unwrap_or(0);
            members.values().map(of_names).fold(here, u64::max)
        }
        Value::Array(items) => items.iter().map(of_names).max().unwrap_or(0),
        _ => 0,
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str();
    if pointer.is_empty() { error.to_string() } else { format!("{pointer}: {error}") }
}

pub(crate) struct NothingIsFetched;

impl Retrieve for NothingIsFetched {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("remote references are refused; put {uri} under \"$defs\" of the schema itself").into())
    }
}

#[cfg(test)]
mod tests;

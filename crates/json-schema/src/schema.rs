//! A compiled schema.

use std::rc::Rc;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::evaluations::Evaluations;
use crate::meter::{Meter, NameCosts};
use crate::metered::Metered;
use crate::options::{NoRemoteReferences, Options};
use crate::{SchemaError, Violation, check, numeric, pattern};

#[derive(Clone, Debug)]
pub struct Schema {
    validator: Validator<Metered>,
    names: NameCosts,
}

impl Schema {
    /// Compiles one of our schemas. The dialect is that of its `$schema`, 2020-12 by default.
    ///
    /// # Errors
    /// Not JSON, not a valid schema, or a remote `$ref`, which is never fetched.
    pub fn new(text: &str) -> Result<Self, SchemaError> {
        Self::of(&read(text)?)
    }

    /// Compiles any schema like [`Schema::new`]. The caller's parser must have refused names that `serde_json`
    /// reserves.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn of(schema: &Value) -> Result<Self, SchemaError> {
        Self::build(schema, jsonschema::options_for())
    }

    /// Compiles a schema like [`Schema::new`], and also checks each `format`, which is optional since draft 2019-09.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn with_formats(text: &str) -> Result<Self, SchemaError> {
        Self::build(&read(text)?, jsonschema::options_for().should_validate_formats(true))
    }

    fn build(schema: &Value, options: Options<'_>) -> Result<Self, SchemaError> {
        let metered = Evaluations::of(schema)?.with_metering_rules(schema);
        let options = pattern::keyword(numeric::keywords(options.with_retriever(NoRemoteReferences)));
        let per_byte = cost_of_name_byte(schema);
        // First with an engine that never backtracks, whose cost follows from a text's length.
        let linear = options.clone().with_pattern_options(pattern::linear(per_byte));
        if let Ok(validator) = linear.build(&metered) {
            return Ok(Self { validator, names: NameCosts { per_byte, ..NameCosts::default() } });
        }
        // The schema is invalid, or matches names with look-around.
        let engine = PatternOptions::fancy_regex().backtrack_limit(pattern::NAME_BACKTRACKS);
        let options = options.with_pattern_options(engine);
        // The error must describe the original schema.
        let validator = options.clone().build(&metered).or_else(|_| options.build(schema));
        let validator = validator.map_err(|error| SchemaError::NotASchema(describe(&error)))?;
        let (per_name, per_step) = pattern::backtracking_costs(pattern::NAME_BACKTRACKS);
        let names = NameCosts { per_name, per_byte: per_byte + per_step, may_backtrack: true };
        Ok(Self { validator, names })
    }

    /// The first hundred violations by `instance`, whose own pointer is `at`. A check that takes too long is a
    /// violation, too.
    #[must_use]
    pub fn violations(&self, instance: &Value, at: &str) -> Vec<Violation> {
        check::violations(&self.validator, instance, &self.meter(), at)
    }

    /// A new meter for one check.
    fn meter(&self) -> Rc<Meter> {
        Rc::new(Meter::new(self.names))
    }
}

fn read(text: &str) -> Result<Value, SchemaError> {
    serde_json::from_str(text).map_err(|error| SchemaError::NotJson(error.to_string()))
}

/// The steps of a byte of a name, with the most expensive pattern of any `patternProperties`.
fn cost_of_name_byte(schema: &Value) -> u64 {
    match schema {
        Value::Object(members) => {
            let patterns = members.get("patternProperties").and_then(Value::as_object);
            let patterns = patterns.into_iter().flat_map(|patterns| patterns.keys());
            let here = patterns.map(|pattern| pattern::cost_of_byte(pattern)).max().unwrap_or(0);
            members.values().map(cost_of_name_byte).fold(here, u64::max)
        }
        Value::Array(items) => items.iter().map(cost_of_name_byte).max().unwrap_or(0),
        _ => 0,
    }
}

fn describe(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().as_str();
    if pointer.is_empty() { error.to_string() } else { format!("{pointer}: {error}") }
}

#[cfg(test)]
mod tests;

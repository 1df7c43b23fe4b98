//! JSON Schema validation, whose violations have JSON Pointers, but no values.
//!
//! The validator's code is generic and compiled with its user. A separate crate optimizes it for size, while the core,
//! which reads every message, is optimized for speed.
//!
//! ```
//! # #[cfg(feature = "validator")] {
//! use redeliver_json_schema::{Schema, list};
//!
//! let schema = Schema::new(r#"{"properties": {"cents": {"type": "integer"}}}"#)?;
//! let violations = schema.violations(&serde_json::json!({"cents": "4990"}), "/data");
//! assert_eq!(list(&violations), r#"/data/cents is not of type "integer""#);
//! # }
//! # Ok::<(), redeliver_json_schema::SchemaError>(())
//! ```

#[cfg(feature = "validator")]
mod check;
#[cfg_attr(not(feature = "validator"), expect(dead_code, reason = "only the validator divides"))]
mod decimal;
#[cfg(feature = "validator")]
mod evaluations;
#[cfg(feature = "validator")]
mod meter;
#[cfg(feature = "validator")]
mod metered;
#[cfg(feature = "validator")]
mod numeric;
#[cfg(feature = "validator")]
mod options;
#[cfg(feature = "validator")]
mod pattern;
#[cfg(feature = "validator")]
mod schema;
#[cfg(not(feature = "validator"))]
#[path = "no_schema.rs"]
mod schema;
#[cfg(feature = "validator")]
mod unique;
mod violation;

use thiserror::Error;

pub use decimal::Decimal;
pub use schema::Schema;
pub use violation::{Violation, list, pointer_to};

/// The reason to refuse a schema, as a phrase about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The JSON parser's message.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// Not a schema, or a dangling reference.
    #[error("not a valid JSON Schema: {0}")]
    NotASchema(String),
    /// A single value needs too many evaluations.
    #[error(
        "too expensive to check: {} evaluates one value more than {max} times; each level that refers to the next one \
         twice doubles the work",
        place(pointer)
    )]
    Repeats { pointer: String, max: u64 },
    /// Too many nested schemas evaluate a single value.
    #[error(
        "too deep to check: {} is reached through more than {max} schemas that check the same value; write the cases as \
         `allOf` of `if`/`then`",
        place(pointer)
    )]
    TooDeep { pointer: String, max: usize },
    /// This program has no validator.
    #[error("not supported by a program without the feature `validator`")]
    NoValidator,
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "its root" } else { pointer }
}

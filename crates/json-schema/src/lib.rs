//! JSON Schema validation whose violations contain JSON Pointers, but no values.
//!
//! The validator's code is generic, and therefore compiled in the crate that uses it. This separate crate can be
//! optimized for size, whereas the core, which reads every message, is optimized for speed.
//!
//! ```
//! # #[cfg(feature = "validator")] {
//! use redeliver_json_schema::{Schema, join_violations};
//!
//! let schema = Schema::new(r#"{"properties": {"cents": {"type": "integer"}}}"#)?;
//! let violations = schema.violations(&serde_json::json!({"cents": "4990"}), "/data");
//! assert_eq!(join_violations(&violations), r#"/data/cents is not of type "integer""#);
//! # }
//! # Ok::<(), redeliver_json_schema::SchemaError>(())
//! ```

#[cfg(feature = "validator")]
mod check;
#[cfg(feature = "validator")]
mod date_time;
#[cfg_attr(not(feature = "validator"), expect(dead_code, reason = "only the validator divides"))]
mod decimal;
#[cfg(feature = "validator")]
mod numeric;
#[cfg(feature = "validator")]
mod reading;
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
pub use violation::{Violation, join_violations, pointer_to};

/// The reason for rejecting a schema, as a phrase that describes the schema.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The text is not JSON. Contains the parser's message.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// The JSON is not a valid schema, or has a dangling reference.
    #[error("not a valid JSON Schema: {0}")]
    NotASchema(String),
    /// The program was built without the validator.
    #[error("not supported by a program without the feature `validator`")]
    NoValidator,
}

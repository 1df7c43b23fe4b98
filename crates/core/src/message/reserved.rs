//! Reserved names of message attributes and error types. Producers must not use `Failure`, nor `Redeliver` on plain
//! messages.

/// Attribute of messages between the functions: the document that describes a hand-off, a hop or a verdict.
pub const FAILURE: &str = "Failure";
/// Attribute of plain messages, with the same content as an envelope's `metadata`.
pub const REDELIVER: &str = "Redeliver";
/// Attribute of final records: the reason's code.
pub const ERROR_TYPE: &str = "ErrorType";
/// Attribute of final records: the explanation.
pub const ERROR_DETAILS: &str = "ErrorDetails";
/// Attribute of final records: the document with all details.
pub const DEAD_LETTER: &str = "DeadLetter";

/// Error type of a message that SQS moved under its redrive policy: the cause is unknown.
pub const REDRIVE: &str = "Redrive";
/// Error type of a message whose call was not started before the deadline.
pub const NOT_STARTED: &str = "NotStarted";
/// Error type of a message that was held without a call because its target is down.
pub const CIRCUIT_OPEN: &str = "CircuitOpen";
/// Error type of a message that was held without a call because its target has refused calls.
pub const RATE_LIMITED: &str = "RateLimited";

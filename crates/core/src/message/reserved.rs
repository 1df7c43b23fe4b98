//! Reserved names of message attributes and error types. Producers must not use `Failure`, or `Redeliver` on plain
//! messages.

/// On messages between the functions: the reason for a hand-off, a hop or a verdict.
pub const FAILURE: &str = "Failure";
/// On a plain message: the content of an envelope's `metadata`.
pub const REDELIVER: &str = "Redeliver";
/// In a final record: the reason's code.
pub const ERROR_TYPE: &str = "ErrorType";
/// In a final record: the explanation.
pub const ERROR_DETAILS: &str = "ErrorDetails";
/// In a final record: the document with all details.
pub const DEAD_LETTER: &str = "DeadLetter";

/// Error type of a message that SQS moved by redrive: the cause is unknown.
pub const REDRIVE: &str = "Redrive";
/// Error type of a message that was not started before the deadline.
pub const NOT_STARTED: &str = "NotStarted";
/// Error type of a message that was not called because its target is down.
pub const CIRCUIT_OPEN: &str = "CircuitOpen";
/// Error type of a message that was not called because its target limits its calls.
pub const RATE_LIMITED: &str = "RateLimited";

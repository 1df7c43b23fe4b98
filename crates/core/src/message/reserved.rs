//! The message attributes that are ours. Producers may not use `Failure`, nor `Redeliver` on plain messages.

/// Between the functions: the reason for a hand-off, a hop or a verdict.
pub const FAILURE: &str = "Failure";
/// On a plain message: the content of an envelope's `metadata`.
pub const REDELIVER: &str = "Redeliver";
/// In a final record: the reason's code.
pub const ERROR_TYPE: &str = "ErrorType";
/// In a final record: the explanation.
pub const ERROR_DETAILS: &str = "ErrorDetails";
/// In a final record: the document.
pub const DEAD_LETTER: &str = "DeadLetter";

//! The names of the message attributes that are ours. Only `Failure` is denied to producers, and `Redeliver` to producers
//! of plain messages.

/// Between the functions: why a message was handed off, waits, or was given up.
pub const FAILURE: &str = "Failure";
/// On a plain message: what `metadata` is in an envelope.
pub const REDELIVER: &str = "Redeliver";
/// In a final record: the code.
pub const ERROR_TYPE: &str = "ErrorType";
/// In a final record: the text.
pub const ERROR_DETAILS: &str = "ErrorDetails";
/// In a final record: the document.
pub const DEAD_LETTER: &str = "DeadLetter";

//! Dramatiq keeps the traceback of the last failure among a message's options ("Message Middleware: Retries", Dramatiq
//! documentation). Its last line names the exception.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Dramatiq,
    marks: &[
        FieldLocation::Body(&["actor_name"]),
        FieldLocation::Body(&["queue_name"]),
        FieldLocation::Body(&["message_id"]),
    ],
    source: &[FieldLocation::Body(&["actor_name"])],
    error_type: &[],
    message: &[FieldLocation::LastLine(&["options", "traceback"])],
    attempts: &[FieldLocation::Body(&["options", "retries"])],
    failed_at: &[],
};

//! Dramatiq keeps the traceback of the last failure among a message's options ("Message Middleware: Retries", Dramatiq
//! documentation). Its last line names the exception.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Dramatiq,
    marks: &[Place::Body(&["actor_name"]), Place::Body(&["queue_name"]), Place::Body(&["message_id"])],
    source: &[Place::Body(&["actor_name"])],
    error_type: &[],
    message: &[Place::LastLine(&["options", "traceback"])],
    attempts: &[Place::Body(&["options", "retries"])],
    failed_at: &[],
};

//! Faktory's job payload has the last error in `failure` ("The Job Payload", Faktory wiki).

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Faktory,
    marks: &[Place::Body(&["jobtype"]), Place::Body(&["jid"])],
    source: &[Place::Body(&["jobtype"])],
    error_type: &[Place::Body(&["failure", "errtype"])],
    message: &[Place::Body(&["failure", "message"])],
    attempts: &[Place::Body(&["failure", "retry_count"])],
    failed_at: &[Place::Body(&["failure", "failed_at"])],
};

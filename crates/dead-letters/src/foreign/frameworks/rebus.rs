//! Rebus adds the exception as text to a message that it moves to the error queue ("Automatic retries and error
//! handling", Rebus wiki). On SQS the headers are in the body.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Rebus,
    marks: &[Place::Body(&["Headers", "rbs2-error-details"])],
    source: &[Place::Body(&["Headers", "rbs2-source-queue"])],
    error_type: &[],
    message: &[Place::FirstLine(&["Headers", "rbs2-error-details"])],
    attempts: &[],
    failed_at: &[],
};

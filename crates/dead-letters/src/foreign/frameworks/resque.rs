//! Resque's failure hash has the exception and the job (`Resque::Failure::Redis`, Resque documentation).

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Resque,
    marks: &[Place::Body(&["payload", "class"]), Place::Body(&["exception"])],
    source: &[Place::Body(&["payload", "class"])],
    error_type: &[Place::Body(&["exception"])],
    message: &[Place::Body(&["error"])],
    attempts: &[],
    failed_at: &[],
};

//! Celery's messages name the task and count its retries ("Message Protocol", Celery documentation). The error is in the
//! result backend alone.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Celery,
    marks: &[Place::Body(&["headers", "task"]), Place::Body(&["properties"]), Place::Body(&["body"])],
    source: &[Place::Body(&["headers", "task"])],
    error_type: &[],
    message: &[],
    attempts: &[Place::Body(&["headers", "retries"])],
    failed_at: &[],
};

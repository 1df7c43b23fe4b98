//! Celery's messages name the task and count its retries ("Message Protocol", Celery documentation). The error is only
//! in the result backend.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Celery,
    marks: &[
        FieldLocation::Body(&["headers", "task"]),
        FieldLocation::Body(&["properties"]),
        FieldLocation::Body(&["body"]),
    ],
    source: &[FieldLocation::Body(&["headers", "task"])],
    error_type: &[],
    message: &[],
    attempts: &[FieldLocation::Body(&["headers", "retries"])],
    failed_at: &[],
};

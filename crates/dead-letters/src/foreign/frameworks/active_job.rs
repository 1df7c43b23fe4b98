//! Active Job's serialized jobs name the class and count its executions (`ActiveJob::Core#serialize`, Rails API), as
//! Shoryuken and aws-activejob-sqs send them. The error is only in the log.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::ActiveJob,
    marks: &[FieldLocation::Body(&["job_class"]), FieldLocation::Body(&["job_id"])],
    source: &[FieldLocation::Body(&["job_class"])],
    error_type: &[],
    message: &[],
    attempts: &[FieldLocation::Body(&["executions"])],
    failed_at: &[],
};

//! Active Job's serialized jobs, as sent by Shoryuken and aws-activejob-sqs, name the class and count its executions
//! (`ActiveJob::Core#serialize`, Rails API). The error is only in the log.

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

//! Active Job's serialised jobs name the class and count its executions (`ActiveJob::Core#serialize`, Rails API), as
//! Shoryuken and aws-activejob-sqs send them. The error is in the log alone.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::ActiveJob,
    marks: &[Place::Body(&["job_class"]), Place::Body(&["job_id"])],
    source: &[Place::Body(&["job_class"])],
    error_type: &[],
    message: &[],
    attempts: &[Place::Body(&["executions"])],
    failed_at: &[],
};

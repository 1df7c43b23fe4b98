//! Rebus adds the exception as text to a message that it moves to the error queue ("Automatic retries and error
//! handling", Rebus wiki). On SQS the headers are in the body.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Rebus,
    marks: &[FieldLocation::Body(&["Headers", "rbs2-error-details"])],
    source: &[FieldLocation::Body(&["Headers", "rbs2-source-queue"])],
    error_type: &[],
    message: &[FieldLocation::FirstLine(&["Headers", "rbs2-error-details"])],
    attempts: &[],
    failed_at: &[],
};

//! Resque's failure hash has the exception and the job (`Resque::Failure::Redis`, Resque documentation).

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Resque,
    marks: &[FieldLocation::Body(&["payload", "class"]), FieldLocation::Body(&["exception"])],
    source: &[FieldLocation::Body(&["payload", "class"])],
    error_type: &[FieldLocation::Body(&["exception"])],
    message: &[FieldLocation::Body(&["error"])],
    attempts: &[],
    failed_at: &[],
};

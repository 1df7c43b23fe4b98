//! Faktory's job payload has the last error in `failure` ("The Job Payload", Faktory wiki).

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Faktory,
    marks: &[FieldLocation::Body(&["jobtype"]), FieldLocation::Body(&["jid"])],
    source: &[FieldLocation::Body(&["jobtype"])],
    error_type: &[FieldLocation::Body(&["failure", "errtype"])],
    message: &[FieldLocation::Body(&["failure", "message"])],
    attempts: &[FieldLocation::Body(&["failure", "retry_count"])],
    failed_at: &[FieldLocation::Body(&["failure", "failed_at"])],
};

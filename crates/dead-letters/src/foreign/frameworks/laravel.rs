//! Laravel's queued jobs name their class ("Queues", Laravel documentation). The exception is only in the table
//! `failed_jobs`.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Laravel,
    marks: &[
        FieldLocation::Body(&["displayName"]),
        FieldLocation::Body(&["uuid"]),
        FieldLocation::Body(&["data"]),
    ],
    source: &[FieldLocation::Body(&["displayName"])],
    error_type: &[],
    message: &[],
    attempts: &[FieldLocation::Body(&["attempts"])],
    failed_at: &[],
};

//! Sidekiq's job hash has the last error ("Job Format", Sidekiq wiki). The class of an Active Job is in `wrapped`.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::Sidekiq,
    marks: &[FieldLocation::Body(&["class"]), FieldLocation::Body(&["jid"])],
    source: &[FieldLocation::Body(&["wrapped"]), FieldLocation::Body(&["class"])],
    error_type: &[FieldLocation::Body(&["error_class"])],
    message: &[FieldLocation::Body(&["error_message"])],
    attempts: &[FieldLocation::Body(&["retry_count"])],
    failed_at: &[],
};

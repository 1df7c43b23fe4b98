//! Sidekiq's job hash has the last error ("Job Format", Sidekiq wiki). The class of an Active Job is in `wrapped`.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Sidekiq,
    marks: &[Place::Body(&["class"]), Place::Body(&["jid"])],
    source: &[Place::Body(&["wrapped"]), Place::Body(&["class"])],
    error_type: &[Place::Body(&["error_class"])],
    message: &[Place::Body(&["error_message"])],
    attempts: &[Place::Body(&["retry_count"])],
    failed_at: &[],
};

//! Laravel's queued jobs name their class ("Queues", Laravel documentation). The exception is in the table `failed_jobs`
//! alone.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::Laravel,
    marks: &[Place::Body(&["displayName"]), Place::Body(&["uuid"]), Place::Body(&["data"])],
    source: &[Place::Body(&["displayName"])],
    error_type: &[],
    message: &[],
    attempts: &[Place::Body(&["attempts"])],
    failed_at: &[],
};

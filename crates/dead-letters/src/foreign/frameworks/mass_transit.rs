//! MassTransit moves a message to the queue `NAME_error` with headers about its fault ("Exceptions", MassTransit
//! documentation). On SQS a header is a message attribute.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::MassTransit,
    marks: &[Place::Attribute("MT-Fault-ExceptionType")],
    source: &[
        Place::Attribute("MT-Fault-ConsumerType"),
        Place::Attribute("MT-Fault-InputAddress"),
        Place::Attribute("MT-Fault-MessageType"),
    ],
    error_type: &[Place::Attribute("MT-Fault-ExceptionType")],
    message: &[Place::Attribute("MT-Fault-Message")],
    attempts: &[Place::Attribute("MT-Fault-RetryCount")],
    failed_at: &[Place::Attribute("MT-Fault-Timestamp")],
};

/// The headers of MassTransit's own envelope.
pub(super) const IN_ENVELOPE: Shape = Shape {
    writer: Writer::MassTransit,
    marks: &[Place::Body(&["headers", "MT-Fault-ExceptionType"])],
    source: &[
        Place::Body(&["headers", "MT-Fault-ConsumerType"]),
        Place::Body(&["headers", "MT-Fault-InputAddress"]),
        Place::Body(&["headers", "MT-Fault-MessageType"]),
    ],
    error_type: &[Place::Body(&["headers", "MT-Fault-ExceptionType"])],
    message: &[Place::Body(&["headers", "MT-Fault-Message"])],
    attempts: &[Place::Body(&["headers", "MT-Fault-RetryCount"])],
    failed_at: &[Place::Body(&["headers", "MT-Fault-Timestamp"])],
};

//! MassTransit moves a message to the queue `NAME_error` with headers about its fault ("Exceptions", MassTransit
//! documentation). On SQS a header is a message attribute.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::MassTransit,
    marks: &[FieldLocation::Attribute("MT-Fault-ExceptionType")],
    source: &[
        FieldLocation::Attribute("MT-Fault-ConsumerType"),
        FieldLocation::Attribute("MT-Fault-InputAddress"),
        FieldLocation::Attribute("MT-Fault-MessageType"),
    ],
    error_type: &[FieldLocation::Attribute("MT-Fault-ExceptionType")],
    message: &[FieldLocation::Attribute("MT-Fault-Message")],
    attempts: &[FieldLocation::Attribute("MT-Fault-RetryCount")],
    failed_at: &[FieldLocation::Attribute("MT-Fault-Timestamp")],
};

/// The headers in MassTransit's own envelope.
pub(super) const IN_ENVELOPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::MassTransit,
    marks: &[FieldLocation::Body(&["headers", "MT-Fault-ExceptionType"])],
    source: &[
        FieldLocation::Body(&["headers", "MT-Fault-ConsumerType"]),
        FieldLocation::Body(&["headers", "MT-Fault-InputAddress"]),
        FieldLocation::Body(&["headers", "MT-Fault-MessageType"]),
    ],
    error_type: &[FieldLocation::Body(&["headers", "MT-Fault-ExceptionType"])],
    message: &[FieldLocation::Body(&["headers", "MT-Fault-Message"])],
    attempts: &[FieldLocation::Body(&["headers", "MT-Fault-RetryCount"])],
    failed_at: &[FieldLocation::Body(&["headers", "MT-Fault-Timestamp"])],
};

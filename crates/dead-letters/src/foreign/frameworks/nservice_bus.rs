//! NServiceBus adds headers to a message that it moves to the error queue ("Error forwarding headers" in "Message
//! Headers", NServiceBus documentation). On SQS the headers are in the body.

use super::{FieldLocation, ForeignWriter, FrameworkShape};

pub(super) const SHAPE: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::NServiceBus,
    marks: &[FieldLocation::Body(&["Headers", "NServiceBus.ExceptionInfo.ExceptionType"])],
    source: &[
        FieldLocation::Body(&["Headers", "NServiceBus.ProcessingEndpoint"]),
        FieldLocation::Body(&["Headers", "NServiceBus.FailedQ"]),
    ],
    error_type: &[FieldLocation::Body(&["Headers", "NServiceBus.ExceptionInfo.ExceptionType"])],
    message: &[FieldLocation::Body(&["Headers", "NServiceBus.ExceptionInfo.Message"])],
    attempts: &[FieldLocation::Body(&["Headers", "NServiceBus.Retries"])],
    failed_at: &[],
};

/// The headers in a message attribute, if `DoNotWrapOutgoingMessages` is set ("Amazon SQS Transport configuration
/// options").
pub(super) const UNWRAPPED: FrameworkShape = FrameworkShape {
    writer: ForeignWriter::NServiceBus,
    marks: &[FieldLocation::InAttribute(
        "NServiceBus.AmazonSQS.Headers",
        "NServiceBus.ExceptionInfo.ExceptionType",
    )],
    source: &[
        FieldLocation::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.ProcessingEndpoint"),
        FieldLocation::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.FailedQ"),
    ],
    error_type: &[FieldLocation::InAttribute(
        "NServiceBus.AmazonSQS.Headers",
        "NServiceBus.ExceptionInfo.ExceptionType",
    )],
    message: &[FieldLocation::InAttribute(
        "NServiceBus.AmazonSQS.Headers",
        "NServiceBus.ExceptionInfo.Message",
    )],
    attempts: &[FieldLocation::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.Retries")],
    failed_at: &[],
};

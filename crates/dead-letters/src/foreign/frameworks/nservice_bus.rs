//! NServiceBus adds headers to a message that it moves to the error queue ("Error forwarding headers" in "Message
//! Headers", NServiceBus documentation). On SQS the headers are in the body.

use super::{Place, Shape, Writer};

pub(super) const SHAPE: Shape = Shape {
    writer: Writer::NServiceBus,
    marks: &[Place::Body(&["Headers", "NServiceBus.ExceptionInfo.ExceptionType"])],
    source: &[
        Place::Body(&["Headers", "NServiceBus.ProcessingEndpoint"]),
        Place::Body(&["Headers", "NServiceBus.FailedQ"]),
    ],
    error_type: &[Place::Body(&["Headers", "NServiceBus.ExceptionInfo.ExceptionType"])],
    message: &[Place::Body(&["Headers", "NServiceBus.ExceptionInfo.Message"])],
    attempts: &[Place::Body(&["Headers", "NServiceBus.Retries"])],
    failed_at: &[],
};

/// As a message attribute, with `DoNotWrapOutgoingMessages` ("Amazon SQS Transport configuration options").
pub(super) const UNWRAPPED: Shape = Shape {
    writer: Writer::NServiceBus,
    marks: &[Place::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.ExceptionInfo.ExceptionType")],
    source: &[
        Place::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.ProcessingEndpoint"),
        Place::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.FailedQ"),
    ],
    error_type: &[Place::InAttribute(
        "NServiceBus.AmazonSQS.Headers",
        "NServiceBus.ExceptionInfo.ExceptionType",
    )],
    message: &[Place::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.ExceptionInfo.Message")],
    attempts: &[Place::InAttribute("NServiceBus.AmazonSQS.Headers", "NServiceBus.Retries")],
    failed_at: &[],
};

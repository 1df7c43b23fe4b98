//! Reads dead letters from services that record the failure in attributes and leave the body unchanged.

use redeliver_core::message::ReceivedMessage;
use serde::Deserialize;

use super::{ForeignDeadLetter, ForeignWriter, parse_object};

/// Reads a dead letter, or returns `None` if the message lacks the attributes of these services.
pub(super) fn read_attributes(message: &ReceivedMessage) -> Option<ForeignDeadLetter> {
    let attributes = FailureAttributes(message);
    read_scheduler(&attributes)
        .or_else(|| read_event_bridge(&attributes))
        .or_else(|| read_lambda_dlq(&attributes))
}

struct FailureAttributes<'a>(&'a ReceivedMessage);

impl<'a> FailureAttributes<'a> {
    fn attribute_text(&self, name: &str) -> Option<&'a str> {
        self.0.attributes.get(name)?.text()
    }

    fn owned_text(&self, name: &str) -> String {
        self.attribute_text(name).unwrap_or_default().to_owned()
    }

    /// Reads the attributes that EventBridge and EventBridge Scheduler share.
    fn read_delivery(&self, writer: ForeignWriter, source: &str) -> Option<ForeignDeadLetter> {
        Some(ForeignDeadLetter {
            error_type: self.attribute_text("ERROR_CODE")?.to_owned(),
            message: self.owned_text("ERROR_MESSAGE"),
            condition: self.attribute_text("EXHAUSTED_RETRY_CONDITION").map(str::to_owned),
            attempts: self.attribute_text("RETRY_ATTEMPTS").and_then(|count| count.parse().ok()),
            truncated: self
                .attribute_text("IS_PAYLOAD_TRUNCATED")
                .is_some_and(|truncated| truncated.eq_ignore_ascii_case("true")),
            ..ForeignDeadLetter::new(writer, source)
        })
    }
}

/// Reads a dead letter from EventBridge Scheduler ("Configuring a dead-letter queue for EventBridge Scheduler", Amazon
/// EventBridge Scheduler User Guide).
fn read_scheduler(attributes: &FailureAttributes<'_>) -> Option<ForeignDeadLetter> {
    attributes.read_delivery(ForeignWriter::Scheduler, attributes.attribute_text("SCHEDULE_ARN")?)
}

/// Reads a dead letter from EventBridge ("Using dead-letter queues to process undelivered events", Amazon EventBridge
/// User Guide). A dead letter from an event bus names no rule and no target, so its body must be recognizable as an
/// event. A subscriber's record has the same data in its body ([`super::subscriber`]); this function is the fallback
/// for a record with any other body.
fn read_event_bridge(attributes: &FailureAttributes<'_>) -> Option<ForeignDeadLetter> {
    if let Some(subscriber) = attributes.attribute_text("SUBSCRIBER_ARN") {
        return attributes.read_delivery(ForeignWriter::EventBridgeSubscriber, subscriber);
    }
    match attributes.attribute_text("RULE_ARN").or_else(|| attributes.attribute_text("TARGET_ARN")) {
        Some(source) => attributes.read_delivery(ForeignWriter::EventBridge, source),
        None => {
            let found = attributes.read_delivery(ForeignWriter::EventBridge, "")?;
            let event: EventBridgeEvent = parse_object(&attributes.0.body)?;
            Some(ForeignDeadLetter { source: format!("{} ({})", event.source, event.detail_type), ..found })
        }
    }
}

/// Reads a message from a function's DLQ ("Adding a dead-letter queue" in "Capturing records of Lambda asynchronous
/// invocations", AWS Lambda Developer Guide). The attributes do not include the function's name.
fn read_lambda_dlq(attributes: &FailureAttributes<'_>) -> Option<ForeignDeadLetter> {
    attributes.attribute_text("RequestID")?;
    let code = attributes.attribute_text("ErrorCode").filter(|code| code.parse::<u16>().is_ok())?;
    Some(ForeignDeadLetter {
        error_type: format!("ErrorCode {code}"),
        message: attributes.owned_text("ErrorMessage"),
        ..ForeignDeadLetter::new(ForeignWriter::LambdaDlq, "")
    })
}

/// The members of every EventBridge event ("Events", Amazon EventBridge User Guide).
#[derive(Deserialize)]
struct EventBridgeEvent {
    #[serde(rename = "detail-type")]
    detail_type: String,
    source: String,
    #[serde(rename = "detail")]
    _detail: serde::de::IgnoredAny,
}

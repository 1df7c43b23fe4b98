//! Reads dead letters of services that record the failure in attributes and leave the body unchanged.

use redeliver_core::message::ReceivedMessage;
use serde::Deserialize;

use super::{ForeignDeadLetter, ForeignWriter, parse_object};

/// `None` if the message lacks the attributes of these services.
pub(super) fn read_attributes(message: &ReceivedMessage) -> Option<ForeignDeadLetter> {
    let said = FailureAttributes(message);
    read_scheduler(&said).or_else(|| read_event_bridge(&said)).or_else(|| read_lambda_dlq(&said))
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

/// "Configuring a dead-letter queue for EventBridge Scheduler", Amazon EventBridge Scheduler User Guide.
fn read_scheduler(said: &FailureAttributes<'_>) -> Option<ForeignDeadLetter> {
    said.read_delivery(ForeignWriter::Scheduler, said.attribute_text("SCHEDULE_ARN")?)
}

/// "Using dead-letter queues to process undelivered events", Amazon EventBridge User Guide. An event bus has no rule
/// and no target, so its body must be recognizable as an event. A subscriber's record has the same data in its body
/// ([`super::subscriber`]); this function reads a record with any other body.
fn read_event_bridge(said: &FailureAttributes<'_>) -> Option<ForeignDeadLetter> {
    if let Some(subscriber) = said.attribute_text("SUBSCRIBER_ARN") {
        return said.read_delivery(ForeignWriter::EventBridgeSubscriber, subscriber);
    }
    match said.attribute_text("RULE_ARN").or_else(|| said.attribute_text("TARGET_ARN")) {
        Some(source) => said.read_delivery(ForeignWriter::EventBridge, source),
        None => {
            let found = said.read_delivery(ForeignWriter::EventBridge, "")?;
            let event: EventBridgeEvent = parse_object(&said.0.body)?;
            Some(ForeignDeadLetter { source: format!("{} ({})", event.source, event.detail_type), ..found })
        }
    }
}

/// "Adding a dead-letter queue" in "Capturing records of Lambda asynchronous invocations", AWS Lambda Developer Guide.
/// The attributes do not include the function's name.
fn read_lambda_dlq(said: &FailureAttributes<'_>) -> Option<ForeignDeadLetter> {
    said.attribute_text("RequestID")?;
    let code = said.attribute_text("ErrorCode").filter(|code| code.parse::<u16>().is_ok())?;
    Some(ForeignDeadLetter {
        error_type: format!("ErrorCode {code}"),
        message: said.owned_text("ErrorMessage"),
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

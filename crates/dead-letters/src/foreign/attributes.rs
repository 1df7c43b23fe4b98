//! Services that record the failure in attributes, and leave the body as it would have been delivered.

use redeliver_core::message::ReceivedMessage;
use serde::Deserialize;

use super::{Foreign, Writer, object};

/// `None` if the message has not the attributes of one of them.
pub(super) fn read(message: &ReceivedMessage) -> Option<Foreign> {
    let said = Said(message);
    scheduler(&said).or_else(|| event_bridge(&said)).or_else(|| lambda(&said))
}

struct Said<'a>(&'a ReceivedMessage);

impl<'a> Said<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.attributes.get(name)?.text()
    }

    fn owned(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// The attributes of both EventBridge and its Scheduler.
    fn delivery(&self, writer: Writer, source: &str) -> Option<Foreign> {
        Some(Foreign {
            error_type: self.text("ERROR_CODE")?.to_owned(),
            message: self.owned("ERROR_MESSAGE"),
            condition: self.text("EXHAUSTED_RETRY_CONDITION").map(str::to_owned),
            attempts: self.text("RETRY_ATTEMPTS").and_then(|count| count.parse().ok()),
            truncated: self
                .text("IS_PAYLOAD_TRUNCATED")
                .is_some_and(|truncated| truncated.eq_ignore_ascii_case("true")),
            ..Foreign::new(writer, source)
        })
    }
}

/// "Configuring a dead-letter queue for EventBridge Scheduler", Amazon EventBridge Scheduler User Guide.
fn scheduler(said: &Said<'_>) -> Option<Foreign> {
    said.delivery(Writer::Scheduler, said.text("SCHEDULE_ARN")?)
}

/// "Using dead-letter queues to process undelivered events", Amazon EventBridge User Guide. An event bus has no rule and
/// no target, so there the event in the body must say that it is one. A subscriber's record says the same in its body
/// ([`super::subscriber`]); this reads one whose body is something else.
fn event_bridge(said: &Said<'_>) -> Option<Foreign> {
    if let Some(subscriber) = said.text("SUBSCRIBER_ARN") {
        return said.delivery(Writer::EventBridgeSubscriber, subscriber);
    }
    match said.text("RULE_ARN").or_else(|| said.text("TARGET_ARN")) {
        Some(source) => said.delivery(Writer::EventBridge, source),
        None => {
            let found = said.delivery(Writer::EventBridge, "")?;
            let event: Event = object(&said.0.body)?;
            Some(Foreign { source: format!("{} ({})", event.source, event.detail_type), ..found })
        }
    }
}

/// "Adding a dead-letter queue" in "Capturing records of Lambda asynchronous invocations", AWS Lambda Developer Guide. It
/// does not name the function.
fn lambda(said: &Said<'_>) -> Option<Foreign> {
    said.text("RequestID")?;
    let code = said.text("ErrorCode").filter(|code| code.parse::<u16>().is_ok())?;
    Some(Foreign {
        error_type: format!("ErrorCode {code}"),
        message: said.owned("ErrorMessage"),
        ..Foreign::new(Writer::LambdaDlq, "")
    })
}

/// The members of every EventBridge event ("Events", Amazon EventBridge User Guide).
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "detail-type")]
    detail_type: String,
    source: String,
    #[serde(rename = "detail")]
    _detail: serde::de::IgnoredAny,
}

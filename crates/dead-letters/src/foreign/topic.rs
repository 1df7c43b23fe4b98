//! Notifications that SNS could not deliver ("Amazon SNS dead-letter queues" and "HTTP/HTTPS notification JSON format",
//! Amazon SNS Developer Guide). SNS records no reason, and with raw delivery the message does not even identify SNS.

use serde::Deserialize;

use super::{ForeignDeadLetter, ForeignWriter, parse_object};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Notification {
    r#type: String,
    topic_arn: String,
    #[serde(rename = "MessageId")]
    _message_id: String,
    #[serde(rename = "Message")]
    _message: serde::de::IgnoredAny,
}

/// Reads a notification, or returns `None` if the body is not one.
pub(super) fn read_notification(body: &str) -> Option<ForeignDeadLetter> {
    // Most bodies are something else; a substring check avoids parsing them.
    if !body.contains("\"TopicArn\"") {
        return None;
    }
    let found: Notification = parse_object(body)?;
    let is_notification = found.r#type == "Notification" && found.topic_arn.starts_with("arn:");
    is_notification.then(|| ForeignDeadLetter {
        message: "not delivered to a subscription, or this queue is subscribed itself; SNS records no reason"
            .to_owned(),
        ..ForeignDeadLetter::new(ForeignWriter::Sns, found.topic_arn)
    })
}

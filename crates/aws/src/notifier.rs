//! Sends notices through SNS or EventBridge, using the AWS SDK.

use std::str::FromStr;

use aws_config::{Region, SdkConfig};
use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use redeliver_core::notices::{Notice, Notifier};
use redeliver_core::ports::{EntryError, Fault};
use serde_json::json;
use thiserror::Error;

use crate::failed_request::{batch_entry_error, entry_error};

/// The source and the type of the published events. The function's role permits no others (infra/lib/notify.ts).
const SOURCE: &str = "redeliver";
const DETAIL_TYPE: &str = "Redeliver Cause Appeared";

/// `NOTIFY_ARN`: the ARN of a topic or an event bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyArn {
    arn: String,
    region: String,
    service: NotifyService,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotifyService {
    Sns,
    EventBridge,
}

/// The error for a string that is not the ARN of a topic or event bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotifyArnError {
    #[error(
        "is not the ARN of an SNS topic (arn:aws:sns:REGION:ACCOUNT:NAME) or of an event bus (arn:aws:events:REGION:ACCOUNT:event-bus/NAME)"
    )]
    Other,
    #[error("is the ARN of a FIFO topic, which cannot send email; use a standard topic")]
    Fifo,
}

impl FromStr for NotifyArn {
    type Err = NotifyArnError;

    fn from_str(arn: &str) -> Result<Self, NotifyArnError> {
        let parts: Vec<_> = arn.split(':').collect();
        let ["arn", partition, service, region, account, name] = parts[..] else {
            return Err(NotifyArnError::Other);
        };
        let service = match service {
            "sns" if redeliver_core::ports::is_fifo(name) => return Err(NotifyArnError::Fifo),
            "sns" if !name.is_empty() => NotifyService::Sns,
            "events" if name.strip_prefix("event-bus/").is_some_and(|name| !name.is_empty()) => {
                NotifyService::EventBridge
            }
            _ => return Err(NotifyArnError::Other),
        };
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        let is_arn = partition.starts_with("aws") && !region.is_empty() && is_account;
        let parsed = Self { arn: arn.to_owned(), region: region.to_owned(), service };
        is_arn.then_some(parsed).ok_or(NotifyArnError::Other)
    }
}

/// A notifier that publishes to a topic or an event bus.
#[derive(Clone, Debug)]
pub struct AwsNotifier {
    arn: String,
    client: Client,
}

#[derive(Clone, Debug)]
enum Client {
    Sns(aws_sdk_sns::Client),
    EventBridge(aws_sdk_eventbridge::Client),
}

impl AwsNotifier {
    /// Creates a notifier in the ARN's region.
    #[must_use]
    pub fn new(config: &SdkConfig, to: NotifyArn) -> Self {
        let NotifyArn { arn, region, service } = to;
        let config = config.to_builder().region(Region::new(region)).build();
        let client = match service {
            NotifyService::Sns => Client::Sns(aws_sdk_sns::Client::new(&config)),
            NotifyService::EventBridge => Client::EventBridge(aws_sdk_eventbridge::Client::new(&config)),
        };
        Self { arn, client }
    }
}

impl Notifier for AwsNotifier {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        // Boxed because the SDK's futures are so deeply nested that they would exceed the compiler's recursion limit.
        match &self.client {
            Client::Sns(client) => Box::pin(publish_to_topic(client, &self.arn, notice)).await,
            Client::EventBridge(client) => Box::pin(put_event(client, &self.arn, notice)).await,
        }
    }
}

async fn publish_to_topic(
    client: &aws_sdk_sns::Client,
    topic_arn: &str,
    notice: &Notice,
) -> Result<(), EntryError> {
    // Emails contain human-readable text; all other protocols receive the JSON document.
    let message = json!({ "default": notice.to_json(), "email": notice.text() });
    let request = client
        .publish()
        .topic_arn(topic_arn)
        .subject(notice.subject())
        .message_structure("json")
        .message(message.to_string());
    request.send().await.map(drop).map_err(|error| entry_error(&error))
}

async fn put_event(
    client: &aws_sdk_eventbridge::Client,
    bus_arn: &str,
    notice: &Notice,
) -> Result<(), EntryError> {
    let entry = PutEventsRequestEntry::builder()
        .source(SOURCE)
        .detail_type(DETAIL_TYPE)
        .detail(notice.to_json())
        .event_bus_name(bus_arn)
        .build();
    let answer = client.put_events().entries(entry).send().await.map_err(|error| entry_error(&error))?;
    // EventBridge responds with 200 even if it rejects the entry.
    match answer.entries() {
        [entry] => match entry.error_code() {
            Some(code) => Err(batch_entry_error(!code.starts_with("Internal"), code)),
            None if answer.failed_entry_count() == 0 => Ok(()),
            None => Err(unreadable_response()),
        },
        _ => Err(unreadable_response()),
    }
}

fn unreadable_response() -> EntryError {
    EntryError::new(Fault::NoAnswer, "UnreadableAnswer")
}

#[cfg(test)]
mod tests;

//! Notices by SNS and by EventBridge.

use std::str::FromStr;

use aws_config::SdkConfig;
use redeliver_core::notices::Notice;
use redeliver_core::ports::{EntryError, Fault, Notifier};
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;

use super::client::{Request, SignedClient, encoded};
use crate::failed_request::by_status;

/// `NOTIFY_ARN`: a topic or an event bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyArn {
    arn: String,
    region: String,
    service: Service,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Sns,
    EventBridge,
}

/// The reason why a text is not the ARN of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotifyArnError {
    #[error(
        "is not the ARN of an SNS topic (arn:aws:sns:REGION:ACCOUNT:NAME) or of an event bus (arn:aws:events:REGION:ACCOUNT:event-bus/NAME)"
    )]
    Other,
    #[error("is the ARN of a FIFO topic, which sends no mail; use a standard topic")]
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
            "sns" if !name.is_empty() => Service::Sns,
            "events" if name.strip_prefix("event-bus/").is_some_and(|name| !name.is_empty()) => {
                Service::EventBridge
            }
            _ => return Err(NotifyArnError::Other),
        };
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        let is_arn = partition.starts_with("aws") && !region.is_empty() && is_account;
        let whole = Self { arn: arn.to_owned(), region: region.to_owned(), service };
        is_arn.then_some(whole).ok_or(NotifyArnError::Other)
    }
}

/// Publishes to a topic or an event bus.
#[derive(Clone, Debug)]
pub struct AwsNotifier {
    client: SignedClient,
    to: NotifyArn,
}

impl AwsNotifier {
    /// A notifier in the region of the ARN.
    #[must_use]
    pub fn new(config: &SdkConfig, to: NotifyArn) -> Self {
        let service = match to.service {
            Service::Sns => "sns",
            Service::EventBridge => "events",
        };
        Self { client: SignedClient::new(config, service, Some(&to.region)), to }
    }

    /// "Publish", Amazon SNS API Reference.
    async fn publish_to_topic(&self, notice: &Notice) -> Result<(), EntryError> {
        let document = notice.document();
        // Mail is for people, all other protocols get the document.
        let message = json!({ "default": document, "email": notice.text() }).to_string();
        let form = [
            ("Action", "Publish"),
            ("Version", "2010-03-31"),
            ("TopicArn", &self.to.arn),
            ("Subject", &notice.subject()),
            ("MessageStructure", "json"),
            ("Message", &message),
        ];
        let form: Vec<_> = form.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let headers = vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
        self.post(headers, form.join("&")).await.map(drop)
    }

    /// "PutEvents", Amazon EventBridge API Reference.
    async fn put_event(&self, notice: &Notice) -> Result<(), EntryError> {
        let entry = json!({
            "Source": "redeliver",
            "DetailType": "Redeliver Cause Appeared",
            "Detail": notice.document(),
            "EventBusName": self.to.arn,
        });
        let headers =
            vec![("content-type", "application/x-amz-json-1.1"), ("x-amz-target", "AWSEvents.PutEvents")];
        let answer = self.post(headers, json!({ "Entries": [entry] }).to_string()).await?;
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Answer {
            entries: Vec<Entry>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Entry {
            error_code: Option<String>,
        }
        // It answers 200 to an entry that it has refused, too.
        match serde_json::from_slice(&answer).map(|Answer { entries }| entries) {
            Ok(entries) if entries.len() == 1 => match &entries[0].error_code {
                None => Ok(()),
                Some(code) => Err(by_status(400, Some(code))),
            },
            _ => Err(EntryError::new(Fault::NoAnswer, "UnreadableAnswer")),
        }
    }

    async fn post(&self, headers: Vec<(&'static str, &str)>, body: String) -> Result<Vec<u8>, EntryError> {
        let url = self.client.endpoint.url();
        let answer =
            self.client.send(Request { method: "POST", url, headers, body: body.into_bytes() }).await?;
        match answer.status {
            200 => Ok(answer.body),
            status => Err(by_status(status, error_code(&answer.body).as_deref())),
        }
    }
}

/// The code in an error of either service: `<Code>` in XML, `__type` in JSON.
fn error_code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Error {
        #[serde(rename = "__type")]
        error_type: String,
    }
    let text = std::str::from_utf8(body).ok()?;
    match serde_json::from_str(text) {
        Ok(Error { error_type }) => Some(error_type.rsplit('#').next().unwrap_or_default().to_owned()),
        Err(_) => text.split_once("<Code>")?.1.split_once("</Code>").map(|(code, _)| code.to_owned()),
    }
}

impl Notifier for AwsNotifier {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        match self.to.service {
            Service::Sns => self.publish_to_topic(notice).await,
            Service::EventBridge => self.put_event(notice).await,
        }
    }
}

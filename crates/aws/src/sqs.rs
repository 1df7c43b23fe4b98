//! SQS, accessed through the AWS SDK: one request per call, one outcome per entry. `redeliver_core::deliver` retries.

mod convert;
mod service;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry,
    MessageSystemAttributeName, QueueAttributeName,
};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::lock;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::message::packing::Batch;
use redeliver_core::ports::{
    Depth, EntryError, EntryOutcome, Fault, Queue, QueueDepth, QueueSender, ReceiveOptions,
    UnreadableMessage, VisibilityControl,
};

use crate::failed_request::{batch_entry_error, entry_error};
pub use service::SqsService;

/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout for a request, including a long poll of up to 20 s.
pub const POLL_TIMEOUT: Duration = Duration::from_secs(30);

/// Configures an SQS client without retries, with an optional timeout per request.
///
/// A function that only sends needs no timeout: `redeliver_core::deliver` stops at its deadline. Until then, a late
/// response is better than none, since an unconfirmed message is sent again.
#[must_use]
pub fn client_config(config: &SdkConfig, request_timeout: Option<Duration>) -> aws_sdk_sqs::config::Builder {
    let mut timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT);
    timeouts.set_operation_attempt_timeout(request_timeout);
    aws_sdk_sqs::config::Builder::from(config)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
}

/// A queue on AWS or a compatible service.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    client: Client,
    url: Arc<str>,
    arn: Arc<str>,
    unreadable: Arc<Mutex<Vec<UnreadableMessage>>>,
}

impl SqsQueue {
    /// Creates a queue with this URL and ARN. The ARN can be empty if the queue is only used for sending.
    #[must_use]
    pub fn new(client: Client, url: impl Into<Arc<str>>, arn: impl Into<Arc<str>>) -> Self {
        Self { client, url: url.into(), arn: arn.into(), unreadable: Arc::default() }
    }
}

impl QueueSender for SqsQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        let count = batch.entries().len();
        let entries = match convert::send_entries(batch) {
            Ok(entries) => entries,
            Err(error) => return vec![Err(error); count],
        };
        match self.client.send_message_batch().queue_url(&*self.url).set_entries(Some(entries)).send().await {
            Ok(answer) => {
                let done = answer.successful.into_iter().map(|entry| (entry.id, entry.message_id));
                entry_outcomes(count, done, answer.failed)
            }
            Err(error) => vec![Err(entry_error(&error)); count],
        }
    }

    fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }
}

impl VisibilityControl for SqsQueue {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        let count = entries.len();
        let entries = entries.iter().enumerate().map(|(index, (handle, visibility))| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(handle)
                .visibility_timeout(visibility.get().into())
                .build()
        });
        // The builder only fails if a member is missing. That cannot happen here, but a panic would fail the whole
        // batch.
        let Ok(entries) = entries.collect::<Result<Vec<_>, _>>() else {
            return build_failure_outcomes(count);
        };
        let request = self.client.change_message_visibility_batch().queue_url(&*self.url);
        match request.set_entries(Some(entries)).send().await {
            Ok(answer) => {
                let done = answer.successful.into_iter().map(|entry| (entry.id, ()));
                entry_outcomes(count, done, answer.failed)
            }
            Err(error) => vec![Err(entry_error(&error)); count],
        }
    }
}

impl QueueDepth for SqsQueue {
    async fn depth(&self) -> Result<Depth, EntryError> {
        let answer = self
            .client
            .get_queue_attributes()
            .queue_url(&*self.url)
            .attribute_names(QueueAttributeName::All)
            .send()
            .await
            .map_err(|error| entry_error(&error))?;
        let count = |name| {
            let attributes = answer.attributes.as_ref()?;
            attributes.get(&name)?.parse().ok()
        };
        let all = (
            count(QueueAttributeName::ApproximateNumberOfMessages),
            count(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
            count(QueueAttributeName::ApproximateNumberOfMessagesDelayed),
        );
        match all {
            (Some(visible), Some(in_flight), Some(delayed)) => Ok(Depth { visible, in_flight, delayed }),
            // An unknown depth must not look like an empty queue.
            _ => Err(EntryError::new(Fault::NoAnswer, "UnreadableAnswer")),
        }
    }
}

impl Queue for SqsQueue {
    async fn receive(&self, request: ReceiveOptions) -> Result<Vec<ReceivedMessage>, EntryError> {
        let wait = i32::try_from(request.wait.as_secs()).unwrap_or(i32::MAX);
        let answer = self
            .client
            .receive_message()
            .queue_url(&*self.url)
            .max_number_of_messages(request.max_messages.into())
            .wait_time_seconds(wait)
            .set_visibility_timeout(request.visibility.map(|visibility| visibility.get().into()))
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await
            .map_err(|error| entry_error(&error))?;
        let mut received: Vec<ReceivedMessage> = Vec::new();
        for message in answer.messages.unwrap_or_default() {
            // An unreadable message must not fail the other nine; the poller reports it (`take_unreadable`).
            let unreadable = convert::describe_unreadable(&message, received.len());
            match convert::convert_message(message, &self.arn) {
                Ok(message) => received.push(message),
                Err(_) => lock(&self.unreadable).push(unreadable),
            }
        }
        Ok(received)
    }

    fn take_unreadable(&self) -> Vec<UnreadableMessage> {
        std::mem::take(&mut lock(&self.unreadable))
    }

    async fn delete_batch(&self, handles: &[String]) -> Vec<EntryOutcome<()>> {
        let entries = handles.iter().enumerate().map(|(index, handle)| {
            DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(handle).build()
        });
        let Ok(entries) = entries.collect::<Result<Vec<_>, _>>() else {
            return build_failure_outcomes(handles.len());
        };
        match self.client.delete_message_batch().queue_url(&*self.url).set_entries(Some(entries)).send().await
        {
            Ok(answer) => {
                let done = answer.successful.into_iter().map(|entry| (entry.id, ()));
                entry_outcomes(handles.len(), done, answer.failed)
            }
            Err(error) => vec![Err(entry_error(&error)); handles.len()],
        }
    }

    fn arn(&self) -> &str {
        &self.arn
    }

    fn url(&self) -> &str {
        &self.url
    }
}

/// Returns one outcome per entry, matched by id. An entry that is missing from the response is unconfirmed.
fn entry_outcomes<T>(
    count: usize,
    done: impl Iterator<Item = (String, T)>,
    failed: Vec<BatchResultErrorEntry>,
) -> Vec<EntryOutcome<T>> {
    let mut by_id: HashMap<String, EntryOutcome<T>> = done.map(|(id, value)| (id, Ok(value))).collect();
    // An entry that is listed as both successful and failed is unconfirmed.
    by_id.extend(
        failed.into_iter().map(|entry| (entry.id, Err(batch_entry_error(entry.sender_fault, &entry.code)))),
    );
    let not_answered = || Err(EntryError::new(Fault::NoAnswer, "EntryNotAnswered"));
    (0..count).map(|index| by_id.remove(&index.to_string()).unwrap_or_else(not_answered)).collect()
}

fn build_failure_outcomes<T: Clone>(count: usize) -> Vec<EntryOutcome<T>> {
    vec![Err(convert::build_failure()); count]
}

#[cfg(test)]
mod tests;

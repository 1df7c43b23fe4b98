//! An SQS event source mapping: receives messages, invokes the function, and deletes the processed messages.
//!
//! "Using Lambda with Amazon SQS" and "Handling errors for an SQS event source in Lambda" in the AWS Lambda Developer
//! Guide.

pub mod event;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName,
};
use redeliver_core::ports::is_fifo;
use serde_json::Value;

use crate::runtime_api::{InvocationOutcome, LambdaFunction};
use crate::sqs::TestQueue;

const BATCH: i32 = 10;
const WAIT_SECONDS: i32 = 1;

/// A queue, its function, and all invocations so far.
pub struct EventSourceMapping {
    client: Client,
    queue: TestQueue,
    function: Arc<LambdaFunction>,
    timeout: Duration,
    invocations: Mutex<Vec<MappingInvocation>>,
}

/// One batch.
#[derive(Clone, Debug)]
pub struct MappingInvocation {
    /// SQS message ids of the records.
    pub records: Vec<String>,
    /// The function's outcome.
    pub outcome: InvocationOutcome,
    /// SQS message ids of the records that were not deleted.
    pub failed: BTreeSet<String>,
}

impl EventSourceMapping {
    /// Creates a mapping. `timeout` is the function's timeout.
    #[must_use]
    pub fn new(client: Client, queue: TestQueue, function: Arc<LambdaFunction>, timeout: Duration) -> Self {
        Self { client, queue, function, timeout, invocations: Mutex::default() }
    }

    /// Polls until dropped.
    pub async fn poll_forever(&self) {
        loop {
            self.poll_once().await;
        }
    }

    /// Polls once, for up to a second. Returns `None` if no message arrives.
    ///
    /// # Panics
    /// If the emulator refuses a request.
    pub async fn poll_once(&self) -> Option<MappingInvocation> {
        let messages = self.receive_batch().await;
        if messages.is_empty() {
            return None;
        }
        let outcome =
            self.function.invoke(&event::from_messages(&messages, &self.queue.arn), self.timeout).await;
        let records: Vec<String> = messages.iter().map(|message| id(message).to_owned()).collect();
        let failed = failed_records(&outcome, &records);
        let (failures, done): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| failed.contains(id(message)));
        self.delete_batch(&done).await;
        if !is_fifo(&self.queue.arn) {
            self.make_visible(&failures).await;
        }
        let invocation = MappingInvocation { records, outcome, failed };
        self.invocations.lock().expect("no test panics while it holds this").push(invocation.clone());
        Some(invocation)
    }

    /// Returns all invocations so far.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn invocations(&self) -> Vec<MappingInvocation> {
        self.invocations.lock().expect("no test panics while it holds this").clone()
    }

    /// Returns the function.
    #[must_use]
    pub fn function(&self) -> &Arc<LambdaFunction> {
        &self.function
    }

    async fn receive_batch(&self) -> Vec<Message> {
        let request = self.client.receive_message().queue_url(&self.queue.url);
        let request = request.max_number_of_messages(BATCH).wait_time_seconds(WAIT_SECONDS);
        let request = request
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All);
        request.send().await.expect("the queue answers").messages.unwrap_or_default()
    }

    async fn delete_batch(&self, messages: &[&Message]) {
        if messages.is_empty() {
            return;
        }
        let entries = messages.iter().enumerate().map(|(index, message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(receipt_handle(message)).build().expect("id and handle are set")
        });
        let request = self.client.delete_message_batch().queue_url(&self.queue.url);
        let deleted = request.set_entries(Some(entries.collect())).send().await.expect("the queue answers");
        assert!(deleted.failed.is_empty(), "not deleted: {:?}", deleted.failed);
    }

    /// Makes the failed messages visible immediately, to save time; Lambda leaves them until their visibility timeout
    /// ends. Messages in a FIFO queue are left alone, as in Lambda: the function has set their timeout, and their
    /// groups wait for it.
    async fn make_visible(&self, messages: &[&Message]) {
        if messages.is_empty() {
            return;
        }
        let entries = messages.iter().enumerate().map(|(index, message)| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(index.to_string());
            let entry = entry.receipt_handle(receipt_handle(message)).visibility_timeout(0);
            entry.build().expect("id and handle are set")
        });
        let request = self.client.change_message_visibility_batch().queue_url(&self.queue.url);
        request.set_entries(Some(entries.collect())).send().await.expect("the queue answers");
    }
}

/// Returns the records that failed. That is all of them unless the function returns a well-formed partial batch
/// response; an unknown or empty identifier makes the response invalid.
#[must_use]
pub fn failed_records(outcome: &InvocationOutcome, records: &[String]) -> BTreeSet<String> {
    let all = || records.iter().cloned().collect();
    let InvocationOutcome::Response(response) = outcome else {
        return all();
    };
    let failures = match response {
        Value::Null => return BTreeSet::new(),
        Value::Object(members) => match members.get("batchItemFailures") {
            None | Some(Value::Null) => return BTreeSet::new(),
            Some(Value::Array(failures)) => failures,
            Some(_) => return all(),
        },
        _ => return all(),
    };
    let identifiers = failures.iter().map(|failure| failure.get("itemIdentifier").and_then(Value::as_str));
    let known =
        identifiers.map(|identifier| identifier.filter(|id| records.iter().any(|record| record == id)));
    known.map(|identifier| identifier.map(str::to_owned)).collect::<Option<_>>().unwrap_or_else(all)
}

fn id(message: &Message) -> &str {
    message.message_id().expect("a received message has an id")
}

fn receipt_handle(message: &Message) -> &str {
    message.receipt_handle().expect("a received message has a receipt handle")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed_ids(response: Value) -> Vec<String> {
        let records = ["a".to_owned(), "b".to_owned()];
        failed_records(&InvocationOutcome::Response(response), &records).into_iter().collect()
    }

    #[test]
    fn only_the_named_records_fail() {
        assert_eq!(failed_ids(json!({"batchItemFailures": [{"itemIdentifier": "b"}]})), ["b"]);
    }

    #[test]
    fn null_and_empty_responses_mean_success_for_the_whole_batch() {
        for response in
            [json!(null), json!({}), json!({"batchItemFailures": null}), json!({"batchItemFailures": []})]
        {
            assert!(failed_ids(response.clone()).is_empty(), "{response}");
        }
    }

    #[test]
    fn an_unknown_empty_or_missing_identifier_fails_the_whole_batch() {
        for identifier in [json!("c"), json!(""), json!(null), json!(1)] {
            assert_eq!(
                failed_ids(json!({"batchItemFailures": [{"itemIdentifier": identifier}]})),
                ["a", "b"]
            );
        }
        assert_eq!(failed_ids(json!({"batchItemFailures": [{"wrong": "a"}]})), ["a", "b"]);
        assert_eq!(failed_ids(json!("text")), ["a", "b"]);
    }

    #[test]
    fn an_error_or_a_dead_process_fails_the_whole_batch() {
        for outcome in
            [InvocationOutcome::Error(json!({})), InvocationOutcome::Died, InvocationOutcome::TimedOut]
        {
            assert_eq!(failed_records(&outcome, &["a".to_owned()]).len(), 1, "{outcome:?}");
        }
    }
}

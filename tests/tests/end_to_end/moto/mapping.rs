//! An event source mapping with the permissions of the function's role, like Lambda's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};
use redeliver_tests::esm::event::from_messages;
use redeliver_tests::esm::failed_records;
use redeliver_tests::moto::MotoAccount;
use redeliver_tests::runtime_api::LambdaFunction;
use serde_json::json;

use super::permissions::ok_unless_denied;

/// A refusal ends a send immediately, so no function comes close to this timeout.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct MotoMapping {
    pub(super) role: String,
    /// The handler, or the logical id of a user's own function.
    pub(super) handler: String,
    pub(super) queue_url: String,
    pub(super) queue_arn: String,
    pub(super) function: Arc<LambdaFunction>,
    /// A client that signs requests as Lambda does with the function's role.
    pub(super) lambda: Client,
}

impl MotoMapping {
    /// Polls once. Returns true if a batch was received. "Using Lambda with Amazon SQS" lists the three permissions.
    pub(super) async fn poll(&self, account: &MotoAccount) -> bool {
        let attributes = self.lambda.get_queue_attributes().queue_url(&self.queue_url);
        if ok_unless_denied(attributes.send().await).is_none() {
            return false;
        }
        let messages = self.receive().await;
        if messages.is_empty() {
            return false;
        }
        let outcome = self.function.invoke(&from_messages(&messages, &self.queue_arn), TIMEOUT).await;
        let ids: Vec<_> = messages.iter().map(|message| id(message).to_owned()).collect();
        let failed = failed_records(&outcome, &ids);
        let (failures, done): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| failed.contains(id(message)));
        let kept = self.delete(&done).await;
        for message in failures.into_iter().chain(done.into_iter().filter(|done| kept.contains(id(done)))) {
            self.make_visible_again(message, account).await;
        }
        true
    }

    async fn receive(&self) -> Vec<Message> {
        let request = self.lambda.receive_message().queue_url(&self.queue_url).max_number_of_messages(10);
        let request = request.message_attribute_names("All");
        let request = request.message_system_attribute_names(MessageSystemAttributeName::All);
        ok_unless_denied(request.send().await).and_then(|answer| answer.messages).unwrap_or_default()
    }

    /// Deletes messages, and returns the ids of those that could not be deleted.
    async fn delete(&self, messages: &[&Message]) -> BTreeSet<String> {
        if messages.is_empty() {
            return BTreeSet::new();
        }
        let entries = messages.iter().enumerate().map(|(index, message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(handle(message)).build().unwrap()
        });
        let request = self.lambda.delete_message_batch().queue_url(&self.queue_url);
        match ok_unless_denied(request.set_entries(Some(entries.collect())).send().await) {
            Some(deleted) => {
                assert!(deleted.failed.is_empty(), "not deleted: {:?}", deleted.failed);
                BTreeSet::new()
            }
            None => messages.iter().map(|message| id(message).to_owned()).collect(),
        }
    }

    /// Makes a message visible, as if its visibility timeout had ended.
    async fn make_visible_again(&self, message: &Message, account: &MotoAccount) {
        let request =
            json!({ "QueueUrl": self.queue_url, "ReceiptHandle": handle(message), "VisibilityTimeout": 0 });
        account.send_sqs_request("ChangeMessageVisibility", &request).await;
    }
}

fn id(message: &Message) -> &str {
    message.message_id().unwrap()
}

fn handle(message: &Message) -> &str {
    message.receipt_handle().unwrap()
}

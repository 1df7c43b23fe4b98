//! Creates and deletes queues.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use redeliver_core::ports::{EntryError, Fault, QueueService, QueueSettings, is_fifo};

use super::SqsQueue;
use crate::failed_request::entry_error;

#[derive(Clone, Debug)]
pub struct SqsService {
    client: Client,
}

impl SqsService {
    /// Returns a service that creates queues in the account and region of `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl QueueService for SqsService {
    type Queue = SqsQueue;

    async fn create_queue(&self, name: &str, settings: &QueueSettings) -> Result<SqsQueue, EntryError> {
        let mut request = self
            .client
            .create_queue()
            .queue_name(name)
            .attributes(QueueAttributeName::VisibilityTimeout, settings.visibility.get().to_string())
            .attributes(QueueAttributeName::MessageRetentionPeriod, settings.retention.as_secs().to_string());
        if is_fifo(name) {
            request = request.attributes(QueueAttributeName::FifoQueue, "true");
        }
        if let Some(redrive) = &settings.redrive {
            let policy = serde_json::json!({
                "deadLetterTargetArn": redrive.target_arn,
                "maxReceiveCount": redrive.max_receive_count,
            });
            request = request.attributes(QueueAttributeName::RedrivePolicy, policy.to_string());
        }
        for (key, value) in &settings.tags {
            request = request.tags(key, value);
        }
        let created = request.send().await.map_err(|error| entry_error(&error))?;
        let unreadable = || EntryError::new(Fault::NoAnswer, "UnreadableAnswer");
        let url = created.queue_url.ok_or_else(unreadable)?;
        let attributes = self
            .client
            .get_queue_attributes()
            .queue_url(&url)
            .attribute_names(QueueAttributeName::QueueArn)
            .send()
            .await
            .map_err(|error| entry_error(&error))?;
        let arn = attributes.attributes.unwrap_or_default().remove(&QueueAttributeName::QueueArn);
        Ok(SqsQueue::new(self.client.clone(), url, arn.ok_or_else(unreadable)?))
    }

    async fn delete_queue(&self, queue: &SqsQueue) -> Result<(), EntryError> {
        let url = redeliver_core::ports::Queue::url(queue);
        self.client.delete_queue().queue_url(url).send().await.map_err(|error| entry_error(&error))?;
        Ok(())
    }
}

//! SQS: all queues of a region, with their attributes.

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;

use super::Region;
use crate::fleet::facts::{Attributes, Queue, QueueId, State};
use crate::queues::{by_name, describe, is_missing};

/// Without a page size SQS lists the first 1,000 queues, and gives no token for the others ("ListQueues", Amazon SQS
/// API Reference).
const PAGE: i32 = 1000;
/// Requests at the same time.
const QUEUES_AT_ONCE: usize = 16;

impl Region<'_> {
    pub(super) async fn queues(&self, progress: &ProgressBar) -> Result<Vec<Queue>, String> {
        let request = self.sqs.list_queues().max_results(PAGE);
        let urls: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let urls = self.read("sqs:ListQueues", urls).await?;
        progress.inc_length(urls.len() as u64);
        let read = urls.iter().map(async |url| {
            let queue = self.queue(url).await;
            progress.inc(1);
            queue
        });
        let read: Vec<_> = stream::iter(read).buffered(QUEUES_AT_ONCE).collect().await;
        Ok(read.into_iter().flatten().collect())
    }

    /// `None` if the URL is not a queue's.
    async fn queue(&self, url: &str) -> Option<Queue> {
        let request = self.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let by_url = QueueId::in_url(url, &self.name);
        let state = match request.send().await {
            Ok(answer) => {
                let said = by_name(answer.attributes);
                let by_arn = said.get("QueueArn").and_then(|arn| QueueId::in_arn(arn));
                return Some(Queue { id: by_arn.or(by_url)?, state: State::Read(Attributes::new(&said)) });
            }
            Err(error) if is_missing(&error) => State::Gone,
            Err(error) => State::Unread(format!("sqs:GetQueueAttributes: {}", describe(&error))),
        };
        Some(Queue { id: by_url?, state })
    }

    /// The problem of a queue whose attributes could not be read.
    pub(super) fn unread(&self, queue: &Queue) -> Option<String> {
        match &queue.state {
            State::Unread(why) => Some(self.told(&format!("{}: {why}", queue.id.name))),
            State::Read(_) | State::Gone => None,
        }
    }
}

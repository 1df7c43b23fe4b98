//! SQS: all queues of a region and what it says of each.

use std::collections::BTreeMap;

use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::operation::get_queue_attributes::GetQueueAttributesError;
use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;

use super::Region;
use crate::connection::said;
use crate::fleet::facts::{Attributes, Queue, QueueId, State};

/// Without it SQS gives the first 1,000 queues, and no token for the others ("ListQueues", Amazon SQS API Reference).
const PAGE: i32 = 1000;
/// Requests at the same time.
const QUEUES_AT_ONCE: usize = 16;

impl Region<'_> {
    pub(super) async fn queues(&self, progress: &ProgressBar) -> Result<Vec<Queue>, String> {
        let mut pages = self.sqs.list_queues().max_results(PAGE).into_paginator().send();
        let mut urls = Vec::new();
        while let Some(page) = pages.next().await {
            match page {
                Ok(page) => urls.extend(page.queue_urls.unwrap_or_default()),
                Err(error) => return Err(self.failed("sqs:ListQueues", &error).await),
            }
        }
        progress.inc_length(urls.len() as u64);
        let read = urls.iter().map(async |url| {
            let queue = self.queue(url).await;
            progress.inc(1);
            queue
        });
        let read: Vec<_> = stream::iter(read).buffered(QUEUES_AT_ONCE).collect().await;
        Ok(read.into_iter().flatten().collect())
    }

    /// `None` if the URL is none of a queue.
    async fn queue(&self, url: &str) -> Option<Queue> {
        let request = self.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let by_url = QueueId::in_url(url, &self.name);
        let error = match request.send().await {
            Ok(answer) => {
                let said = answer.attributes.unwrap_or_default();
                let said: BTreeMap<_, _> =
                    said.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
                let by_arn = said.get("QueueArn").and_then(|arn| QueueId::in_arn(arn));
                return Some(Queue { id: by_arn.or(by_url)?, state: State::Read(Attributes::new(&said)) });
            }
            Err(error) => error,
        };
        // By JSON, and by the query protocol before it, whose code SQS still sends.
        let is_code = |code: &str| code.ends_with("QueueDoesNotExist") || code.ends_with("NonExistentQueue");
        let is_known = error.as_service_error().is_some_and(GetQueueAttributesError::is_queue_does_not_exist);
        let state = match is_known || error.code().is_some_and(is_code) {
            true => State::Gone,
            false => State::Unread(format!("sqs:GetQueueAttributes: {}", said(&error))),
        };
        Some(Queue { id: by_url?, state })
    }

    /// The problem that a queue is.
    pub(super) fn unread(&self, queue: &Queue) -> Option<String> {
        match &queue.state {
            State::Unread(why) => Some(self.told(&format!("{}: {why}", queue.id.name))),
            State::Read(_) | State::Gone => None,
        }
    }
}

//! Reads all queues in a region, with their attributes, from SQS.

use aws_sdk_sqs::types::QueueAttributeName;
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;

use super::RegionClients;
use crate::fleet::facts::{QueueAttributes, QueueId, SurveyedQueue, SurveyedState};
use crate::queues::{attributes_by_name, describe_error, is_missing_queue};

/// Without a page size, SQS lists the first 1,000 queues and returns no token for the rest ("ListQueues", Amazon SQS
/// API Reference).
const PAGE: i32 = 1000;
/// Maximum number of concurrent requests.
const QUEUES_AT_ONCE: usize = 16;

impl RegionClients<'_> {
    pub(super) async fn fetch_queues(&self, progress: &ProgressBar) -> Result<Vec<SurveyedQueue>, String> {
        let request = self.sqs.list_queues().max_results(PAGE);
        let urls: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let urls = self.check_response("sqs:ListQueues", urls).await?;
        progress.inc_length(urls.len() as u64);
        let read = urls.iter().map(async |url| {
            let queue = self.fetch_queue(url).await;
            progress.inc(1);
            queue
        });
        let read: Vec<_> = stream::iter(read).buffered(QUEUES_AT_ONCE).collect().await;
        Ok(read.into_iter().flatten().collect())
    }

    /// Reads a queue's attributes; `None` if the URL is not a queue URL.
    async fn fetch_queue(&self, url: &str) -> Option<SurveyedQueue> {
        let request = self.sqs.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All);
        let by_url = QueueId::from_url(url, &self.name);
        let state = match request.send().await {
            Ok(answer) => {
                let attributes = attributes_by_name(answer.attributes);
                let by_arn = attributes.get("QueueArn").and_then(|arn| QueueId::from_arn(arn));
                return Some(SurveyedQueue {
                    id: by_arn.or(by_url)?,
                    state: SurveyedState::Read(QueueAttributes::new(&attributes)),
                });
            }
            Err(error) if is_missing_queue(&error) => SurveyedState::Gone,
            Err(error) => {
                SurveyedState::Unread(format!("sqs:GetQueueAttributes: {}", describe_error(&error)))
            }
        };
        Some(SurveyedQueue { id: by_url?, state })
    }

    /// Returns the problem with a queue whose attributes could not be read.
    pub(super) fn unreadable_queue_problem(&self, queue: &SurveyedQueue) -> Option<String> {
        match &queue.state {
            SurveyedState::Unread(why) => {
                Some(self.format_region_problem(&format!("{}: {why}", queue.id.name)))
            }
            SurveyedState::Read(_) | SurveyedState::Gone => None,
        }
    }
}

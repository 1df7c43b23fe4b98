//! Reads from EventBridge the subscribers of custom event buses (`eventsv2`) whose failures are sent to queues.

use aws_sdk_eventbridgev2::operation::describe_subscriber::{
    DescribeSubscriberError, DescribeSubscriberOutput,
};
use aws_sdk_eventbridgev2::operation::list_subscribers::ListSubscribersError;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata as _, SdkError};
use futures_util::{StreamExt as _, stream};
use redeliver_aws::{NotReachedReason, not_reached_reason};

use super::RegionClients;
use crate::fleet::facts::{FailureSender, QueueId};

/// The maximum page size ("ListSubscribers", Amazon EventBridge Custom Event Bus API Reference).
const PAGE: i32 = 100;
/// Maximum number of concurrent requests.
const SUBSCRIBERS_AT_ONCE: usize = 16;

impl RegionClients<'_> {
    /// Fetches the subscribers with a DLQ, and an error for each subscriber that could not be read. Each one is read
    /// separately, since the list does not include the DLQ.
    pub(super) async fn fetch_subscribers(&self) -> Vec<Result<FailureSender, String>> {
        let request = self.events.list_subscribers().max_results(PAGE);
        let listed: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        if listed.as_ref().is_err_and(|error| self.is_unsupported(error)) {
            return Vec::new();
        }
        let listed = match self.check_response("events:ListSubscribers", listed).await {
            Ok(listed) => listed,
            Err(problem) => return vec![Err(problem)],
        };
        let arns = listed.iter().filter_map(|subscriber| subscriber.subscriber_arn());
        let read: Vec<_> = stream::iter(arns.map(|arn| self.fetch_subscriber(arn)))
            .buffered(SUBSCRIBERS_AT_ONCE)
            .collect()
            .await;
        read.into_iter().filter_map(Result::transpose).collect()
    }

    async fn fetch_subscriber(&self, arn: &str) -> Result<Option<FailureSender>, String> {
        let answer = self.events.describe_subscriber().subscriber_arn(arn).send().await;
        // Deleted since it was listed.
        let gone = DescribeSubscriberError::is_resource_not_found_exception;
        if answer.as_ref().is_err_and(|error| error.as_service_error().is_some_and(gone)) {
            return Ok(None);
        }
        Ok(failure_sender(&self.check_response("events:DescribeSubscriber", answer).await?))
    }

    /// Returns true if the region has no endpoint because it does not offer custom event buses, or if an emulator does
    /// not support them. If there is no connection at all, the other services report the error.
    fn is_unsupported(&self, error: &SdkError<ListSubscribersError, HttpResponse>) -> bool {
        match not_reached_reason(error) {
            Some(unreached) => matches!(unreached, NotReachedReason::NoConnection(_)),
            None => !self.is_aws && error.code().is_none(),
        }
    }
}

fn failure_sender(subscriber: &DescribeSubscriberOutput) -> Option<FailureSender> {
    let to = QueueId::from_arn(subscriber.on_failure_configuration()?.arn()?)?;
    Some(FailureSender { name: subscriber.name()?.to_owned(), to })
}

#[cfg(test)]
mod tests {
    use aws_sdk_eventbridgev2::types::OnFailureConfiguration;

    use super::*;
    use crate::queues::AwsConnection;

    #[test]
    fn a_subscriber_with_a_failure_queue_is_a_sender() {
        let with = |arn: Option<&str>| {
            let failures = OnFailureConfiguration::builder().set_arn(arn.map(str::to_owned)).build();
            let subscriber = DescribeSubscriberOutput::builder().name("large-orders");
            subscriber.on_failure_configuration(failures).build()
        };
        let dlq = "arn:aws:sqs:eu-central-1:123456789012:failed-orders.fifo";
        let sender = FailureSender { name: "large-orders".to_owned(), to: QueueId::from_arn(dlq).unwrap() };
        assert_eq!(failure_sender(&with(Some(dlq))), Some(sender));
        assert_eq!(failure_sender(&with(None)), None, "an empty configuration has no queue");
        assert_eq!(failure_sender(&DescribeSubscriberOutput::builder().name("large-orders").build()), None);
    }

    /// If this were a problem, every run in such a region would end with exit code 4, and the user could do nothing
    /// about it.
    #[tokio::test]
    async fn a_region_without_an_eventbridge_endpoint_has_no_subscribers() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let connection = AwsConnection::from_parts(
            None,
            Some("eu-central-1".to_owned()),
            Some(format!("http://{closed}")),
        );
        let mut region = RegionClients::open(&connection).await.unwrap();
        region.is_aws = true;
        assert_eq!(region.fetch_subscribers().await, []);
    }
}

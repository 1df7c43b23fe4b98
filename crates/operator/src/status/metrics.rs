//! Queries CloudWatch for signs that the target is down, the message flow through queues, and the states of alarms.

use std::ops::Range;

use aws_sdk_cloudwatch::Client;
use chrono::TimeDelta;
use redeliver_aws::telemetry::metrics::{self, FUNCTION, NAMESPACE};
use redeliver_core::message::Timestamp;

use super::target::{self, PERIOD};
use crate::CommandFailure;
use crate::queues::cloudwatch::{
    FetchPointsError, MetricQuery, NO_STATE, OLDEST_MESSAGE, Point, fetch_points,
};
use crate::queues::{AwsConnection, RequestLog, describe_error, queue_name_from_arn, region_from_arn};

/// A receive within this time indicates a reader. Receives appear in CloudWatch a few minutes late.
pub const RECEIVES_LOOK_BACK: TimeDelta = TimeDelta::minutes(15);

/// The SQS metrics for [`Receives`]: received messages, and empty receives, which an idle long poller causes.
pub const RECEIVE_METRICS: [&str; 2] = ["NumberOfMessagesReceived", "NumberOfEmptyReceives"];

/// A queue's receives per minute, unordered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receives {
    pub messages: Vec<Point>,
    pub empty: Vec<Point>,
}

/// A client for the metrics in a region.
#[derive(Clone, Debug)]
pub struct MetricsClient {
    client: Client,
}

/// The datapoints that functions recorded about their target, unordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPoints {
    /// One list per function.
    pub circuit_open: Vec<Vec<Point>>,
    /// The points from all functions.
    pub longest_hold_seconds: Vec<Point>,
}

/// The flow through a queue, as unordered datapoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueFlow {
    pub age_seconds: Vec<Point>,
    pub sent: Vec<Point>,
    pub deleted: Vec<Point>,
}

impl MetricsClient {
    /// Creates a client for the metrics in a queue's region.
    pub async fn for_queue_region(
        connection: &AwsConnection,
        queue_arn: &str,
    ) -> Result<Self, CommandFailure> {
        let config = connection.sdk_config(region_from_arn(queue_arn)).await?;
        let config =
            aws_sdk_cloudwatch::config::Builder::from(&config).interceptor(RequestLog::default()).build();
        Ok(Self { client: Client::from_conf(config) })
    }

    /// Queries the age of the oldest message, the sends and the deletions for each queue in the last hour: one point
    /// per five minutes, which arrives a few minutes late.
    pub async fn query_flows(
        &self,
        queues: &[&str],
        now: Timestamp,
    ) -> Result<Vec<QueueFlow>, CommandFailure> {
        const HOUR: TimeDelta = TimeDelta::hours(1);
        let names = [OLDEST_MESSAGE, "NumberOfMessagesSent", "NumberOfMessagesDeleted"];
        let metrics = queues.iter().flat_map(|queue| names.map(|name| MetricQuery::for_queue(name, queue)));
        let points =
            self.query_points(&metrics.collect::<Vec<_>>(), PERIOD, now - HOUR, now + PERIOD).await?;
        let mut points = points.into_iter();
        let mut next = || points.next().unwrap_or_default();
        Ok(queues.iter().map(|_| QueueFlow { age_seconds: next(), sent: next(), deleted: next() }).collect())
    }

    /// Queries the receives from a queue within [`RECEIVES_LOOK_BACK`].
    pub async fn query_receives(&self, queue_arn: &str, now: Timestamp) -> Result<Receives, CommandFailure> {
        let metrics =
            RECEIVE_METRICS.map(|name| MetricQuery::for_queue(name, queue_name_from_arn(queue_arn)));
        let points =
            self.query_points(&metrics, TimeDelta::minutes(1), now - RECEIVES_LOOK_BACK, now).await?;
        let mut points = points.into_iter();
        let mut next = || points.next().unwrap_or_default();
        Ok(Receives { messages: next(), empty: next() })
    }

    /// Queries the alarms whose names begin with `prefix`, with their states.
    pub async fn query_alarms(&self, prefix: &str) -> Result<Vec<(String, String)>, CommandFailure> {
        let request = self.client.describe_alarms().alarm_name_prefix(prefix);
        let pages: Result<Vec<_>, _> = request.into_paginator().send().collect().await;
        let pages =
            pages.map_err(|error| format!("cloudwatch:DescribeAlarms: {}", describe_error(&error)))?;
        let alarms = pages.into_iter().flat_map(|page| page.metric_alarms.unwrap_or_default());
        Ok(alarms
            .map(|alarm| {
                let state = alarm.state_value().map_or(NO_STATE, |state| state.as_str()).to_owned();
                (alarm.alarm_name.unwrap_or_default(), state)
            })
            .collect())
    }

    /// Queries each function's `CircuitOpen` and `LongestHoldSeconds` points for the last 14 days and 15 minutes.
    /// Five-minute points are retained for 63 days ("GetMetricStatistics", Amazon CloudWatch API Reference).
    pub async fn query_target_points(
        &self,
        functions: &[&str],
        now: Timestamp,
    ) -> Result<TargetPoints, CommandFailure> {
        let per_function = |metric: metrics::Metric| {
            functions.iter().map(move |function| MetricQuery {
                namespace: NAMESPACE,
                name: metric.name(),
                dimension: (FUNCTION, function),
                statistic: "Maximum",
            })
        };
        let circuit_open = per_function(metrics::Metric::CircuitOpen);
        let metrics: Vec<_> = circuit_open.chain(per_function(metrics::Metric::LongestHoldSeconds)).collect();
        let Range { start, end } = target::query_range(now);
        let mut circuit_open = self.query_points(&metrics, PERIOD, start, end).await?;
        let longest_hold_seconds = circuit_open.split_off(functions.len()).concat();
        Ok(TargetPoints { circuit_open, longest_hold_seconds })
    }

    pub(super) async fn query_points(
        &self,
        metrics: &[MetricQuery<'_>],
        period: TimeDelta,
        start: Timestamp,
        end: Timestamp,
    ) -> Result<Vec<Vec<Point>>, CommandFailure> {
        let period_seconds = period.num_seconds().try_into()?;
        fetch_points(&self.client, metrics, period_seconds, start, end).await.map_err(|error| {
            let why = match error {
                FetchPointsError::Request(error) => describe_error(&*error),
                FetchPointsError::Metric(why) => why,
            };
            format!("cloudwatch:GetMetricData: {why}").into()
        })
    }
}

#[cfg(test)]
pub(super) mod tests;

//! CloudWatch: how often functions found their target down.

use std::collections::BTreeMap;

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{self, Dimension, MetricDataQuery, MetricDataResult, MetricStat, StatusCode};
use chrono::TimeDelta;
use redeliver_aws::telemetry::metrics::{FUNCTION, Metric, NAMESPACE};
use redeliver_core::message::Timestamp;

use super::target::{self, PERIOD, Point};
use crate::Failure;
use crate::connection::{Connection, Requests, region_in, said};

/// The metrics of a region.
#[derive(Clone, Debug)]
pub struct Metrics {
    client: Client,
}

impl Metrics {
    /// Those of a queue's region.
    pub async fn near(connection: &Connection, queue_arn: &str) -> Result<Self, Failure> {
        let config = connection.sdk_config(region_in(queue_arn)).await?;
        let config = aws_sdk_cloudwatch::config::Builder::from(&config).interceptor(Requests).build();
        Ok(Self { client: Client::from_conf(config) })
    }

    /// How old the oldest message of each queue is, what came in and what was deleted, in the hour before now. These are
    /// SQS's own metrics ("Available CloudWatch metrics for Amazon SQS"): a point every five minutes here, a few minutes late.
    pub async fn flows(&self, queues: &[&str], now: Timestamp) -> Result<Vec<Flow>, Failure> {
        const HOUR: TimeDelta = TimeDelta::hours(1);
        let names = ["ApproximateAgeOfOldestMessage", "NumberOfMessagesSent", "NumberOfMessagesDeleted"];
        let wanted = queues.iter().flat_map(|queue| names.map(|name| (*queue, name)));
        let queries = wanted.zip(0..).map(|((queue, name), n)| of_queue(id(n), queue, name)).collect();
        let mut points = self.points(queries, now - HOUR, now + PERIOD).await?;
        let mut next = 0;
        let mut take = || {
            let found = points.remove(&id(next)).unwrap_or_default();
            next += 1;
            found
        };
        let flows = queues.iter().map(|_| Flow { age_seconds: take(), sent: take(), deleted: take() });
        Ok(flows.collect())
    }

    /// The alarms whose names begin so, each with its state.
    pub async fn alarms(&self, prefix: &str) -> Result<Vec<(String, String)>, Failure> {
        let mut pages = self.client.describe_alarms().alarm_name_prefix(prefix).into_paginator().send();
        let mut alarms = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| format!("cloudwatch:DescribeAlarms: {}", said(&error)))?;
            alarms.extend(page.metric_alarms.unwrap_or_default().into_iter().map(|alarm| {
                let state =
                    alarm.state_value().map_or("INSUFFICIENT_DATA", |state| state.as_str()).to_owned();
                (alarm.alarm_name.unwrap_or_default(), state)
            }));
        }
        Ok(alarms)
    }

    /// The points of `CircuitOpen` of each function, of as long as an outage is looked for. Points of five minutes are
    /// kept for 63 days, and an answer has up to 100,800 points ("GetMetricData", Amazon CloudWatch API Reference): one
    /// has room for those of 24 functions.
    pub async fn circuit_open(&self, functions: &[&str], now: Timestamp) -> Result<Vec<Vec<Point>>, Failure> {
        let (start, end) = target::asked_for(now);
        let queries = functions.iter().zip(0..).map(|(function, n)| query(id(n), function)).collect();
        let mut points = self.points(queries, start, end).await?;
        Ok((0..functions.len()).map(|n| points.remove(&id(n)).unwrap_or_default()).collect())
    }

    /// Each query's points, by its id.
    async fn points(
        &self,
        queries: Vec<MetricDataQuery>,
        start: Timestamp,
        end: Timestamp,
    ) -> Result<BTreeMap<String, Vec<Point>>, Failure> {
        let request = self.client.get_metric_data().set_metric_data_queries(Some(queries));
        let request = request.start_time(moment(start)).end_time(moment(end));
        let mut pages = request.into_paginator().send();
        let mut points = BTreeMap::<String, Vec<Point>>::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| failed(&said(&error)))?;
            for result in page.metric_data_results.unwrap_or_default() {
                check(&result)?;
                let found = points.entry(result.id.unwrap_or_default()).or_default();
                let moments = result.timestamps.unwrap_or_default().into_iter().filter_map(timestamp);
                found.extend(moments.zip(result.values.unwrap_or_default()));
            }
        }
        Ok(points)
    }
}

/// What went through a queue, in points without an order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    pub age_seconds: Vec<Point>,
    pub sent: Vec<Point>,
    pub deleted: Vec<Point>,
}

fn of_queue(id: String, queue: &str, name: &str) -> MetricDataQuery {
    let dimension = Dimension::builder().name("QueueName").value(queue).build();
    let metric =
        types::Metric::builder().namespace("AWS/SQS").metric_name(name).dimensions(dimension).build();
    let stat = if name.starts_with("Approximate") { "Maximum" } else { "Sum" };
    let period = PERIOD.num_seconds().try_into().ok();
    let stat = MetricStat::builder().metric(metric).set_period(period).stat(stat).build();
    MetricDataQuery::builder().id(id).metric_stat(stat).build()
}

fn query(id: String, function: &str) -> MetricDataQuery {
    let dimension = Dimension::builder().name(FUNCTION).value(function).build();
    let name = format!("{:?}", Metric::CircuitOpen);
    let metric =
        types::Metric::builder().namespace(NAMESPACE).metric_name(name).dimensions(dimension).build();
    let period = PERIOD.num_seconds().try_into().ok();
    let stat = MetricStat::builder().metric(metric).set_period(period).stat("Maximum").build();
    MetricDataQuery::builder().id(id).metric_stat(stat).build()
}

/// It must begin with a small letter.
fn id(n: usize) -> String {
    format!("f{n}")
}

/// `PartialData` is what more pages follow of.
fn check(result: &MetricDataResult) -> Result<(), Failure> {
    match &result.status_code {
        Some(code @ (StatusCode::Forbidden | StatusCode::InternalError)) => {
            let said = result.messages().iter().filter_map(|message| message.value());
            Err(failed(&[&[code.as_str()], said.collect::<Vec<_>>().as_slice()].concat().join(": ")))
        }
        _ => Ok(()),
    }
}

fn failed(reason: &str) -> Failure {
    format!("cloudwatch:GetMetricData: {reason}").into()
}

fn moment(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.timestamp())
}

fn timestamp(at: DateTime) -> Option<Timestamp> {
    Timestamp::from_timestamp(at.secs(), at.subsec_nanos())
}

#[cfg(test)]
pub(super) mod tests;

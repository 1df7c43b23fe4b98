//! Reads the datapoints of many CloudWatch metrics per request.

use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::error::SdkError;
use aws_sdk_cloudwatch::operation::get_metric_data::GetMetricDataError;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{self, Dimension, MetricDataQuery, MetricDataResult, MetricStat, StatusCode};
use redeliver_core::message::Timestamp;

/// The namespace of the SQS metrics.
pub const SQS: &str = "AWS/SQS";
/// The dimension for the queue name.
pub const QUEUE_NAME: &str = "QueueName";
pub const OLDEST_MESSAGE: &str = "ApproximateAgeOfOldestMessage";
/// The state of a new alarm.
pub const NO_STATE: &str = "INSUFFICIENT_DATA";

/// The limit on metrics in one request ("GetMetricData", Amazon CloudWatch API Reference).
pub const METRICS_MAX: usize = 500;

/// A metric's value in the period that begins at this timestamp. All metrics read here have integer values.
pub type Point = (Timestamp, i64);

/// A metric with one dimension.
#[derive(Clone, Copy, Debug)]
pub struct MetricQuery<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub dimension: (&'a str, &'a str),
    /// `Maximum` or `Sum`.
    pub statistic: &'a str,
}

/// The reason for missing datapoints.
#[derive(Debug)]
pub enum FetchPointsError {
    Request(Box<SdkError<GetMetricDataError>>),
    /// CloudWatch responded, but rejected one of the metrics.
    Metric(String),
}

/// Reads the metrics' datapoints: one list per metric, in the given order. The points in a list are unordered. Sends
/// one request per 500 metrics, and reads all pages.
///
/// # Errors
/// If CloudWatch rejects a request, or one of its metrics (`Forbidden`, `InternalError`).
pub async fn fetch_points(
    client: &Client,
    metrics: &[MetricQuery<'_>],
    period_seconds: i32,
    start: Timestamp,
    end: Timestamp,
) -> Result<Vec<Vec<Point>>, FetchPointsError> {
    let mut found = vec![Vec::new(); metrics.len()];
    for (chunk, found) in metrics.chunks(METRICS_MAX).zip(found.chunks_mut(METRICS_MAX)) {
        let queries =
            chunk.iter().zip(0..).map(|(metric, n)| metric.to_data_query(n, period_seconds)).collect();
        let request = client.get_metric_data().set_metric_data_queries(Some(queries));
        let request = request.start_time(to_datetime(start)).end_time(to_datetime(end));
        let mut pages = request.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| FetchPointsError::Request(Box::new(error)))?;
            // The datapoints of one metric may be on several pages.
            for result in page.metric_data_results.unwrap_or_default() {
                check_result(&result)?;
                if let Some(points) = result.id().and_then(query_index).and_then(|place| found.get_mut(place))
                {
                    let both = result.timestamps().iter().zip(result.values());
                    points.extend(
                        both.filter_map(|(moment, value)| Some((to_timestamp(moment)?, to_integer(*value)))),
                    );
                }
            }
        }
    }
    Ok(found)
}

impl<'a> MetricQuery<'a> {
    /// Creates a query for an SQS metric ("Available CloudWatch metrics for Amazon SQS"): `Approximate…` metrics are
    /// gauges, all others are counts.
    pub fn for_queue(name: &'a str, queue: &'a str) -> Self {
        let statistic = if name.starts_with("Approximate") { "Maximum" } else { "Sum" };
        Self { namespace: SQS, name, dimension: (QUEUE_NAME, queue), statistic }
    }

    fn to_data_query(self, n: usize, period_seconds: i32) -> MetricDataQuery {
        let (name, value) = self.dimension;
        let metric = types::Metric::builder()
            .namespace(self.namespace)
            .metric_name(self.name)
            .dimensions(Dimension::builder().name(name).value(value).build())
            .build();
        let stat = MetricStat::builder().metric(metric).period(period_seconds).stat(self.statistic).build();
        // An id must begin with a lowercase letter.
        MetricDataQuery::builder().id(format!("q{n}")).metric_stat(stat).build()
    }
}

fn query_index(id: &str) -> Option<usize> {
    id.strip_prefix('q')?.parse().ok()
}

/// Returns an error for a rejected metric. `PartialData` means that more pages follow.
fn check_result(result: &MetricDataResult) -> Result<(), FetchPointsError> {
    match &result.status_code {
        Some(code @ (StatusCode::Forbidden | StatusCode::InternalError)) => {
            let messages = result.messages().iter().filter_map(|message| message.value());
            let parts: Vec<_> = [code.as_str()].into_iter().chain(messages).collect();
            Err(FetchPointsError::Metric(parts.join(": ")))
        }
        _ => Ok(()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ages are at most 14 days, and sums far below 2^53")]
fn to_integer(value: f64) -> i64 {
    value as i64
}

fn to_datetime(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.timestamp())
}

fn to_timestamp(at: &DateTime) -> Option<Timestamp> {
    Timestamp::from_timestamp(at.secs(), at.subsec_nanos())
}

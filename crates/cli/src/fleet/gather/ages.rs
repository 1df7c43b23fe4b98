//! CloudWatch: how old the oldest message of a queue is.

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{
    Dimension, Metric, MetricDataQuery, MetricDataResult, MetricStat, StatusCode,
};
use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

use super::Region;
use crate::fleet::facts::{Age, Ages, QueueId};

/// Metrics of one request ("GetMetricData", Amazon CloudWatch API Reference).
const METRICS_MAX: usize = 500;
/// SQS tells its metrics each minute.
const PERIOD_SECONDS: i32 = 60;
/// They come some minutes late, and later for a queue at which nobody has looked for hours.
const LOOK_BACK: TimeDelta = TimeDelta::minutes(20);

impl Region<'_> {
    pub(super) async fn ages(&self, queues: &[&QueueId], now: Timestamp) -> Result<Ages, String> {
        let mut ages = Ages::new();
        for some in queues.chunks(METRICS_MAX) {
            let queries = some.iter().zip(0..).map(|(queue, n)| query(id(n), &queue.name)).collect();
            let request = self.cloudwatch.get_metric_data().set_metric_data_queries(Some(queries));
            let request = request.start_time(moment(now - LOOK_BACK)).end_time(moment(now));
            let mut pages = request.into_paginator().send();
            while let Some(page) = pages.next().await {
                let results = match page {
                    Ok(page) => page.metric_data_results.unwrap_or_default(),
                    Err(error) => return Err(self.failed("cloudwatch:GetMetricData", &error).await),
                };
                for result in results {
                    let age = newest(&result)
                        .map_err(|why| self.told(&format!("cloudwatch:GetMetricData: {why}")))?;
                    let queue = result.id().and_then(|id| some.get(place(id)?));
                    // Pages are cut where they please: an earlier one may have had a newer point.
                    if let (Some(age), Some(queue)) = (age, queue)
                        && ages.get(*queue).is_none_or(|known: &Age| known.at < age.at)
                    {
                        ages.insert((*queue).clone(), age);
                    }
                }
            }
        }
        Ok(ages)
    }
}

fn query(id: String, queue: &str) -> MetricDataQuery {
    let dimension = Dimension::builder().name("QueueName").value(queue).build();
    let metric = Metric::builder().namespace("AWS/SQS").metric_name("ApproximateAgeOfOldestMessage");
    let stat = MetricStat::builder()
        .metric(metric.dimensions(dimension).build())
        .period(PERIOD_SECONDS)
        .stat("Maximum");
    MetricDataQuery::builder().id(id).metric_stat(stat.build()).build()
}

/// It must begin with a small letter.
fn id(n: usize) -> String {
    format!("q{n}")
}

fn place(id: &str) -> Option<usize> {
    id.strip_prefix('q')?.parse().ok()
}

fn newest(result: &MetricDataResult) -> Result<Option<Age>, String> {
    if let Some(code @ (StatusCode::Forbidden | StatusCode::InternalError)) = result.status_code() {
        return Err(code.as_str().to_owned());
    }
    let points = result.timestamps().iter().zip(result.values());
    let newest = points.max_by_key(|(at, _)| at.secs());
    Ok(newest.and_then(|(at, seconds)| {
        Some(Age { seconds: whole(*seconds), at: Timestamp::from_timestamp(at.secs(), 0)? })
    }))
}

#[expect(clippy::cast_possible_truncation, reason = "no message is older than fourteen days")]
fn whole(seconds: f64) -> i64 {
    seconds as i64
}

fn moment(at: Timestamp) -> DateTime {
    DateTime::from_secs(at.timestamp())
}

#[cfg(test)]
mod tests;

//! Reads the age of a queue's oldest message and the queue's receive counts from CloudWatch.

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

use super::RegionClients;
use crate::fleet::facts::{OldestMessageAge, OldestMessageAges, QueueId, ReceivesByQueue};
use crate::queues::cloudwatch::{FetchPointsError, MetricQuery, OLDEST_MESSAGE, Point, fetch_points};
use crate::status::{RECEIVE_METRICS, RECEIVES_LOOK_BACK, Receives};

/// SQS reports its metrics once per minute.
const PERIOD_SECONDS: i32 = 60;
/// Metrics arrive a few minutes late, and even later for a queue that was idle for hours.
const LOOK_BACK: TimeDelta = TimeDelta::minutes(20);

impl RegionClients<'_> {
    pub(super) async fn fetch_ages(
        &self,
        queues: &[&QueueId],
        now: Timestamp,
    ) -> Result<OldestMessageAges, String> {
        let points = self.fetch_metrics([OLDEST_MESSAGE], queues, LOOK_BACK, now).await?;
        Ok(points.filter_map(|(queue, [points])| Some((queue, newest_age(&points)?))).collect())
    }

    /// Fetches the queues' receive counts within [`RECEIVES_LOOK_BACK`].
    pub(super) async fn fetch_receives(
        &self,
        queues: &[&QueueId],
        now: Timestamp,
    ) -> Result<ReceivesByQueue, String> {
        let points = self.fetch_metrics(RECEIVE_METRICS, queues, RECEIVES_LOOK_BACK, now).await?;
        Ok(points.map(|(queue, [messages, empty])| (queue, Receives { messages, empty })).collect())
    }

    /// Fetches the datapoints of these metrics for each queue.
    async fn fetch_metrics<const N: usize>(
        &self,
        names: [&str; N],
        queues: &[&QueueId],
        look_back: TimeDelta,
        now: Timestamp,
    ) -> Result<impl Iterator<Item = (QueueId, [Vec<Point>; N])>, String> {
        const ACTION: &str = "cloudwatch:GetMetricData";
        let metrics: Vec<_> = queues
            .iter()
            .flat_map(|queue| names.map(|name| MetricQuery::for_queue(name, &queue.name)))
            .collect();
        match fetch_points(&self.cloudwatch, &metrics, PERIOD_SECONDS, now - look_back, now).await {
            Ok(points) => {
                let mut points = points.into_iter();
                let with_points = move |queue: &&QueueId| {
                    ((*queue).clone(), names.map(|_| points.next().unwrap_or_default()))
                };
                Ok(queues.iter().map(with_points).collect::<Vec<_>>().into_iter())
            }
            Err(FetchPointsError::Request(error)) => Err(self.describe_failure(ACTION, &*error).await),
            Err(FetchPointsError::Metric(why)) => {
                Err(self.format_region_problem(&format!("{ACTION}: {why}")))
            }
        }
    }
}

fn newest_age(points: &[Point]) -> Option<OldestMessageAge> {
    let (at, seconds) = points.iter().max_by_key(|(at, _)| *at)?;
    Some(OldestMessageAge { seconds: *seconds, at: *at })
}

#[cfg(test)]
mod tests;

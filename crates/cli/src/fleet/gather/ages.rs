//! CloudWatch: how old the oldest message of a queue is.

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;

use super::Region;
use crate::cloudwatch::{Metric, NoPoints, OLDEST_MESSAGE, Point, points};
use crate::fleet::facts::{Age, Ages, QueueId};

/// SQS tells its metrics each minute.
const PERIOD_SECONDS: i32 = 60;
/// They come some minutes late, and later for a queue at which nobody has looked for hours.
const LOOK_BACK: TimeDelta = TimeDelta::minutes(20);

impl Region<'_> {
    pub(super) async fn ages(&self, queues: &[&QueueId], now: Timestamp) -> Result<Ages, String> {
        const ACTION: &str = "cloudwatch:GetMetricData";
        let metrics: Vec<_> =
            queues.iter().map(|queue| Metric::of_queue(OLDEST_MESSAGE, &queue.name)).collect();
        match points(&self.cloudwatch, &metrics, PERIOD_SECONDS, now - LOOK_BACK, now).await {
            Ok(points) => {
                let ages = queues.iter().zip(points);
                Ok(ages.filter_map(|(queue, points)| Some(((*queue).clone(), newest(&points)?))).collect())
            }
            Err(NoPoints::Request(error)) => Err(self.failed(ACTION, &*error).await),
            Err(NoPoints::Metric(why)) => Err(self.told(&format!("{ACTION}: {why}"))),
        }
    }
}

fn newest(points: &[Point]) -> Option<Age> {
    let (at, seconds) = points.iter().max_by_key(|(at, _)| *at)?;
    Some(Age { seconds: *seconds, at: *at })
}

#[cfg(test)]
mod tests;

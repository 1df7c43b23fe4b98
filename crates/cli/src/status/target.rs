//! Whether the target is down, and since when. Only the message-processor knows, and it tells CloudWatch: held messages
//! cannot be looked at, since a receive would move them.

use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_cloudwatch::Client;
use aws_sdk_cloudwatch::primitives::DateTime;
use aws_sdk_cloudwatch::types::{Dimension, Metric, MetricDataQuery, MetricStat, StatusCode};
use chrono::TimeDelta;
use redeliver_aws::SystemClock;
use redeliver_aws::telemetry::metrics::{self, NAMESPACE};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock as _;
use serde::Serialize;

use crate::connection::{Requests, said};
use crate::people::about;

/// One-minute points are kept for 15 days ("CloudWatch concepts", metrics retention).
const LOOK_BACK: TimeDelta = TimeDelta::days(14);
const PERIOD: TimeDelta = TimeDelta::minutes(1);
/// Between two signs of one outage: if nothing new comes in, the next one is a held message that is back, 900 s later at
/// most. The alarm `target-down` waits for as long.
const SILENCE_MAX: TimeDelta = TimeDelta::seconds(900);

/// What the circuit breakers of a deployment say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Since when it is down, to the minute; `None` if no breaker was open in the last quarter of an hour.
    pub down_since: Option<Timestamp>,
    #[serde(skip)]
    now: Timestamp,
}

impl Target {
    /// Asks CloudWatch what the functions with these names have told it.
    pub async fn look<'a>(
        config: &SdkConfig,
        functions: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let now = SystemClock.now();
        let config = aws_sdk_cloudwatch::config::Builder::from(config).interceptor(Requests).build();
        let request = Client::from_conf(config)
            .get_metric_data()
            .start_time(DateTime::from_secs((now - LOOK_BACK).timestamp()))
            .end_time(DateTime::from_secs(now.timestamp()))
            .set_metric_data_queries(Some(functions.into_iter().enumerate().map(query).collect()));
        let mut pages = request.into_paginator().send();
        // Several functions may read one queue, and one of them that holds messages is enough.
        let mut signs = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| format!("cloudwatch:GetMetricData: {}", said(&error)))?;
            for found in page.metric_data_results.unwrap_or_default() {
                if let Some(code @ (StatusCode::Forbidden | StatusCode::InternalError)) = found.status_code {
                    return Err(format!("cloudwatch:GetMetricData: {code}"));
                }
                let points =
                    found.timestamps.unwrap_or_default().into_iter().zip(found.values.unwrap_or_default());
                let moments = points.filter(|(_, value)| *value > 0.0).map(|(at, _)| at.secs());
                signs.extend(moments.filter_map(|at| Timestamp::from_timestamp(at, 0)));
            }
        }
        Ok(Self { down_since: down_since(signs, now), now })
    }
}

fn query((index, function): (usize, &str)) -> MetricDataQuery {
    // A version or an alias tells it under the function's own name.
    let name = function.split(':').next().unwrap_or_default();
    let metric = Metric::builder()
        .namespace(NAMESPACE)
        .metric_name(format!("{:?}", metrics::Metric::CircuitOpen))
        .dimensions(Dimension::builder().name("Function").value(name).build())
        .build();
    let period = i32::try_from(PERIOD.num_seconds()).unwrap_or(i32::MAX);
    let counted = MetricStat::builder().metric(metric).period(period).stat("Sum").build();
    MetricDataQuery::builder().id(format!("m{index}")).metric_stat(counted).build()
}

/// The first of the newest signs that are no further apart than those of one outage can be, unless even the last one is
/// over. A sign's moment is when its minute began.
fn down_since(mut signs: Vec<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    signs.sort_unstable();
    let mut since = None;
    for sign in signs.into_iter().rev() {
        if since.unwrap_or(now) - sign >= SILENCE_MAX + PERIOD {
            break;
        }
        since = Some(sign);
    }
    since
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(since) = self.down_since else {
            return formatter.write_str(
                "target: no circuit breaker was open in the last 15 minutes, as far as CloudWatch knows",
            );
        };
        let span = self.now - since;
        let or_more = if span > LOOK_BACK - SILENCE_MAX { " or more" } else { "" };
        write!(
            formatter,
            "target: DOWN since {} ({}{or_more}). Its messages are held and spend no attempts; they are done within 15 \
             minutes of its return. The log line circuit_opened of the message-processor has its error",
            since.format("%Y-%m-%d %H:%M UTC"),
            about(span.num_seconds())
        )
    }
}

#[cfg(test)]
mod tests;

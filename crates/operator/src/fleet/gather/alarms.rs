//! Reads the alarms on queue metrics from CloudWatch. Composite alarms are skipped: they have no metric, and the alarms
//! they combine are read separately.

use aws_sdk_cloudwatch::types::{Dimension, MetricAlarm, MetricDataQuery};

use super::RegionClients;
use crate::fleet::facts::{Alarm, AlarmWatch, WatchedQueues};
use crate::queues::cloudwatch::{NO_STATE, QUEUE_NAME, SQS};

/// CloudWatch's maximum page size ("DescribeAlarms", Amazon CloudWatch API Reference).
const PAGE: i32 = 100;

impl RegionClients<'_> {
    pub(super) async fn fetch_alarms(&self) -> Result<Vec<Alarm>, String> {
        let request = self.cloudwatch.describe_alarms().max_records(PAGE);
        let pages: Result<Vec<_>, _> = request.into_paginator().send().collect().await;
        let pages = self.check_response("cloudwatch:DescribeAlarms", pages).await?;
        let alarms = pages.into_iter().flat_map(|page| page.metric_alarms.unwrap_or_default());
        Ok(alarms.filter_map(|alarm| parse_alarm(&alarm)).collect())
    }
}

/// Parses an alarm; `None` if it does not watch queues.
fn parse_alarm(alarm: &MetricAlarm) -> Option<Alarm> {
    let own = watched_queue(alarm.namespace(), alarm.dimensions())
        .map(|queues| AlarmWatch { account: None, queues });
    let watches: Vec<_> = alarm.metrics().iter().filter_map(parse_watch).chain(own).collect();
    let state = alarm.state_value().map_or(NO_STATE, |state| state.as_str());
    let watches_queues = !watches.is_empty();
    watches_queues.then(|| Alarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        state: state.to_owned(),
        watches,
    })
}

/// Parses one part of metric math: a metric or a query. Other expressions do not name a queue.
fn parse_watch(query: &MetricDataQuery) -> Option<AlarmWatch> {
    let by_metric = query.metric_stat().and_then(|stat| stat.metric());
    let by_metric = by_metric.and_then(|metric| watched_queue(metric.namespace(), metric.dimensions()));
    let is_query =
        |text: &&str| text.trim_start().to_ascii_uppercase().starts_with("SELECT") && text.contains(SQS);
    let by_query =
        || query.expression().filter(is_query).map(|text| WatchedQueues::SelectedBy(text.to_owned()));
    Some(AlarmWatch { account: query.account_id().map(str::to_owned), queues: by_metric.or_else(by_query)? })
}

fn watched_queue(namespace: Option<&str>, dimensions: &[Dimension]) -> Option<WatchedQueues> {
    let is_queue = |dimension: &&Dimension| namespace == Some(SQS) && dimension.name() == Some(QUEUE_NAME);
    Some(WatchedQueues::Named(dimensions.iter().find(is_queue)?.value()?.to_owned()))
}

#[cfg(test)]
mod tests;

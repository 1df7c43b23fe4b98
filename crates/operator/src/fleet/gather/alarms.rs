//! CloudWatch: the alarms on queue metrics. Composite alarms are skipped: they have no metric, and the alarms they
//! combine are read separately.

use aws_sdk_cloudwatch::types::{Dimension, MetricAlarm, MetricDataQuery};

use super::RegionClients;
use crate::fleet::facts::{Alarm, AlarmWatch, WatchedQueues};
use crate::queues::cloudwatch::{NO_STATE, QUEUE_NAME, SQS};

/// The maximum page size of CloudWatch ("DescribeAlarms", Amazon CloudWatch API Reference).
const PAGE: i32 = 100;

impl RegionClients<'_> {
    pub(super) async fn fetch_alarms(&self) -> Result<Vec<Alarm>, String> {
        let request = self.cloudwatch.describe_alarms().max_records(PAGE);
        let pages: Result<Vec<_>, _> = request.into_paginator().send().collect().await;
        let pages = self.check_response("cloudwatch:DescribeAlarms", pages).await?;
        let alarms = pages.into_iter().flat_map(|page| page.metric_alarms.unwrap_or_default());
        Ok(alarms.filter_map(|alarm| on_queues(&alarm)).collect())
    }
}

/// `None` if it does not watch queues.
fn on_queues(alarm: &MetricAlarm) -> Option<Alarm> {
    let own = watched_queue(alarm.namespace(), alarm.dimensions())
        .map(|queues| AlarmWatch { account: None, queues });
    let watches: Vec<_> = alarm.metrics().iter().filter_map(parse_watch).chain(own).collect();
    let state = alarm.state_value().map_or(NO_STATE, |state| state.as_str());
    let is_one = !watches.is_empty();
    is_one.then(|| Alarm {
        name: alarm.alarm_name().unwrap_or_default().to_owned(),
        state: state.to_owned(),
        watches,
    })
}

/// Parses one part of metric math: a metric, or a query. An expression alone does not name a queue.
fn parse_watch(query: &MetricDataQuery) -> Option<AlarmWatch> {
    let of_stat = query.metric_stat().and_then(|stat| stat.metric());
    let of_stat = of_stat.and_then(|metric| watched_queue(metric.namespace(), metric.dimensions()));
    let is_query =
        |text: &&str| text.trim_start().to_ascii_uppercase().starts_with("SELECT") && text.contains(SQS);
    let of_query =
        || query.expression().filter(is_query).map(|text| WatchedQueues::SelectedBy(text.to_owned()));
    Some(AlarmWatch { account: query.account_id().map(str::to_owned), queues: of_stat.or_else(of_query)? })
}

fn watched_queue(namespace: Option<&str>, dimensions: &[Dimension]) -> Option<WatchedQueues> {
    let is_queue = |dimension: &&Dimension| namespace == Some(SQS) && dimension.name() == Some(QUEUE_NAME);
    Some(WatchedQueues::Named(dimensions.iter().find(is_queue)?.value()?.to_owned()))
}

#[cfg(test)]
mod tests;

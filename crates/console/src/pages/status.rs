//! The status page: what waits where, what flows, and whether the target is down.

use chrono::TimeDelta;
use maud::{Markup, html};
use redeliver_operator::markup::chart::columns_only;
use redeliver_operator::markup::moment;
use redeliver_operator::queues::cloudwatch::Point;
use redeliver_operator::queues::event_sources::Mapping;
use redeliver_operator::status::readers::Readers;
use redeliver_operator::status::{Flow, QueueStatus, Target};
use redeliver_operator::terminal::units::{about, counted, grouped, span};

use crate::deployment::Deployment;
use crate::status_poll::LiveStatus;

/// Points of a small chart: an hour of five minutes each.
const POINTS: usize = 13;
const POINT_SECONDS: i64 = 300;

/// The part of the page that changes.
pub(crate) fn part(deployment: &Deployment) -> Markup {
    html! {
        @match deployment.status.last_seen.seen() {
            Some(seen) => {
                @if let Some(why) = deployment.status.last_seen.failed() { p class="warning" role="alert" { (why) } }
                (flow(&deployment.from, &seen))
            }
            None => (waiting(deployment)),
        }
    }
}

fn flow(dlq: &str, seen: &LiveStatus) -> Markup {
    let LiveStatus { at, status, flows, alarms } = seen;
    let on: Vec<_> = alarms.iter().filter(|(_, state)| state == "ALARM").collect();
    html! {
        @match status.target {
            Some(target @ Target::Down(_)) => p class="warning" role="alert" { "The target is " (target.in_words()) "." },
            Some(target) => p { "Target: " (target.in_words()) "." },
            None => {},
        }
        ol class="flow" {
            @for (index, queue) in status.queues.iter().enumerate() {
                li { (card(role(dlq, queue), queue, flows.get(index), queue.arn == dlq)) }
            }
        }
        @for (name, _) in &on { p class="warning" { "Alarm: " (name) } }
        @if on.is_empty() && !alarms.is_empty() { p { "None of its " (counted(alarms.len() as u64, "alarm")) " is on." } }
        @for problem in &status.problems { p class="warning" { (problem) } }
        p class="remark" {
            "Counts are SQS's own, which it calls approximate, of " (moment(*at)) ". A delayed message comes out within 15 minutes; when \
             exactly, SQS does not say. Ages and flow are CloudWatch's, some minutes late; an age leaves out messages that were received three times or more, as three looks do. \
             The page of dead letters shows when SQS deletes each."
        }
    }
}

/// The queue's role. Queues that were named by --queue and --to have the role of their option.
fn role<'a>(dlq: &str, queue: &QueueStatus) -> &'a str {
    match queue.role {
        "queue" if queue.arn == dlq => "DLQ",
        "queue" => "source",
        role => role,
    }
}

fn card(role: &str, queue: &QueueStatus, flow: Option<&Flow>, is_dlq: bool) -> Markup {
    let count = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), grouped);
    let oldest = flow.and_then(|flow| flow.age_seconds.iter().max_by_key(|(at, _)| *at)).map(|(_, age)| *age);
    html! {
        h2 { (role) }
        p class="name" { (queue.name) }
        dl {
            div class=[(is_dlq && queue.counts.visible.unwrap_or(0) > 0).then_some("alarm")] { dt { "visible" } dd { (count(queue.counts.visible)) } }
            div { dt { "in flight" } dd { (count(queue.counts.in_flight)) } }
            div { dt { "delayed" } dd { (count(queue.counts.delayed)) } }
            @if let Some(seconds) = oldest { div class=[(is_dlq && ends_soon(queue, seconds)).then_some("alarm")] { dt { "oldest" } dd { (about(seconds)) } } }
        }
        @if let Some(flow) = flow {
            (spark("in", &flow.sent)) (spark("out", &flow.deleted))
        }
        @for mapping in queue.mappings.iter().flatten() { (reader(mapping)) }
        @match &queue.readers {
            Some(Readers::EventSourceMapping) => {},
            _ if is_dlq => p class="remark" { "for people" },
            Some(readers) => p class="remark" { (readers.in_words()) },
            None => {},
        }
        @if let Some(seconds) = queue.counts.retention_seconds { p class="remark" { "kept for " (span(seconds)) } }
    }
}

/// True if SQS deletes the queue's oldest message soon, by CloudWatch's age.
fn ends_soon(queue: &QueueStatus, age_seconds: i64) -> bool {
    let age = TimeDelta::try_seconds(age_seconds);
    queue.counts.retention().zip(age).is_some_and(|(retention, age)| retention.ends_soon_at_age(age))
}

fn reader(mapping: &Mapping) -> Markup {
    let is_on = mapping.state == "Enabled";
    html! { p class=(if is_on { "remark" } else { "warning" }) { "read by " (mapping.function) @if !is_on { ": " (mapping.state) } } }
}

/// Charts an hour of a metric.
fn spark(name: &str, points: &[Point]) -> Markup {
    let Some(last) = points.iter().map(|(at, _)| at.timestamp()).max() else { return Markup::default() };
    let sum: i64 = points.iter().map(|(_, value)| value).sum();
    let columns = points.iter().filter_map(|(at, value)| {
        let column =
            POINTS.checked_sub(1 + usize::try_from((last - at.timestamp()) / POINT_SECONDS).ok()?)?;
        Some((column, value.unsigned_abs()))
    });
    html! {
        p class="spark" {
            span { (name) " " (grouped(sum.unsigned_abs())) " in an hour" }
            (columns_only(&format!("{name} by five minutes"), 6, POINTS, columns))
        }
    }
}

/// Shown until the first status is there.
pub(crate) fn waiting(deployment: &Deployment) -> Markup {
    html! {
        @match deployment.status.last_seen.failed() {
            Some(why) => p class="warning" role="alert" { (why) },
            None => p role="status" { "Asking AWS…" },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use redeliver_core::message::Timestamp;

    use super::*;
    use redeliver_operator::status::Status;

    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-prod-final-dlq";

    fn queue(role: &'static str, arn: &str, visible: u64) -> QueueStatus {
        let attributes = BTreeMap::from([("ApproximateNumberOfMessages".to_owned(), visible.to_string())]);
        QueueStatus::new(role, arn, &attributes)
    }

    fn seen(alarms: &[(&str, &str)]) -> LiveStatus {
        let at = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
        let flow = Flow {
            age_seconds: vec![(at, 7200), (at - chrono::TimeDelta::minutes(5), 60)],
            sent: vec![(at, 1500), (at - chrono::TimeDelta::hours(1), 500)],
            deleted: Vec::new(),
        };
        LiveStatus {
            at,
            status: Status {
                deployment: None,
                target: Some(Target::NoOutageSeen),
                queues: vec![
                    queue("source", &DLQ.replace("final-dlq", "source"), 3),
                    queue("final DLQ", DLQ, 41),
                ],
                problems: vec!["<no> permission".to_owned()],
            },
            flows: vec![flow],
            alarms: alarms.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect(),
        }
    }

    #[test]
    fn each_queue_has_its_counts_and_what_is_wrong_stands_out() {
        let page = flow(DLQ, &seen(&[("target-down", "ALARM"), ("dead-letters", "OK")])).into_string();
        for expected in [
            "<dt>visible</dt><dd>3</dd>",
            "<div class=\"alarm\"><dt>visible</dt><dd>41</dd></div>",
            "<dt>in flight</dt><dd>?</dd>",
            "<dt>oldest</dt><dd>2h</dd>",
            "in 2,000 in an hour",
            "<p class=\"warning\">Alarm: target-down</p>",
            "<p class=\"warning\">&lt;no&gt; permission</p>",
            "Target: no outage seen in the last 15 minutes.",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        assert!(!page.contains("dead-letters") && !page.contains("out 0"), "{page}");
        let quiet = flow(DLQ, &seen(&[("dead-letters", "OK")])).into_string();
        assert!(quiet.contains("None of its 1 alarm is on."), "{quiet}");
    }

    #[test]
    fn a_dlq_whose_oldest_message_is_deleted_soon_stands_out() {
        let of_age = |seconds, is_dlq| {
            let kept = [("MessageRetentionPeriod".to_owned(), "1209600".to_owned())];
            let queue = QueueStatus::new("final DLQ", DLQ, &BTreeMap::from(kept));
            let at = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
            let flow = Flow { age_seconds: vec![(at, seconds)], ..Flow::default() };
            card("final DLQ", &queue, Some(&flow), is_dlq).into_string()
        };
        // The last fifth of 14 days begins after 967,680 seconds.
        let alarm = "<div class=\"alarm\"><dt>oldest</dt><dd>11d 4h</dd></div>";
        assert!(of_age(967_681, true).contains(alarm));
        assert!(!of_age(967_680, true).contains("alarm") && !of_age(967_681, false).contains("alarm"));
    }

    #[test]
    fn a_queue_that_a_container_reads_is_not_said_to_be_read_by_nobody() {
        let readers = Readers::SomethingElse {
            mappings_known: true,
            messages_received: 120,
            empty_receives: 3,
            minutes: 15,
            minutes_with_receives: 15,
        };
        let source = QueueStatus {
            mappings: Some(Vec::new()),
            readers: Some(readers.clone()),
            ..queue("source", &DLQ.replace("final-dlq", "source"), 3)
        };
        let card = card("source", &source, None, false).into_string();
        assert!(card.contains(&format!("<p class=\"remark\">{}</p>", readers.in_words())), "{card}");
    }

    #[test]
    fn a_chart_has_a_column_for_each_point_of_the_last_hour() {
        let at = |minutes: i64| Timestamp::from_timestamp(1_800_000_000 + minutes * 60, 0).unwrap();
        let drawn = spark("in", &[(at(60), 10), (at(0), 5), (at(-10), 3)]).into_string();
        let columns: Vec<_> = drawn.match_indices("<rect").collect();
        assert_eq!(columns.len(), 2, "what is older has no column: {drawn}");
        assert!(
            drawn.contains("<rect x=\"72\" y=\"0\"") && drawn.contains("<rect x=\"0\" y=\"9\""),
            "{drawn}"
        );
        assert_eq!(spark("in", &[]).into_string(), "");
    }
}

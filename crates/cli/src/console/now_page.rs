//! Now: what is where, what flows, whether the target is down; and the switches that stop and start it.

use maud::{Markup, html};
use serde::Deserialize;

use super::at::At;
use super::desk::Desk;
use super::now::Seen;
use crate::Failure;
use crate::cloudwatch::Point;
use crate::event_sources::Mapping;
use crate::markup::chart::columns_only;
use crate::markup::moment;
use crate::pause::{Wanted, bring_to};
use crate::people::{about, counted, grouped, span};
use crate::status::{Flow, QueueStatus, Target};

/// Points of a small chart: an hour of five minutes each.
const POINTS: usize = 13;
const POINT_SECONDS: i64 = 300;

/// What is seen now.
pub(super) fn part(desk: &Desk) -> Markup {
    html! {
        @if let Some(why) = desk.now.latest.failed() { p class="warning" role="alert" { (why) } }
        @match desk.now.latest.seen() {
            Some(seen) => (flow(&desk.from, &seen)),
            None => p role="status" { "Asking AWS…" },
        }
    }
}

fn flow(dlq: &str, seen: &Seen) -> Markup {
    let Seen { at, status, flows, alarms } = seen;
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
             exactly, SQS does not say. Ages and flow are CloudWatch's, some minutes late; an age leaves out what was received three times or more."
        }
    }
}

/// What it is for; of queues that were named, by what they were named for.
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
            @if let Some(seconds) = oldest { div { dt { "oldest" } dd { (about(seconds)) } } }
        }
        @if let Some(flow) = flow {
            (spark("in", &flow.sent)) (spark("out", &flow.deleted))
        }
        @match queue.mappings.as_deref() {
            None => p class="remark" { "who reads it is not known" },
            Some([]) if is_dlq => p class="remark" { "for people" },
            Some([]) => p class="remark" { "no function reads it" },
            Some(mappings) => { @for mapping in mappings { (reader(mapping)) } },
        }
        @if let Some(seconds) = queue.counts.retention_seconds { p class="remark" { "kept for " (span(seconds)) } }
    }
}

fn reader(mapping: &Mapping) -> Markup {
    let is_on = mapping.state == "Enabled";
    html! { p class=(if is_on { "remark" } else { "warning" }) { "read by " (mapping.function) @if !is_on { ": " (mapping.state) } } }
}

/// An hour of a metric.
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

/// What a form asks for.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WantedState {
    wanted: String,
    /// Any value: also the readers of the other queues.
    #[serde(default)]
    all: Option<String>,
}

/// Who reads which queue, and what would change.
pub(super) fn switches(at: &At) -> Markup {
    let seen = at.now.latest.seen();
    let queues = seen.as_ref().map_or(&[][..], |seen| &seen.status.queues);
    html! {
        p { "Pausing stops calling the target: messages wait in the source queue and spend no attempts. What is being processed is brought to \
             its end. Resuming starts all of it again." }
        @if let Some(why) = at.now.latest.failed() { p class="warning" role="alert" { (why) } }
        @if seen.is_none() { p role="status" { "Asking AWS… load this page again in a moment." } }
        div class="scroll" tabindex="0" { table {
            thead { tr { th { "Queue" } th { "Read by" } th { "State" } } }
            tbody { @for queue in queues { @for mapping in queue.mappings.iter().flatten() {
                tr { td { (queue.name) } td { (mapping.function) } td { (mapping.state) } }
            } } }
        } }
        @if !at.site.guard.read_only {
            div class="actions" {
                form method="post" action=(at.path("pause")) {
                    input type="hidden" name="wanted" value="paused";
                    label class="check" { input type="checkbox" name="all" value="1"; "Also the functions that schedule retries and annotate" }
                    button { "Pause " (at.name) }
                }
                form method="post" action=(at.path("pause")) {
                    input type="hidden" name="wanted" value="resumed";
                    button { "Resume " (at.name) }
                }
            }
            p class="remark" { "Lambda takes up to a minute; the page waits for it, three minutes at most." }
        }
    }
}

/// Pauses or resumes; what became of each function, in a line.
pub(super) async fn switch(desk: &Desk, asked: WantedState) -> Result<String, Failure> {
    match asked.wanted.as_str() {
        "paused" => bring_to(&desk.queues, &desk.connection, asked.all.is_some(), Wanted::Disabled).await,
        "resumed" => bring_to(&desk.queues, &desk.connection, true, Wanted::Enabled).await,
        _ => Err("a deployment is paused or resumed".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use redeliver_core::message::Timestamp;

    use super::*;
    use crate::status::Status;

    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-prod-final-dlq";

    fn queue(role: &'static str, arn: &str, visible: u64) -> QueueStatus {
        let attributes = BTreeMap::from([("ApproximateNumberOfMessages".to_owned(), visible.to_string())]);
        QueueStatus::new(role, arn, &attributes)
    }

    fn seen(alarms: &[(&str, &str)]) -> Seen {
        let at = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
        let flow = Flow {
            age_seconds: vec![(at, 7200), (at - chrono::TimeDelta::minutes(5), 60)],
            sent: vec![(at, 1500), (at - chrono::TimeDelta::hours(1), 500)],
            deleted: Vec::new(),
        };
        Seen {
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

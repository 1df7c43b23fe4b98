//! The status page: a sentence about problems, the messages waiting in and flowing through each queue, and charts for
//! the last day.

mod answer;
mod last_day;

use chrono::TimeDelta;
use maud::{Markup, html};
use redeliver_core::message::Timestamp;
use redeliver_core::strategy::Role;
use redeliver_dead_letters::blocked::BlockedGroup;
use redeliver_operator::markup::chart::draw_columns;
use redeliver_operator::markup::render_timestamp;
use redeliver_operator::queues::cloudwatch::Point;
use redeliver_operator::queues::event_sources::LambdaMapping;
use redeliver_operator::status::readers::Readers;
use redeliver_operator::status::{Problem, QueriedService, QueueFlow, QueueStatus};
use redeliver_operator::terminal::units::{approximate_span, format_span, group_digits};

use crate::dead_letters::snapshot::Snapshot;
use crate::deployment::ConsoleDeployment;
use crate::extract::DeploymentRequest;
use crate::status_poll::LiveStatus;
use answer::{Facts, LastReading, build_status_line};

/// The number of points in a small chart: an hour in steps of five minutes.
const POINTS: usize = 13;
const POINT_SECONDS: i64 = 300;

/// Renders the live part of the page.
pub(crate) fn render_status(at: &DeploymentRequest) -> Markup {
    html! {
        @match at.status.last_seen.last_result() {
            Some(seen) => {
                @if let Some(why) = at.status.last_seen.last_error() { p class="warning" role="alert" { (why) } }
                (render_current_status(&at.from, &at.page_path(""), &seen, at.reading.last_seen.last_result().as_deref()))
            }
            None => (render_placeholder(at)),
        }
    }
}

/// Renders the status; `base` is the URL of the deployment's pages.
fn render_current_status(dlq: &str, base: &str, seen: &LiveStatus, snapshot: Option<&Snapshot>) -> Markup {
    let LiveStatus { at, status, flows, alarms, day } = seen;
    let on: Vec<_> =
        alarms.iter().filter(|(_, state)| state == "ALARM").map(|(name, _)| name.as_str()).collect();
    let reading = snapshot.map(|snapshot| summarize_reading(snapshot, *at));
    html! {
        (build_status_line(&gather_facts(dlq, seen, reading, &on)).render_line(base))
        @if !on.is_empty() {
            ul id="alarms" class="warning" aria-label="Alarms" { @for name in &on { li { "Alarm: " (name) } } }
        }
        ol class="flow" {
            @for (index, queue) in status.queues.iter().enumerate() {
                @let is_dlq = queue.arn == dlq;
                @let is_first = is_dlq && queue.counts.has_messages();
                li id={"queue-" (index)} class=[is_first.then_some("first")] {
                    (render_card(queue_role(dlq, queue), queue, flows.get(index), is_dlq.then_some(base)))
                }
            }
        }
        @if !status.blocked.is_empty() { (render_blocked_groups(&status.blocked)) }
        @if on.is_empty() && !alarms.is_empty() { p { "Alarms on: 0 of " (group_digits(alarms.len() as u64)) "." } }
        @for service in [QueriedService::Lambda, QueriedService::Sqs, QueriedService::CloudWatch, QueriedService::Container] { (render_problems(service, &status.problems)) }
        @if let Some(day) = day { (last_day::render_last_day(day)) }
        p class="remark" {
            "Counts are SQS's approximations, as of " (render_timestamp(*at)) ". A delayed message becomes visible within 15 minutes; SQS does not report \
             when. Ages and flow are from CloudWatch, some minutes late; ages omit messages received three times or more, for example by three refreshes. \
             \"Dead letters\" shows when SQS deletes each message."
        }
    }
}

fn gather_facts<'a>(
    dlq: &str,
    seen: &'a LiveStatus,
    reading: Option<LastReading>,
    alarms_on: &'a [&'a str],
) -> Facts<'a> {
    let LiveStatus { at, status, flows, .. } = seen;
    let place = |wanted: &str| status.queues.iter().position(|queue| queue_role(dlq, queue) == wanted);
    let place_of_source = place("source");
    let source = place_of_source.map(|place| &status.queues[place]);
    let intermediate = place(Role::IntermediateDlq.display_name()).map(|place| &status.queues[place]);
    let dead = status.queues.iter().zip(flows.iter().map(Some).chain(std::iter::repeat(None)));
    let dead = dead.into_iter().find(|(queue, _)| queue.arn == dlq);
    let is_known = |queue: &&QueueStatus| queue.counts.visible.is_some();
    let held = source.map(|queue| {
        let delayed = queue.counts.delayed?;
        match intermediate {
            Some(intermediate) => {
                Some(delayed + Some(intermediate).filter(is_known)?.counts.total_messages())
            }
            // With `visibility`, held messages are hidden in the source queue.
            None => Some(delayed + queue.counts.in_flight?),
        }
    });
    let is_paused = |queue: &&QueueStatus| {
        let mappings = queue.mappings.as_deref().unwrap_or_default();
        let is_read = mappings.iter().any(LambdaMapping::is_on)
            || queue.readers.as_ref().is_some_and(Readers::is_steady);
        !mappings.is_empty() && !is_read
    };
    Facts {
        now: *at,
        target: status.target,
        longest_hold_seconds: status.longest_hold_seconds,
        held: held.flatten(),
        source: place_of_source.unwrap_or(0),
        paused: source.filter(is_paused).and_then(|queue| queue.counts.visible),
        blocked: status.blocked.first().map(|first| (status.blocked.len() as u64, first.since.as_str())),
        dead_letters: dead
            .map(|(queue, _)| queue)
            .filter(is_known)
            .map(|queue| queue.counts.total_messages()),
        oldest_ends_in_seconds: dead.and_then(|(queue, flow)| {
            let age = oldest_age(flow?)?;
            let left = i64::try_from(queue.counts.retention_seconds?).ok()? - age;
            oldest_expires_soon(queue, age).then_some(left)
        }),
        reading,
        alarms_on,
        is_blind: status.problems.iter().any(|problem| problem.service == QueriedService::CloudWatch),
    }
}

fn summarize_reading(snapshot: &Snapshot, now: Timestamp) -> LastReading {
    let [new_causes, returned_causes] = snapshot.count_new_and_returned();
    LastReading {
        taken_at: snapshot.taken_at,
        count: snapshot.message_count(),
        new_causes,
        returned_causes,
        last_refresh: snapshot.causes.last_refresh,
        deleted_soon: snapshot
            .count_expiring_soon(now)
            .map(|soon| (soon.count, (soon.first - now).num_seconds())),
    }
}

/// Renders one line for all failed requests to a service.
fn render_problems(service: QueriedService, problems: &[Problem]) -> Markup {
    let matching: Vec<_> = problems.iter().filter(|problem| problem.service == service).collect();
    if matching.is_empty() {
        return Markup::default();
    }
    let mut missing: Vec<_> = matching.iter().map(|problem| problem.missing).collect();
    missing.dedup();
    let mut permissions: Vec<_> = matching
        .iter()
        .filter(|problem| problem.why.contains("AccessDenied"))
        .filter_map(|problem| Some(problem.why.split_once(": ")?.0))
        .collect();
    permissions.sort_unstable();
    permissions.dedup();
    html! {
        details class="remark" {
            summary {
                (service.name()) " cannot be queried for " (missing.join(", "))
                @if !permissions.is_empty() { ": missing " (permissions.join(" and ")) }
            }
            ul { @for problem in matching { li { (problem) } } }
        }
    }
}

fn render_blocked_groups(groups: &[BlockedGroup]) -> Markup {
    html! {
        section id="blocked" {
            h2 { "Blocked groups" }
            p { "Each group waits behind a message that was given up, until you decide: " code { "redeliver unblock" } "." }
            table {
                thead { tr { th { "group" } th { "since" } th class="number" { "retries" } th { "first message" } th { "reason" } } }
                tbody {
                    @for group in groups {
                        tr {
                            th scope="row" { (group.group) }
                            td { (group.since) }
                            td class="number" { @if let Some(attempts) = group.attempts { (attempts) } }
                            td { (group.message_id) }
                            td { (group.error_type) ": " (group.error_details) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the queue's role. A queue given with `--queue` is the DLQ, and one given with `--to` is the source.
fn queue_role<'a>(dlq: &str, queue: &QueueStatus) -> &'a str {
    match queue.role {
        "queue" if queue.arn == dlq => "DLQ",
        "queue" => "source",
        role => role,
    }
}

/// Renders a queue. `letters` is the URL of the dead-letter page if this is the DLQ.
fn render_card(role: &str, queue: &QueueStatus, flow: Option<&QueueFlow>, letters: Option<&str>) -> Markup {
    let count = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), group_digits);
    let is_dlq = letters.is_some();
    html! {
        h2 { (role) }
        p class="name" { (queue.name) }
        dl {
            @match letters.filter(|_| queue.counts.visible.unwrap_or(0) > 0) {
                Some(base) => div class="alarm" { dt { "visible" } dd { a href={(base) "letters"} { (count(queue.counts.visible)) } } },
                None => div { dt { "visible" } dd { (count(queue.counts.visible)) } },
            }
            div { dt { "in flight" } dd { (count(queue.counts.in_flight)) } }
            div { dt { "delayed" } dd { (count(queue.counts.delayed)) } }
            @if let Some(seconds) = flow.and_then(oldest_age) { div class=[(is_dlq && oldest_expires_soon(queue, seconds)).then_some("alarm")] { dt { "oldest" } dd { (approximate_span(seconds)) } } }
        }
        @if let Some(flow) = flow {
            (render_sparkline("in", &flow.sent)) (render_sparkline("out", &flow.deleted))
        }
        @for mapping in queue.mappings.iter().flatten() { (render_reader(mapping)) }
        @match &queue.readers {
            Some(Readers::EventSourceMapping) => {},
            _ if is_dlq => p class="remark" { "read by people" },
            Some(readers) => p class="remark" { (readers.summary()) },
            None => {},
        }
        @if let Some(seconds) = queue.counts.retention_seconds { p class="remark" { "kept for " (format_span(seconds)) } }
    }
}

/// Returns the age of the oldest message, in seconds.
fn oldest_age(flow: &QueueFlow) -> Option<i64> {
    flow.age_seconds.iter().max_by_key(|(at, _)| *at).map(|(_, age)| *age)
}

/// True if SQS will soon delete the queue's oldest message, according to CloudWatch's age metric.
fn oldest_expires_soon(queue: &QueueStatus, age_seconds: i64) -> bool {
    let age = TimeDelta::try_seconds(age_seconds);
    queue.counts.retention().zip(age).is_some_and(|(retention, age)| retention.ends_soon_at_age(age))
}

fn render_reader(mapping: &LambdaMapping) -> Markup {
    let is_on = mapping.state == "Enabled";
    html! { p class=(if is_on { "remark" } else { "warning" }) { "read by " (mapping.function) @if !is_on { ": " (mapping.state) } } }
}

/// Charts one hour of a metric.
fn render_sparkline(name: &str, points: &[Point]) -> Markup {
    let Some(last) = points.iter().map(|(at, _)| at.timestamp()).max() else { return Markup::default() };
    let sum: i64 = points.iter().map(|(_, value)| value).sum();
    let columns = points.iter().filter_map(|(at, value)| {
        let column =
            POINTS.checked_sub(1 + usize::try_from((last - at.timestamp()) / POINT_SECONDS).ok()?)?;
        Some((column, value.unsigned_abs()))
    });
    html! {
        p class="spark" {
            span { (name) " " (group_digits(sum.unsigned_abs())) " in an hour" }
            (draw_columns(&format!("{name} by five minutes"), 6, POINTS, columns))
        }
    }
}

/// Renders a placeholder until the first status has arrived.
pub(crate) fn render_placeholder(deployment: &ConsoleDeployment) -> Markup {
    html! {
        @match deployment.status.last_seen.last_error() {
            Some(why) => p class="warning" role="alert" { (why) },
            None => p role="status" { "Querying AWS…" },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use redeliver_core::message::Timestamp;

    use super::*;
    use redeliver_operator::status::{Status, TargetStatus};
    use redeliver_testing::dead_letters::blocked_notice;

    const DLQ: &str = "arn:aws:sqs:eu-central-1:123456789012:orders-prod-final-dlq";

    fn queue(role: &'static str, arn: &str, visible: u64) -> QueueStatus {
        let attributes = BTreeMap::from([("ApproximateNumberOfMessages".to_owned(), visible.to_string())]);
        QueueStatus::new(role, arn, &attributes)
    }

    fn problem(missing: &'static str, why: &str) -> Problem {
        Problem { service: QueriedService::CloudWatch, missing, about: Vec::new(), why: why.to_owned() }
    }

    fn live_status(alarms: &[(&str, &str)]) -> LiveStatus {
        let at = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
        let flow = QueueFlow {
            age_seconds: vec![(at, 7200), (at - chrono::TimeDelta::minutes(5), 60)],
            sent: vec![(at, 1500), (at - chrono::TimeDelta::hours(1), 500)],
            deleted: Vec::new(),
        };
        LiveStatus {
            at,
            status: Status {
                deployment: None,
                target: Some(TargetStatus::NoOutageSeen),
                longest_hold_seconds: None,
                queues: vec![
                    queue("source", &DLQ.replace("final-dlq", "source"), 3),
                    queue("final DLQ", DLQ, 41),
                ],
                blocked: BlockedGroup::from_notices(vec![blocked_notice("account-7", 1)])
                    .into_iter()
                    .collect(),
                problems: vec![
                    problem("alarms", "cloudwatch:DescribeAlarms: AccessDenied: <no>"),
                    problem("the last day", "the response is not from this service (HTTP 404)"),
                    Problem {
                        service: QueriedService::Container,
                        ..problem("metrics", "Connection refused")
                    },
                    Problem { service: QueriedService::Container, ..problem("metrics", "HTTP 503") },
                    Problem {
                        service: QueriedService::Sqs,
                        ..problem("blocked groups", "not all were seen")
                    },
                ],
            },
            day: None,
            flows: vec![flow],
            alarms: alarms.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect(),
        }
    }

    #[test]
    fn each_queue_has_its_counts_and_problems_stand_out() {
        let alarms = [("target-down", "ALARM"), ("dead-letters", "OK")];
        let page = render_current_status(DLQ, "/s/0/", &live_status(&alarms), None).into_string();
        for expected in [
            "<dt>visible</dt><dd>3</dd>",
            "<div class=\"alarm\"><dt>visible</dt><dd><a href=\"/s/0/letters\">41</a></dd></div>",
            "<li id=\"queue-1\" class=\"first\">",
            "<p class=\"answer bad\"><a href=\"#blocked\">1 group</a> is blocked since 1970-01-01T00:00:07.000Z. <a href=\"/s/0/letters\">41 dead letters</a>. <a href=\"#alarms\">1 alarm</a> is on.</p>",
            "<dt>in flight</dt><dd>?</dd>",
            "<dt>oldest</dt><dd>2h</dd>",
            "in 2,000 in an hour",
            "<li>Alarm: target-down</li>",
            "<th scope=\"row\">account-7</th><td>1970-01-01T00:00:07.000Z</td><td class=\"number\">3</td>",
            "<summary>CloudWatch cannot be queried for alarms, the last day: missing cloudwatch:DescribeAlarms</summary>",
            "<li>blocked groups: not all were seen</li>",
            "<summary>A container cannot be queried for metrics</summary><ul><li>metrics: Connection refused</li><li>metrics: HTTP 503</li></ul>",
            "<li>alarms: cloudwatch:DescribeAlarms: AccessDenied: &lt;no&gt;</li>",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        assert!(!page.contains("Alarm: dead-letters") && !page.contains("out 0"), "{page}");
        let quiet =
            render_current_status(DLQ, "/s/0/", &live_status(&[("dead-letters", "OK")]), None).into_string();
        assert!(quiet.contains("Alarms on: 0 of 1."), "{quiet}");
    }

    #[test]
    fn a_dlq_whose_oldest_message_is_about_to_expire_stands_out() {
        let card_with_age = |seconds, is_dlq: bool| {
            let kept = [("MessageRetentionPeriod".to_owned(), "1209600".to_owned())];
            let queue = QueueStatus::new("final DLQ", DLQ, &BTreeMap::from(kept));
            let at = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
            let flow = QueueFlow { age_seconds: vec![(at, seconds)], ..QueueFlow::default() };
            render_card("final DLQ", &queue, Some(&flow), is_dlq.then_some("/s/0/")).into_string()
        };
        // The last fifth of 14 days begins after 967,680 seconds.
        let alarm = "<div class=\"alarm\"><dt>oldest</dt><dd>11d 4h</dd></div>";
        assert!(card_with_age(967_681, true).contains(alarm));
        assert!(
            !card_with_age(967_680, true).contains("alarm")
                && !card_with_age(967_681, false).contains("alarm")
        );
    }

    #[test]
    fn a_queue_read_by_a_container_names_its_reader() {
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
        let card = render_card("source", &source, None, None).into_string();
        assert!(card.contains(&format!("<p class=\"remark\">{}</p>", readers.describe())), "{card}");
    }

    #[test]
    fn a_chart_has_a_column_for_each_point_of_the_last_hour() {
        let at = |minutes: i64| Timestamp::from_timestamp(1_800_000_000 + minutes * 60, 0).unwrap();
        let drawn = render_sparkline("in", &[(at(60), 10), (at(0), 5), (at(-10), 3)]).into_string();
        let columns: Vec<_> = drawn.match_indices("<rect").collect();
        assert_eq!(columns.len(), 2, "older points have no column: {drawn}");
        assert!(
            drawn.contains("<rect x=\"72\" y=\"0\"") && drawn.contains("<rect x=\"0\" y=\"9\""),
            "{drawn}"
        );
        assert_eq!(render_sparkline("in", &[]).into_string(), "");
    }
}

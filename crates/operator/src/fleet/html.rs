//! The report as one web page.

use maud::{Markup, html};
use redeliver_dead_letters::groups::written;

use super::report::{Dlq, Finding, Fleet};
use super::table::{cells, place};
use crate::markup::{self, Fact, page};
use crate::terminal::units::{counted, grouped};

/// Renders the report as one HTML page, which needs no other file.
pub fn of(fleet: &Fleet) -> String {
    let body = html! {
        header {
            h1 { (counted(fleet.dlqs.len() as u64, "dead-letter queue")) }
            p { "Read " (fleet.at.format("%Y-%m-%d %H:%M:%S").to_string()) "." }
        }
        (content(fleet))
        footer {
            "Made by " code { "redeliver fleet" } ". Times are UTC. Counts and ages are SQS's own and approximate."
        }
    };
    page(&counted(fleet.dlqs.len() as u64, "dead-letter queue"), STYLE, &body)
}

/// The styles of the page, for the console too.
pub const STYLE: &str = include_str!("html/page.css");

/// The totals, and each DLQ by account and region.
pub fn content(fleet: &Fleet) -> Markup {
    html! {
        @for problem in fleet.problems_in_short() { p class="warning" { "Incomplete: " (problem) } }
        (facts(fleet))
        @for (account, region) in fleet.places() {
            section {
                h2 { (place(fleet, account, region)) }
                @let dlqs: Vec<_> = fleet.dlqs_in(account, region).collect();
                @if !dlqs.is_empty() { (rows(fleet, &dlqs)) }
                @for queue in fleet.queues_in(account, region) {
                    p { strong { (queue.name) } }
                    (list(&queue.findings, None))
                }
            }
        }
    }
}

fn facts(fleet: &Fleet) -> Markup {
    let messages = fleet.dlqs.iter().map(|dlq| dlq.counts.messages()).fold(0, u64::saturating_add);
    let first = fleet
        .dlqs
        .iter()
        .filter(|dlq| dlq.counts.has_messages())
        .filter_map(|dlq| dlq.first_deleted_by)
        .min();
    let first = first.map_or_else(|| "not known".to_owned(), |by| by.format("%Y-%m-%d %H:%M").to_string());
    let full = fleet.dlqs.iter().filter(|dlq| dlq.counts.has_messages()).count();
    let wrong = fleet.dlqs.iter().filter(|dlq| !dlq.is_well()).count() + fleet.queues.len();
    let others = match fleet.queues.len() as u64 {
        0 => String::new(),
        others => format!(" and {}", counted(others, "other queue")),
    };
    let queues = fleet.regions.iter().map(|region| region.queues).sum();
    let dlqs = counted(fleet.dlqs.len() as u64, "DLQ");
    markup::facts(&[
        Fact::new("Messages", grouped(messages), &format!("in {}", counted(full as u64, "DLQ"))),
        Fact {
            is_alarm: wrong > 0,
            ..Fact::new("Something wrong", grouped(wrong as u64), &format!("of {dlqs}{others}"))
        },
        Fact::new("First deleted", first, "by SQS, at the latest"),
        Fact::new(
            "Queues",
            grouped(queues),
            &format!("in {}", counted(fleet.regions.len() as u64, "region")),
        ),
    ])
}

fn rows(fleet: &Fleet, dlqs: &[&Dlq]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Dead-letter queues" { table class="dlqs" {
            thead { tr {
                th { "DLQ" }
                @for name in ["Visible", "In flight", "Oldest", "Deleted in", "Kept"] { th class="number" { (name) } }
                th { "Alarm" } th { "Fed by" }
            } }
            tbody { @for dlq in dlqs {
                @let [name, visible, in_flight, oldest, deleted_in, kept, alarm, fed_by] = cells(fleet, dlq);
                "\n" tr {
                    td { strong { (name) } (list(&dlq.findings, dlq.error.as_deref())) }
                    td class="number" data-name="Visible" { (visible) }
                    td class="number" data-name="In flight" { (in_flight) }
                    td class="number" data-name="Oldest" { (oldest) }
                    td class="number" data-name="Deleted in" title=[dlq.first_deleted_by.map(written)] { (deleted_in) }
                    td class="number" data-name="Kept" { (kept) }
                    td data-name="Alarm" { (alarm) (alarms(dlq)) }
                    td data-name="Fed by" {
                        (fed_by)
                        @for function in &dlq.read_by { div class="remark" { "read by " (function) } }
                        @if let Some(readers) = &dlq.readers { div class="remark" { (readers.in_words()) } }
                    }
                }
            } }
        } }
    }
}

fn list(findings: &[Finding], error: Option<&str>) -> Markup {
    html! {
        @if !findings.is_empty() || error.is_some() {
            ul {
                @for finding in findings {
                    li class=(if finding.code.is_remark() { "remark" } else { "wrong" }) { (finding.sentence) }
                }
                @if let Some(error) = error { li class="wrong" { (error) } }
            }
        }
    }
}

fn alarms(dlq: &Dlq) -> Markup {
    html! {
        @for alarm in dlq.alarms.iter().flatten() {
            div class="remark" { (alarm.name) " (" (alarm.state.replace('_', " ").to_ascii_lowercase()) ")" }
        }
    }
}

#[cfg(test)]
mod tests;

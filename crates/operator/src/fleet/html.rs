//! The report as a web page.

use maud::{Markup, html};
use redeliver_dead_letters::groups::format_timestamp;

use super::report::{Dlq, Fleet, QueueFinding};
use super::table::{format_cells, format_region};
use crate::markup::{self, Fact, render_standalone_page};
use crate::terminal::units::{format_count, group_digits};

/// Renders the report as a single self-contained HTML page.
pub fn render_page(fleet: &Fleet) -> String {
    let body = html! {
        header {
            h1 { (format_count(fleet.dlqs.len() as u64, "dead-letter queue")) }
            p { "Read " (fleet.at.format("%Y-%m-%d %H:%M:%S").to_string()) "." }
        }
        (render_content(fleet))
        footer {
            "Made by " code { "redeliver fleet" } ". Times are UTC. Counts and ages are SQS's own and approximate."
        }
    };
    render_standalone_page(&format_count(fleet.dlqs.len() as u64, "dead-letter queue"), STYLE, &body)
}

/// The style sheet for the page, also used by the console.
pub const STYLE: &str = include_str!("html/page.css");

/// Renders the totals, and the DLQs by account and region.
pub fn render_content(fleet: &Fleet) -> Markup {
    html! {
        @for problem in fleet.shortened_problems() { p class="warning" { "Incomplete: " (problem) } }
        (render_facts(fleet))
        @for (account, region) in fleet.account_regions() {
            section {
                h2 { (format_region(fleet, account, region)) }
                @let dlqs: Vec<_> = fleet.dlqs_in(account, region).collect();
                @if !dlqs.is_empty() { (render_rows(fleet, &dlqs)) }
                @for queue in fleet.queues_in(account, region) {
                    p { strong { (queue.name) } }
                    (render_findings(&queue.findings, None))
                }
            }
        }
    }
}

fn render_facts(fleet: &Fleet) -> Markup {
    let messages = fleet.dlqs.iter().map(|dlq| dlq.counts.total_messages()).fold(0, u64::saturating_add);
    let first = fleet
        .dlqs
        .iter()
        .filter(|dlq| dlq.counts.has_messages())
        .filter_map(|dlq| dlq.first_deleted_by)
        .min();
    let first = first.map_or_else(|| "not known".to_owned(), |by| by.format("%Y-%m-%d %H:%M").to_string());
    let full = fleet.dlqs.iter().filter(|dlq| dlq.counts.has_messages()).count();
    let wrong = fleet.dlqs.iter().filter(|dlq| !dlq.is_healthy()).count() + fleet.queues.len();
    let others = match fleet.queues.len() as u64 {
        0 => String::new(),
        others => format!(" and {}", format_count(others, "other queue")),
    };
    let queues = fleet.regions.iter().map(|region| region.queues).sum();
    let dlqs = format_count(fleet.dlqs.len() as u64, "DLQ");
    markup::render_fact_list(&[
        Fact::new("Messages", group_digits(messages), &format!("in {}", format_count(full as u64, "DLQ"))),
        Fact {
            is_alarm: wrong > 0,
            ..Fact::new("Something wrong", group_digits(wrong as u64), &format!("of {dlqs}{others}"))
        },
        Fact::new("First deleted", first, "by SQS, at the latest"),
        Fact::new(
            "Queues",
            group_digits(queues),
            &format!("in {}", format_count(fleet.regions.len() as u64, "region")),
        ),
    ])
}

fn render_rows(fleet: &Fleet, dlqs: &[&Dlq]) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Dead-letter queues" { table class="dlqs" {
            thead { tr {
                th { "DLQ" }
                @for name in ["Visible", "In flight", "Oldest", "Deleted in", "Kept"] { th class="number" { (name) } }
                th { "Alarm" } th { "Fed by" }
            } }
            tbody { @for dlq in dlqs {
                @let [name, visible, in_flight, oldest, deleted_in, kept, alarm, fed_by] = format_cells(fleet, dlq);
                "\n" tr {
                    td { strong { (name) } (render_findings(&dlq.findings, dlq.error.as_deref())) }
                    td class="number" data-name="Visible" { (visible) }
                    td class="number" data-name="In flight" { (in_flight) }
                    td class="number" data-name="Oldest" { (oldest) }
                    td class="number" data-name="Deleted in" title=[dlq.first_deleted_by.map(format_timestamp)] { (deleted_in) }
                    td class="number" data-name="Kept" { (kept) }
                    td data-name="Alarm" { (alarm) (render_alarms(dlq)) }
                    td data-name="Fed by" {
                        (fed_by)
                        @for function in &dlq.read_by { div class="remark" { "read by " (function) } }
                        @if let Some(readers) = &dlq.readers { div class="remark" { (readers.describe()) } }
                    }
                }
            } }
        } }
    }
}

fn render_findings(findings: &[QueueFinding], error: Option<&str>) -> Markup {
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

fn render_alarms(dlq: &Dlq) -> Markup {
    html! {
        @for alarm in dlq.alarms.iter().flatten() {
            div class="remark" { (alarm.name) " (" (alarm.state.replace('_', " ").to_ascii_lowercase()) ")" }
        }
    }
}

#[cfg(test)]
mod tests;

//! The report as a web page.

mod charts;
mod messages;

use std::io::{self, Write};

use maud::{Markup, html};
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::{DeadLetterGroup, format_timestamp};
use redeliver_operator::audit::{AuditReport, View};
use redeliver_operator::dead_letter::{self, Showing, is_long};
use redeliver_operator::markup::{
    self, Fact, render_standalone_page, render_timestamp, render_titled_figure,
};
use redeliver_operator::terminal::escape::shorten_text;
use redeliver_operator::terminal::units::{approximate_span, format_count, group_digits};

use super::table::{age_rows, attempt_rows};
use charts::{class_of, render_bars, render_columns};
use messages::GroupedMessages;

/// Maximum number of groups with their own row.
const GROUPS_MAX: usize = 100;
/// Maximum length of a headline, in characters; the details below it contain the full text.
const HEADLINE_MAX: usize = 80;

/// Collects messages and writes the page at the end.
#[derive(Debug)]
pub(super) struct HtmlReport {
    messages: GroupedMessages,
    showing: Showing,
}

impl HtmlReport {
    pub(super) fn new(showing: Showing) -> Self {
        Self { messages: GroupedMessages::default(), showing }
    }
}

impl View for HtmlReport {
    fn write_record(&mut self, record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        self.messages.add(record, &self.showing);
        Ok(())
    }

    fn write_report(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        let messages = std::mem::take(&mut self.messages);
        let body = html! {
            (render_header(report))
            @if report.total > 0 {
                (render_facts(report))
                (render_figures(report))
                (render_groups(&report.groups))
                (messages.render_section(report))
            }
            footer {
                "Made by " code { "redeliver audit" } ". Times are UTC. "
                (if self.showing.reveal { "Bodies are shown as they are." } else { "Values in bodies are masked." })
            }
        };
        let title = format!("{} in {}", format_count(report.total, "dead letter"), report.context.queue);
        output.write_all(render_standalone_page(&title, dead_letter::STYLE, &body).as_bytes())
    }
}

fn render_header(report: &AuditReport) -> Markup {
    html! {
        header {
            h1 { (format_count(report.total, "dead letter")) }
            p {
                "in " strong { (report.context.queue) } ", read " (report.context.now.format("%Y-%m-%d %H:%M:%S").to_string()) "."
                @if let Some(now) = report.context.virtual_now { " Its time is virtual, until " (format_timestamp(now)) "." }
                @if report.complete { " All of the queue was seen." }
                @if let Some(filter) = &report.context.filter { " Only those that match the filter " code { (filter) } "." }
            }
            @if let Some(sentence) = report.deleted_soon() { p class="warning" { (sentence) } }
            @if let Some(sentence) = report.describe_incompleteness() { p class="warning" { (sentence) } }
        }
    }
}

fn render_facts(report: &AuditReport) -> Markup {
    let AuditReport { age, duplicates, skipped_attempts: skipped, .. } = report;
    let expires = age.first_expires_at.map_or_else(
        || "retention not known".to_owned(),
        |moment| format!("SQS deletes it {}", moment.format("%Y-%m-%d %H:%M")),
    );
    let copies = format!("copies of {}", format_count(duplicates.messages, "message"));
    let skipped_in = format!("in {}", format_count(skipped.messages, "message"));
    let soon = age.deleted_soon;
    let soon_is = age
        .soon_seconds
        .map_or_else(|| "soon".to_owned(), |seconds| format!("within {}", approximate_span(seconds)));
    markup::render_fact_list(&[
        Fact::new("Groups", group_digits(report.groups.len() as u64), "by fingerprint of the error"),
        Fact::new("Oldest", approximate_span(age.oldest_seconds), &expires),
        Fact { is_alarm: soon > 0, ..Fact::new("Deleted soon", group_digits(soon), &soon_is) },
        Fact::new("Duplicates", group_digits(duplicates.extra), &copies),
        Fact::new("Skipped attempts", group_digits(skipped.attempts), &skipped_in),
    ])
}

fn render_figures(report: &AuditReport) -> Markup {
    let by_type = report.error_types().into_iter().map(|(code, count)| (code.to_owned(), count));
    let arrivals =
        format!("arrivals in this queue, {} each", approximate_span(report.over_time.span_seconds));
    html! {
        section class="figures" {
            (render_titled_figure("By error type", "ErrorType", render_bars("Dead letters by error type", &by_type.collect::<Vec<_>>())))
            (render_titled_figure("Over time", &arrivals, render_columns(&report.over_time)))
            (render_titled_figure("By retries made", "before it was given up", render_bars("Dead letters by retries made", &attempt_rows(report))))
            (render_titled_figure("By age", "since it was sent to this queue", render_bars("Dead letters by age", &age_rows(report))))
        }
    }
}

/// The groups, each with a link to its messages.
fn render_groups(groups: &[DeadLetterGroup]) -> Markup {
    html! {
        section {
            h2 { "Groups" }
            div class="scroll" tabindex="0" role="region" aria-label="Groups" { table class="groups" {
                thead { tr { th class="number" { "Count" } th { "Error" } th { "Arrived" } th { "Fingerprint and example" } } }
                tbody { @for group in groups.iter().take(GROUPS_MAX) {
                    "\n" tr {
                        td class="number" { a href={"#g-" (group.fingerprint)} { (group_digits(group.count)) } }
                        td { strong { (shorten_text(&group.headline, HEADLINE_MAX)) } " " (render_badge(&group.error_type)) div class="details" tabindex=[is_long(&group.error_details)] { (group.error_details) } }
                        td class="times" { (render_timestamp(group.first)) br; "to " (render_timestamp(group.last)) }
                        td { code { (group.fingerprint) } br; code class="id" { (group.example) } }
                    }
                } }
            } }
            @if groups.len() > GROUPS_MAX { p { "And " (format_count((groups.len() - GROUPS_MAX) as u64, "group")) " more." } }
        }
    }
}

/// An error type, with its colour.
fn render_badge(error_type: &str) -> Markup {
    html! { span class="badge" { i class=(class_of(error_type)) {} (error_type) } }
}

#[cfg(test)]
mod tests;

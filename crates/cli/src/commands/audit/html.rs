//! The report as one web page.

mod charts;
mod messages;

use std::io::{self, Write};

use maud::{Markup, html};
use redeliver_dead_letters::DeadLetterRecord;
use redeliver_dead_letters::groups::{Group, written};
use redeliver_operator::audit::{AuditReport, View};
use redeliver_operator::dead_letter::{self, Showing, is_long};
use redeliver_operator::markup::{self, Fact, figure, moment, page};
use redeliver_operator::terminal::escape::shortened;
use redeliver_operator::terminal::units::{about, counted, grouped};

use super::table::{ages, attempts};
use charts::{bars, class_of, columns};
use messages::Messages;

/// Groups with a row of their own.
const GROUPS_MAX: usize = 100;
/// Characters of a headline; the details below it have the rest.
const HEADLINE_MAX: usize = 80;

/// Collects messages, and writes the page at the end.
#[derive(Debug)]
pub(super) struct Page {
    messages: Messages,
    showing: Showing,
}

impl Page {
    pub(super) fn new(showing: Showing) -> Self {
        Self { messages: Messages::default(), showing }
    }
}

impl View for Page {
    fn add(&mut self, record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        self.messages.add(record, &self.showing);
        Ok(())
    }

    fn end(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        let messages = std::mem::take(&mut self.messages);
        let body = html! {
            (header(report))
            @if report.total > 0 {
                (facts(report))
                (figures(report))
                (groups(&report.groups))
                (messages.section(report))
            }
            footer {
                "Made by " code { "redeliver audit" } ". Times are UTC. "
                (if self.showing.reveal { "Bodies are shown as they are." } else { "Values in bodies are masked." })
            }
        };
        let title = format!("{} in {}", counted(report.total, "dead letter"), report.context.queue);
        output.write_all(page(&title, dead_letter::STYLE, &body).as_bytes())
    }
}

fn header(report: &AuditReport) -> Markup {
    html! {
        header {
            h1 { (counted(report.total, "dead letter")) }
            p {
                "in " strong { (report.context.queue) } ", read " (report.context.now.format("%Y-%m-%d %H:%M:%S").to_string()) "."
                @if let Some(now) = report.context.virtual_now { " Its time is virtual, until " (written(now)) "." }
                @if report.complete { " All of the queue was seen." }
                @if let Some(filter) = &report.context.filter { " Only those that match the filter " code { (filter) } "." }
            }
            @if let Some(sentence) = report.deleted_soon() { p class="warning" { (sentence) } }
            @if let Some(sentence) = report.incompleteness() { p class="warning" { (sentence) } }
        }
    }
}

fn facts(report: &AuditReport) -> Markup {
    let AuditReport { age, duplicates, skipped_attempts: skipped, .. } = report;
    let expires = age.first_expires_at.map_or_else(
        || "retention not known".to_owned(),
        |moment| format!("SQS deletes it {}", moment.format("%Y-%m-%d %H:%M")),
    );
    let copies = format!("copies of {}", counted(duplicates.messages, "message"));
    let skipped_in = format!("in {}", counted(skipped.messages, "message"));
    let soon = age.deleted_soon;
    let soon_is =
        age.soon_seconds.map_or_else(|| "soon".to_owned(), |seconds| format!("within {}", about(seconds)));
    markup::facts(&[
        Fact::new("Groups", grouped(report.groups.len() as u64), "by fingerprint of the error"),
        Fact::new("Oldest", about(age.oldest_seconds), &expires),
        Fact { is_alarm: soon > 0, ..Fact::new("Deleted soon", grouped(soon), &soon_is) },
        Fact::new("Duplicates", grouped(duplicates.extra), &copies),
        Fact::new("Skipped attempts", grouped(skipped.attempts), &skipped_in),
    ])
}

fn figures(report: &AuditReport) -> Markup {
    let by_type = report.error_types().into_iter().map(|(code, count)| (code.to_owned(), count));
    let arrivals = format!("arrivals in this queue, {} each", about(report.over_time.span_seconds));
    html! {
        section class="figures" {
            (figure("By error type", "ErrorType", bars("Dead letters by error type", &by_type.collect::<Vec<_>>())))
            (figure("Over time", &arrivals, columns(&report.over_time)))
            (figure("By retries made", "before it was given up", bars("Dead letters by retries made", &attempts(report))))
            (figure("By age", "since it was sent to this queue", bars("Dead letters by age", &ages(report))))
        }
    }
}

/// The groups, each with a link to its messages.
fn groups(groups: &[Group]) -> Markup {
    html! {
        section {
            h2 { "Groups" }
            div class="scroll" tabindex="0" role="region" aria-label="Groups" { table class="groups" {
                thead { tr { th class="number" { "Count" } th { "Error" } th { "Arrived" } th { "Fingerprint and example" } } }
                tbody { @for group in groups.iter().take(GROUPS_MAX) {
                    "\n" tr {
                        td class="number" { a href={"#g-" (group.fingerprint)} { (grouped(group.count)) } }
                        td { strong { (shortened(&group.headline, HEADLINE_MAX)) } " " (badge(&group.error_type)) div class="details" tabindex=[is_long(&group.error_details)] { (group.error_details) } }
                        td class="times" { (moment(group.first)) br; "to " (moment(group.last)) }
                        td { code { (group.fingerprint) } br; code class="id" { (group.example) } }
                    }
                } }
            } }
            @if groups.len() > GROUPS_MAX { p { "And " (counted((groups.len() - GROUPS_MAX) as u64, "group")) " more." } }
        }
    }
}

/// An error type with its colour.
fn badge(error_type: &str) -> Markup {
    html! { span class="badge" { i class=(class_of(error_type)) {} (error_type) } }
}

#[cfg(test)]
mod tests;

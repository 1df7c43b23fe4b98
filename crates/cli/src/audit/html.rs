//! The report as one web page: no network, no scripts, nothing beside it. Light or dark as the reader's system is.

mod charts;
mod groups;
mod messages;
mod story;

use std::io::{self, Write};

use super::age::NAMES;
use super::groups::written;
use super::report::Report;
use super::view::View;
use crate::dead_letters::DeadLetterRecord;
use crate::markup::escape;
use crate::people::{about, counted, grouped};
use messages::Messages;

const STYLE: &str = include_str!("html/page.css");

/// Collects messages, and writes the page at the end.
#[derive(Debug)]
pub(super) struct Page {
    messages: Messages,
    reveal: bool,
}

impl Page {
    pub(super) fn new(reveal: bool) -> Self {
        Self { messages: Messages::default(), reveal }
    }
}

impl View for Page {
    fn add(&mut self, record: &DeadLetterRecord, _output: &mut dyn Write) -> io::Result<()> {
        self.messages.add(record, self.reveal);
        Ok(())
    }

    fn end(&mut self, report: &Report, output: &mut dyn Write) -> io::Result<()> {
        let title = format!("{} in {}", counted(report.total, "dead letter"), escape(&report.queue));
        // Even if something of a message became markup, it could load, run and send nothing.
        write!(
            output,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        )?;
        output.write_all(header(report).as_bytes())?;
        if report.total > 0 {
            output.write_all(facts(report).as_bytes())?;
            output.write_all(figures(report).as_bytes())?;
            output.write_all(groups::table(&report.groups).as_bytes())?;
            self.messages.write(report, output)?;
        }
        let masked =
            if self.reveal { "Bodies are shown as they are." } else { "Values in bodies are masked." };
        write!(
            output,
            "<footer>Made by <code>redeliver audit</code>. Times are UTC. {masked}</footer>\n</body>\n</html>\n"
        )
    }
}

fn header(report: &Report) -> String {
    let filter = match &report.filter {
        Some(filter) => format!(" Only those that the filter <code>{}</code> lets through.", escape(filter)),
        None => String::new(),
    };
    let warning = match report.incompleteness() {
        Some(sentence) => format!("<p class=\"warning\">{}</p>\n", escape(&sentence)),
        None => String::new(),
    };
    format!(
        "<header>\n<h1>{}</h1>\n<p>in <strong>{}</strong>, read {}. {}{filter}</p>\n{warning}</header>\n",
        counted(report.total, "dead letter"),
        escape(&report.queue),
        report.audited_at.format("%Y-%m-%d %H:%M:%S"),
        if report.complete { "All of the queue was seen." } else { "" },
    )
}

fn facts(report: &Report) -> String {
    let age = &report.age;
    let fact = |name: &str, value: String, remark: &str, is_alarming: bool| {
        let class = if is_alarming { " class=\"alarm\"" } else { "" };
        format!("<div{class}><dt>{name}</dt><dd>{value}</dd><dd class=\"remark\">{remark}</dd></div>\n")
    };
    let expires = age.first_expires_at.map_or_else(
        || "retention not known".to_owned(),
        |moment| format!("SQS deletes it {}", moment.format("%Y-%m-%d %H:%M")),
    );
    let mut facts = "<dl class=\"facts\">\n".to_owned();
    facts += &fact("Groups", grouped(report.groups.len() as u64), "by fingerprint of the error", false);
    facts += &fact("Oldest", about(age.oldest_seconds), &expires, false);
    let soon = age.expires_within_a_day;
    facts += &fact("Deleted within a day", grouped(soon), "unless archived or redriven", soon > 0);
    let duplicates = &report.duplicates;
    let of = format!("copies of {}", counted(duplicates.messages, "message"));
    facts += &fact("Duplicates", grouped(duplicates.extra), &of, false);
    let skipped = &report.skipped_attempts;
    let of = format!("in {}", counted(skipped.messages, "message"));
    facts += &fact("Skipped attempts", grouped(skipped.attempts), &of, false);
    facts + "</dl>\n"
}

fn figures(report: &Report) -> String {
    let figure = |title: &str, content: String, note: &str| {
        format!("<figure>\n<figcaption><h2>{title}</h2><p>{note}</p></figcaption>\n{content}</figure>\n")
    };
    let mut by_type: Vec<_> = report.by_error_type.iter().collect();
    by_type.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let by_type = by_type.into_iter().map(|(code, count)| (code.clone(), *count, charts::class_of(code)));
    let mut attempts: Vec<_> = report
        .attempts
        .known
        .iter()
        .map(|(attempts, count)| (attempts.to_string(), *count, "plain"))
        .collect();
    if let Some((from, ..)) = attempts.get(charts::ROWS_MAX).cloned() {
        let more = attempts.split_off(charts::ROWS_MAX).iter().map(|(_, count, _)| count).sum();
        attempts.push((format!("{from} and more"), more, "plain"));
    }
    if report.attempts.unknown > 0 {
        attempts.push(("unknown".to_owned(), report.attempts.unknown, "plain"));
    }
    let ages =
        NAMES.into_iter().zip(report.age.classes).map(|(name, count)| (name.to_owned(), count, "plain"));
    let span = about(report.over_time.span_seconds);
    format!(
        "<section class=\"figures\">\n{}{}{}{}</section>\n",
        figure("By error type", charts::bars("Dead letters by error type", by_type.collect()), "ErrorType"),
        figure(
            "Over time",
            charts::columns(&report.over_time),
            &format!("arrivals in this queue, {span} each")
        ),
        figure(
            "By retries made",
            charts::bars("Dead letters by retries made", attempts),
            "before it was given up"
        ),
        figure(
            "By age",
            charts::bars("Dead letters by age", ages.collect()),
            "since it was sent to this queue"
        ),
    )
}

/// A moment for people.
fn moment(moment: redeliver_core::message::Timestamp) -> String {
    format!("<time datetime=\"{}\">{}</time>", written(moment), moment.format("%Y-%m-%d&nbsp;%H:%M:%S"))
}

#[cfg(test)]
mod tests;

//! The report for people.

use std::fmt::Write as _;
use std::io::{self, Write};

use console::Style;

use super::age::NAMES;
use super::report::Report;
use super::view::View;
use crate::people::{about, counted, grouped};
use crate::text::{escaped, shortened};
use redeliver_dead_letters::groups::{Group, written};

/// Characters of the longest bar.
const BAR: u64 = 30;
const GROUPS_MAX: usize = 20;
/// Characters of a group's details.
const DETAILS_MAX: usize = 120;
/// Rows of the attempts' histogram.
const ATTEMPTS_MAX: usize = 20;

/// The report for people, in colour if a terminal shows it.
pub(super) struct Table {
    pub(super) colours: bool,
}

impl View for Table {
    fn end(&mut self, report: &Report, output: &mut dyn Write) -> io::Result<()> {
        output.write_all(self.report(report).as_bytes())
    }
}

/// The groups alone, as the report has them.
pub(crate) fn groups_for_people(groups: &[Group], colours: bool) -> String {
    let mut text = String::new();
    Table { colours }.groups(&mut text, groups);
    text
}

impl Table {
    fn style(&self) -> Style {
        Style::new().force_styling(self.colours)
    }

    fn report(&self, report: &Report) -> String {
        let mut text = format!(
            "{} {} ({})\n",
            self.style().bold().apply_to(counted(report.total, "dead letter")),
            format_args!("in {}", escaped(&report.context.queue)),
            written(report.context.now),
        );
        if let Some(filter) = &report.context.filter {
            let _ = writeln!(
                text,
                "of {} seen, by the filter {}",
                grouped(report.coverage.seen),
                escaped(filter)
            );
        }
        if let Some(sentence) = report.incompleteness() {
            let _ = writeln!(text, "{}", self.style().red().apply_to(sentence));
        }
        if report.total == 0 {
            return text;
        }
        let by_type = report.by_error_type.iter().map(|(code, count)| (escaped(code), *count));
        self.bars(&mut text, "By error type", by_type.collect());
        self.groups(&mut text, &report.groups);
        self.bars(&mut text, "By retries made", attempts(report));
        let last = report.age.classes.iter().rposition(|count| *count > 0).unwrap_or(0);
        self.bars(&mut text, "By age", ages(report).into_iter().take(last + 1).collect());
        self.remarks(&mut text, report);
        text
    }

    fn bars(&self, text: &mut String, title: &str, rows: Vec<(String, u64)>) {
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let _ = writeln!(text, "\n{}", self.style().bold().apply_to(title));
        for (name, count) in rows {
            let bar = "█".repeat(usize::try_from((count * BAR).div_ceil(most)).unwrap_or(0));
            let space = if bar.is_empty() { "" } else { " " };
            let _ = writeln!(
                text,
                "  {name:<width$} {:>9}{space}{}",
                grouped(count),
                self.style().cyan().apply_to(bar)
            );
        }
    }

    fn groups(&self, text: &mut String, groups: &[Group]) {
        let _ = writeln!(
            text,
            "\n{}",
            self.style().bold().apply_to(format!("Groups ({})", grouped(groups.len() as u64)))
        );
        for group in groups.iter().take(GROUPS_MAX) {
            let Group { fingerprint, error_type, count, first, last, error_details, example } = group;
            let _ = writeln!(
                text,
                "  {:>9}  {}  {}  {} – {}",
                grouped(*count),
                self.style().bold().apply_to(escaped(fingerprint)),
                escaped(error_type),
                minute(*first),
                minute(*last)
            );
            if !error_details.is_empty() {
                let _ = writeln!(text, "{:13}{}", "", shortened(&escaped(error_details), DETAILS_MAX));
            }
            let _ = writeln!(text, "{:13}e.g. {}", "", escaped(example));
        }
        if let Some(more) = groups.len().checked_sub(GROUPS_MAX).filter(|more| *more > 0) {
            let _ = writeln!(text, "  … and {} more: see --format json", grouped(more as u64));
        }
    }

    fn remarks(&self, text: &mut String, report: &Report) {
        let age = &report.age;
        let _ = writeln!(text, "\nThe oldest has been here for {}.", about(age.oldest_seconds));
        if age.expires_within_a_day > 0 {
            let warning = format!(
                "SQS deletes {} of them within a day: keep them with --archive.",
                grouped(age.expires_within_a_day)
            );
            let _ = writeln!(text, "{}", self.style().red().apply_to(warning));
        }
        let duplicates = &report.duplicates;
        if duplicates.messages > 0 {
            let _ = writeln!(
                text,
                "Duplicates: {} too many of {}, e.g. {}.",
                grouped(duplicates.extra),
                counted(duplicates.messages, "message"),
                duplicates.examples.first().map(|id| escaped(id)).unwrap_or_default()
            );
        }
        let skipped = &report.skipped_attempts;
        if skipped.messages > 0 {
            let _ = writeln!(
                text,
                "Skipped attempts: {} in {} have no failure in the history, e.g. {}.",
                counted(skipped.attempts, "attempt"),
                counted(skipped.messages, "message"),
                skipped.examples.first().map(|id| escaped(id)).unwrap_or_default()
            );
        }
    }
}

pub(super) fn ages(report: &Report) -> Vec<(String, u64)> {
    NAMES.into_iter().map(str::to_owned).zip(report.age.classes).collect()
}

pub(super) fn attempts(report: &Report) -> Vec<(String, u64)> {
    let known: Vec<_> = report.attempts.known.iter().map(|(attempts, count)| (*attempts, *count)).collect();
    let (shown, more) = known.split_at(known.len().min(ATTEMPTS_MAX));
    let mut rows: Vec<_> = shown.iter().map(|(attempts, count)| (attempts.to_string(), *count)).collect();
    if let Some((from, _)) = more.first() {
        rows.push((format!("{from} and more"), more.iter().map(|(_, count)| count).sum()));
    }
    if report.attempts.unknown > 0 {
        rows.push(("unknown".to_owned(), report.attempts.unknown));
    }
    rows
}

fn minute(moment: redeliver_core::message::Timestamp) -> String {
    moment.format("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests;

//! The report as text.

use std::io::{self, IsTerminal as _, Write};

use console::Style;
use redeliver_dead_letters::groups::{Group, written};
use redeliver_operator::audit::{AGE_CLASSES, AuditReport, View};
use redeliver_operator::terminal::escape::{escaped, shortened};
use redeliver_operator::terminal::units::{about, bar, counted, grouped};

/// Characters of the longest bar.
const BAR: u64 = 30;
const GROUPS_MAX: usize = 20;
/// Characters of a group's details on a terminal. A pipe or a file gets all of them.
const DETAILS_MAX: usize = 120;
/// Rows of the attempts' histogram.
const ATTEMPTS_MAX: usize = 20;

/// The report as text, in colour on a terminal.
pub(super) struct Table {
    pub(super) colours: bool,
    pub(super) on_terminal: bool,
}

impl View for Table {
    fn end(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        if let Some(sentence) = report.deleted_soon() {
            writeln!(output, "{}", self.style().red().apply_to(sentence))?;
        }
        let (letters, queue) = (counted(report.total, "dead letter"), escaped(&report.context.queue));
        let (letters, now) = (self.style().bold().apply_to(letters), written(report.context.now));
        let until = report.context.virtual_now.map(|now| format!(", virtual time until {}", written(now)));
        writeln!(
            output,
            "{letters} in {queue} ({now}{}){}",
            until.unwrap_or_default(),
            start(&report.groups)
        )?;
        if let Some(filter) = &report.context.filter {
            let (seen, filter) = (grouped(report.coverage.seen), escaped(filter));
            writeln!(output, "of {seen} seen, by the filter {filter}")?;
        }
        if let Some(sentence) = report.incompleteness() {
            writeln!(output, "{}", self.style().red().apply_to(sentence))?;
        }
        if report.total == 0 {
            return Ok(());
        }
        let by_type = report.by_error_type.iter().map(|(code, count)| (escaped(code), *count));
        self.bars("By error type", by_type.collect(), output)?;
        self.groups(&report.groups, output)?;
        self.bars("By retries made", attempts(report), output)?;
        let last = report.age.classes.iter().rposition(|count| *count > 0).unwrap_or(0);
        self.bars("By age", ages(report).into_iter().take(last + 1).collect(), output)?;
        self.remarks(report, output)
    }
}

/// The groups alone, as the report has them.
pub(crate) fn groups_for_people(groups: &[Group], colours: bool) -> String {
    let mut text = Vec::new();
    let on_terminal = io::stdout().is_terminal();
    Table { colours, on_terminal }.groups(groups, &mut text).expect("memory can always be written to");
    String::from_utf8_lossy(&text).into_owned()
}

impl Table {
    fn style(&self) -> Style {
        Style::new().force_styling(self.colours)
    }

    fn bars(&self, title: &str, rows: Vec<(String, u64)>, output: &mut dyn Write) -> io::Result<()> {
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        writeln!(output, "\n{}", self.style().bold().apply_to(title))?;
        for (name, count) in rows {
            let bar = bar(count, most, BAR);
            let space = if bar.is_empty() { "" } else { " " };
            let (count, bar) = (grouped(count), self.style().cyan().apply_to(bar));
            writeln!(output, "  {name:<width$} {count:>9}{space}{bar}")?;
        }
        Ok(())
    }

    fn groups(&self, groups: &[Group], output: &mut dyn Write) -> io::Result<()> {
        let title = format!("Groups ({})", grouped(groups.len() as u64));
        writeln!(output, "\n{}", self.style().bold().apply_to(title))?;
        if !groups.is_empty() {
            let [count, group, first, last] = ["count", "group", "first", "last"];
            writeln!(output, "  {count:>9}  {group:<16}  {first:<16}  {last:<16}  error type")?;
        }
        for group in groups.iter().take(GROUPS_MAX) {
            let Group { fingerprint, error_type, count, first, last, error_details, example, .. } = group;
            writeln!(
                output,
                "  {:>9}  {}  {}  {}  {}",
                grouped(*count),
                self.style().bold().apply_to(format!("{:<16}", escaped(fingerprint))),
                minute(*first),
                minute(*last),
                escaped(error_type)
            )?;
            if !error_details.is_empty() {
                let details =
                    if self.on_terminal { &shortened(error_details, DETAILS_MAX) } else { error_details };
                writeln!(output, "{:13}{}", "", escaped(details))?;
            }
            writeln!(output, "{:13}e.g. {}", "", escaped(example))?;
        }
        if let Some(more) = groups.len().checked_sub(GROUPS_MAX).filter(|more| *more > 0) {
            writeln!(output, "  … and {} more: see --format json", grouped(more as u64))?;
        }
        Ok(())
    }

    fn remarks(&self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        let age = &report.age;
        writeln!(output, "\nThe oldest has been here for {}.", about(age.oldest_seconds))?;
        let duplicates = &report.duplicates;
        if duplicates.messages > 0 {
            writeln!(
                output,
                "Duplicates: {} too many of {}, e.g. {}.",
                grouped(duplicates.extra),
                counted(duplicates.messages, "message"),
                first(&duplicates.examples)
            )?;
        }
        let skipped = &report.skipped_attempts;
        if skipped.messages > 0 {
            writeln!(
                output,
                "Skipped attempts: {} in {} have no failure in the history, e.g. {}.",
                counted(skipped.attempts, "attempt"),
                counted(skipped.messages, "message"),
                first(&skipped.examples)
            )?;
        }
        Ok(())
    }
}

/// The group to look at first: the largest.
fn start(groups: &[Group]) -> String {
    groups.first().map_or(String::new(), |Group { fingerprint, count, .. }| {
        format!(": start with group {}, {} of them", escaped(fingerprint), grouped(*count))
    })
}

pub(super) fn ages(report: &AuditReport) -> Vec<(String, u64)> {
    AGE_CLASSES.into_iter().map(str::to_owned).zip(report.age.classes).collect()
}

pub(super) fn attempts(report: &AuditReport) -> Vec<(String, u64)> {
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

fn first(ids: &[String]) -> String {
    ids.first().map(|id| escaped(id)).unwrap_or_default()
}

fn minute(moment: redeliver_core::message::Timestamp) -> String {
    moment.format("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests;

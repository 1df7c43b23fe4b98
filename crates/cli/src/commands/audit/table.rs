//! The report as text.

use std::io::{self, Write};

use console::{Style, measure_text_width};
use redeliver_dead_letters::groups::DeadLetterGroup;
use redeliver_operator::audit::{AGE_CLASSES, AuditReport, CauseComparison, View};
use redeliver_operator::terminal::escape::{escape_line, shorten_text};
use redeliver_operator::terminal::layout::TextLayout;
use redeliver_operator::terminal::units::{approximate_span, draw_bar, format_count, group_digits};

/// Length of the longest bar, in characters.
const BAR: u64 = 30;
const GROUPS_MAX: usize = 20;
/// Maximum number of tenants and functions shown.
const NAMES_MAX: usize = 10;
/// Columns reserved beside a name for its count and a short bar.
const NAME_ROOM: usize = 24;
/// Column at which the lines of a group start, after its count.
const GROUP_INDENT: usize = 13;
/// Maximum number of rows in the histogram of attempts.
const ATTEMPTS_MAX: usize = 20;

/// The report as text, in color on a terminal.
pub(super) struct Table {
    pub(super) colors: bool,
    pub(super) layout: TextLayout,
}

impl View for Table {
    fn write_report(&mut self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        if let Some(sentence) = report.describe_expiring_messages() {
            self.write_alert(&sentence, output)?;
        }
        let (letters, queue) =
            (format_count(report.total, "dead letter"), escape_line(&report.context.queue));
        let (letters, now) =
            (self.base_style().bold().apply_to(letters), self.layout.format_clock(report.context.now));
        let until = report
            .context
            .virtual_now
            .map(|now| format!(", virtual time until {}", self.layout.format_clock(now)));
        let head = format!(
            "{letters} in {queue} ({now}{}){}",
            until.unwrap_or_default(),
            suggest_first_group(&report.groups)
        );
        writeln!(output, "{}", self.layout.wrap_paragraph(&head, 2))?;
        if let Some(filter) = &report.context.filter {
            let (seen, filter) = (group_digits(report.coverage.seen), escape_line(filter));
            let line = format!("of {seen} seen, by the filter {filter}");
            writeln!(output, "{}", self.layout.wrap_paragraph(&line, 2))?;
        }
        if let Some(sentence) = report.describe_incompleteness() {
            self.write_alert(&sentence, output)?;
        }
        if report.total == 0 {
            return Ok(());
        }
        let by_type =
            report.counts_by_error_type().into_iter().map(|(code, count)| (escape_line(code), count));
        self.write_bars("By error type", by_type.collect(), output)?;
        // A single function is not informative, but a single tenant is: only that tenant is affected.
        self.write_names("By tenant", &report.counts_by_tenant(), report.total, output)?;
        let functions = report.counts_by_function();
        if functions.len() > 1 {
            self.write_names("By function", &functions, report.total, output)?;
        }
        let now = report.context.virtual_now.unwrap_or(report.context.now);
        let groups = Self { layout: self.layout.relative_to(now), ..*self };
        groups.write_groups(&report.groups, output)?;
        if let Some(comparison) = &report.comparison {
            writeln!(output, "\n{}", self.layout.wrap_paragraph(&self.describe_comparison(comparison), 2))?;
        }
        self.write_bars("By retries made", attempt_rows(report), output)?;
        let last = report.age.classes.iter().rposition(|count| *count > 0).unwrap_or(0);
        self.write_bars("By age", age_rows(report).into_iter().take(last + 1).collect(), output)?;
        self.write_remarks(report, output)
    }
}

/// Formats the groups as in the report.
pub(crate) fn format_groups(groups: &[DeadLetterGroup], colors: bool, layout: TextLayout) -> String {
    let mut text = Vec::new();
    Table { colors, layout }.write_groups(groups, &mut text).expect("memory can always be written to");
    String::from_utf8_lossy(&text).into_owned()
}

impl Table {
    fn base_style(&self) -> Style {
        Style::new().force_styling(self.colors)
    }

    /// Writes a sentence about a problem that needs attention.
    fn write_alert(&self, sentence: &str, output: &mut dyn Write) -> io::Result<()> {
        writeln!(output, "{}", self.base_style().red().apply_to(self.layout.wrap_paragraph(sentence, 2)))
    }

    /// Writes up to `NAMES_MAX` names with their counts, and the counts of all other names and of dead letters without
    /// a name.
    fn write_names(
        &self,
        title: &str,
        names: &[(&str, u64)],
        total: u64,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let named: u64 = names.iter().map(|(_, count)| count).sum();
        let (shown, more) = names.split_at(names.len().min(NAMES_MAX));
        let width = self.layout.columns().map_or(usize::MAX, |columns| columns.saturating_sub(NAME_ROOM));
        let mut rows: Vec<_> =
            shown.iter().map(|(name, count)| (shorten_text(&escape_line(name), width), *count)).collect();
        if !more.is_empty() {
            let others = format!("{} others", group_digits(more.len() as u64));
            rows.push((others, more.iter().map(|(_, count)| count).sum()));
        }
        if named < total {
            rows.push(("none named".to_owned(), total - named));
        }
        self.write_bars(title, rows, output)
    }

    fn write_bars(&self, title: &str, rows: Vec<(String, u64)>, output: &mut dyn Write) -> io::Result<()> {
        let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let width = rows.iter().map(|(name, _)| measure_text_width(name)).max().unwrap_or(0);
        // Two spaces before the name, a count of up to nine digits, and one space on each side of it.
        let room = self.layout.columns().map_or(BAR, |columns| columns.saturating_sub(width + 13) as u64);
        writeln!(output, "\n{}", self.base_style().bold().apply_to(title))?;
        for (name, count) in rows {
            let bar = draw_bar(count, most, room.min(BAR));
            let space = if bar.is_empty() { "" } else { " " };
            let (count, bar) = (group_digits(count), self.base_style().cyan().apply_to(bar));
            writeln!(output, "  {name:<width$} {count:>9}{space}{bar}")?;
        }
        Ok(())
    }

    fn write_groups(&self, groups: &[DeadLetterGroup], output: &mut dyn Write) -> io::Result<()> {
        let title = format!("Groups ({})", group_digits(groups.len() as u64));
        writeln!(output, "\n{}", self.base_style().bold().apply_to(title))?;
        for group in groups.iter().take(GROUPS_MAX) {
            let DeadLetterGroup {
                fingerprint,
                headline,
                error_type,
                count,
                first,
                last,
                error_details,
                example,
                ..
            } = group;
            let headline_shown = self.layout.fit_rest_of_line(GROUP_INDENT, headline);
            writeln!(
                output,
                "  {:>9}  {}",
                group_digits(*count),
                self.base_style().bold().apply_to(headline_shown)
            )?;
            let [first, last] = [*first, *last].map(|moment| self.layout.format_moment(moment));
            let mut lines = vec![format!("{}, group {}", escape_line(error_type), escape_line(fingerprint))];
            let times = [format!("first {first}"), format!("last {last}")];
            let on_one_line = times.join("; ");
            let is_fitting =
                self.layout.columns().is_none_or(|columns| GROUP_INDENT + on_one_line.len() <= columns);
            lines.extend(if is_fitting { vec![on_one_line] } else { times.into() });
            // On a terminal the headline is enough: the explanation is the same for every group of this error type.
            if self.layout.columns().is_none() && !error_details.is_empty() && error_details != headline {
                lines.push(escape_line(error_details));
            }
            lines.push(format!("e.g. {}", escape_line(example)));
            for line in lines {
                let line = self.layout.wrap_paragraph(&format!("{:GROUP_INDENT$}{line}", ""), GROUP_INDENT);
                writeln!(output, "{line}")?;
            }
        }
        if let Some(more) = groups.len().checked_sub(GROUPS_MAX).filter(|more| *more > 0) {
            writeln!(output, "  … and {} more: see --format json", group_digits(more as u64))?;
        }
        Ok(())
    }

    /// Describes how a cause differs from the others.
    fn describe_comparison(&self, comparison: &CauseComparison) -> String {
        let summary = escape_line(&comparison.summary(|moment| self.layout.format_clock(moment)));
        let others = format_count(comparison.others, "dead letter");
        match (comparison.others, summary.as_str()) {
            (0, _) => "There is no other cause to compare it with.".to_owned(),
            (_, "") => {
                format!("Neither tenant, version nor time sets it apart from {others} of other causes.")
            }
            _ => format!("Compared with {others} of other causes: {summary}."),
        }
    }

    fn write_remarks(&self, report: &AuditReport, output: &mut dyn Write) -> io::Result<()> {
        let age = &report.age;
        writeln!(output, "\nThe oldest has been here for {}.", approximate_span(age.oldest_seconds))?;
        let mut remark = |sentence: String| writeln!(output, "{}", self.layout.wrap_paragraph(&sentence, 2));
        let duplicates = &report.duplicates;
        if duplicates.messages > 0 {
            remark(format!(
                "{} of {}, e.g. {}.",
                format_count(duplicates.extra, "duplicate"),
                format_count(duplicates.messages, "message"),
                first_id(&duplicates.examples)
            ))?;
        }
        let skipped = &report.skipped_attempts;
        if skipped.messages > 0 {
            remark(format!(
                "Skipped attempts: {} in {} have no failure in the history, e.g. {}.",
                format_count(skipped.attempts, "attempt"),
                format_count(skipped.messages, "message"),
                first_id(&skipped.examples)
            ))?;
        }
        Ok(())
    }
}

/// Suggests the group to start with: the largest.
fn suggest_first_group(groups: &[DeadLetterGroup]) -> String {
    groups.first().map_or(String::new(), |DeadLetterGroup { fingerprint, count, .. }| {
        format!(": start with group {}, {} of them", escape_line(fingerprint), group_digits(*count))
    })
}

pub(super) fn age_rows(report: &AuditReport) -> Vec<(String, u64)> {
    AGE_CLASSES.into_iter().map(str::to_owned).zip(report.age.classes).collect()
}

pub(super) fn attempt_rows(report: &AuditReport) -> Vec<(String, u64)> {
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

fn first_id(ids: &[String]) -> String {
    ids.first().map(|id| escape_line(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests;

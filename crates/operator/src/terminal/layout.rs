//! The layout of a report: fitted lines and local times for a terminal, complete text and exact times otherwise.

use std::io::{self, IsTerminal as _};

use console::{Term, measure_text_width};
use jiff::tz::TimeZone;
use redeliver_core::message::Timestamp;
use redeliver_core::truncate::shorten_text;
use redeliver_dead_letters::groups::format_timestamp;

use crate::terminal::escape::escape_line;
use crate::terminal::units::{DAY, HOUR, MINUTE, format_span, format_table};

/// The width assumed for a terminal whose size is unknown.
const COLUMNS: usize = 80;
/// Minimum width of a truncated name, in columns: its two ends still distinguish it.
const NAME_MIN: usize = 16;
/// Columns between two cells.
const GAP: usize = 2;

/// The layout of a report.
#[derive(Clone, Debug)]
pub enum TextLayout {
    /// Complete text and exact times, for a program or a file.
    Whole,
    /// Lines of at most this number of columns, and times relative to `now`, for people.
    Fitted { columns: usize, now: Timestamp, zone: TimeZone },
}

impl TextLayout {
    /// Returns the layout for standard output.
    pub fn for_stdout(now: Timestamp) -> Self {
        if !io::stdout().is_terminal() {
            return Self::Whole;
        }
        let columns = Term::stdout().size_checked().map_or(COLUMNS, |(_, columns)| columns.into());
        Self::Fitted { columns, now, zone: TimeZone::try_system().unwrap_or(TimeZone::UTC) }
    }

    /// Returns the maximum number of columns per line; `None` if unlimited.
    pub const fn columns(&self) -> Option<usize> {
        match self {
            Self::Whole => None,
            Self::Fitted { columns, .. } => Some(*columns),
        }
    }

    /// Escapes text for the rest of a line, starting at this column. If it is too long, its middle is cut out.
    pub fn fit_rest_of_line(&self, from: usize, text: &str) -> String {
        let text = escape_line(text);
        match self.columns() {
            None => text,
            Some(columns) => cut_middle(&text, columns.saturating_sub(from).max(1)),
        }
    }

    /// Wraps a sentence between words. The sentence must be safe to print. Continuation lines are indented.
    pub fn wrap_paragraph(&self, sentence: &str, indent: usize) -> String {
        let Some(columns) = self.columns() else { return sentence.to_owned() };
        let words = sentence.trim_start();
        let mut text = " ".repeat(sentence.len() - words.len());
        let mut used = text.len();
        let mut is_first = true;
        for word in words.split(' ') {
            let width = measure_text_width(word);
            if is_first {
                used += width;
            } else if used + 1 + width <= columns {
                text.push(' ');
                used += 1 + width;
            } else {
                text += &format!("\n{:indent$}", "");
                used = indent + width;
            }
            text.push_str(word);
            is_first = false;
        }
        text
    }

    /// Returns the same layout, with times relative to another timestamp.
    #[must_use]
    pub fn relative_to(&self, moment: Timestamp) -> Self {
        match self.clone() {
            Self::Whole => Self::Whole,
            Self::Fitted { columns, zone, .. } => Self::Fitted { columns, now: moment, zone },
        }
    }

    /// Formats a timestamp with its distance from `now`: `3h ago, 14:02 CET` on a terminal, otherwise RFC 3339.
    pub fn format_moment(&self, at: Timestamp) -> String {
        let Self::Fitted { now, .. } = self else { return format_timestamp(at) };
        let seconds = (*now - at).num_seconds();
        let distance = format_largest_unit(seconds.unsigned_abs());
        let distance = if seconds < 0 { format!("in {distance}") } else { format!("{distance} ago") };
        format!("{distance}, {}", self.format_clock(at))
    }

    /// Formats a timestamp: `14:02 CET` on a terminal, with the date unless it is today's; otherwise RFC 3339.
    pub fn format_clock(&self, at: Timestamp) -> String {
        let Self::Fitted { now, zone, .. } = self else { return format_timestamp(at) };
        let local = |moment: Timestamp| {
            jiff::Timestamp::from_millisecond(moment.timestamp_millis())
                .map(|moment| moment.to_zoned(zone.clone()))
        };
        let (Ok(there), Ok(here)) = (local(at), local(*now)) else { return format_timestamp(at) };
        let form = match (there.date() == here.date(), there.year() == here.year()) {
            (true, _) => "%H:%M %Z",
            (false, true) => "%b %-d %H:%M %Z",
            (false, false) => "%Y-%m-%d %H:%M %Z",
        };
        there.strftime(form).to_string()
    }

    /// Formats a table like [`format_table`]. On a narrow terminal, names are shortened in the middle, and the last
    /// columns that do not fit move below their row.
    pub fn format_table(&self, header: &[&str], rows: Vec<Vec<String>>, right: &[usize]) -> String {
        match self.columns() {
            None => format_table(header, rows, right.iter().copied()),
            Some(columns) => fitted_table(header, rows, right, columns),
        }
    }
}

/// Formats the largest unit only: `3h` for three and a half hours.
fn format_largest_unit(seconds: u64) -> String {
    let unit = [DAY, HOUR, MINUTE].into_iter().find(|unit| seconds >= *unit).unwrap_or(1);
    format_span(seconds - seconds % unit)
}

/// Cuts out the middle of text until it fits in `columns` columns; a character may occupy two.
fn cut_middle(text: &str, columns: usize) -> String {
    let mut characters = columns;
    loop {
        let cut = shorten_text(text, characters);
        match measure_text_width(&cut).saturating_sub(columns) {
            0 => return cut,
            over => characters = characters.saturating_sub(over.div_ceil(2)),
        }
    }
}

fn fitted_table(header: &[&str], mut rows: Vec<Vec<String>>, right: &[usize], columns: usize) -> String {
    for cell in rows.iter_mut().flatten() {
        *cell = escape_line(cell);
    }
    let mut widths: Vec<_> = header.iter().map(|name| measure_text_width(name)).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = measure_text_width(cell).max(*width);
        }
    }
    let least = |column: usize| match right.contains(&column) {
        true => widths[column],
        false => widths[column].min(NAME_MIN.max(measure_text_width(header[column]))),
    };
    let fitting = (1..=header.len())
        .rev()
        .find(|kept| (0..*kept).map(|column| least(column) + GAP).sum::<usize>() <= columns);
    let kept = fitting.unwrap_or(1);
    let least: Vec<_> = (0..kept).map(least).collect();
    widths.truncate(kept);
    while widths.iter().map(|width| width + GAP).sum::<usize>() > columns {
        let widest =
            (0..kept).filter(|column| widths[*column] > least[*column]).max_by_key(|column| widths[*column]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
    }
    let mut below = Vec::new();
    for row in &mut rows {
        let rest = row.split_off(kept);
        let named = header[kept..].iter().zip(rest).map(|(name, value)| format!("{name}: {value}"));
        below.push(named.collect::<Vec<_>>());
        for (cell, width) in row.iter_mut().zip(&widths) {
            *cell = cut_middle(cell, *width);
        }
    }
    let text = format_table(&header[..kept], rows, right.iter().copied().filter(|column| *column < kept));
    let mut lines = text.lines();
    let mut fitted: String = lines.next().map(|line| format!("{line}\n")).unwrap_or_default();
    for (line, below) in lines.zip(below) {
        fitted += line;
        fitted.push('\n');
        fitted += &pack_cells(&below, columns);
    }
    fitted
}

/// Packs the cells that did not fit, as many per line as possible.
fn pack_cells(cells: &[String], columns: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for cell in cells {
        let cell = cut_middle(cell, columns.saturating_sub(5).max(1));
        match lines.last_mut() {
            Some(line) if measure_text_width(line) + GAP + measure_text_width(&cell) < columns => {
                *line = format!("{line}, {cell}");
            }
            _ => lines.push(format!("    {cell}")),
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use redeliver_testing::dead_letters::at_seconds;

    use super::*;

    /// Returns the layout of a terminal in Berlin, one day after the Unix epoch.
    pub(crate) fn terminal_layout(columns: usize) -> TextLayout {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        TextLayout::Fitted { columns, now: at_seconds(86_400), zone }
    }

    #[test]
    fn a_time_is_relative_and_local_on_a_terminal_and_exact_elsewhere() {
        let layout = terminal_layout(80);
        for (seconds, shown) in [
            (86_399, "1s ago, 00:59 CET"),
            (84_000, "40m ago, 00:20 CET"),
            (75_000, "3h ago, Jan 1 21:50 CET"),
            (90_000, "in 1h, 02:00 CET"),
            (-90_000, "2d ago, 1969-12-31 00:00 CET"),
        ] {
            assert_eq!(layout.format_moment(at_seconds(seconds)), shown);
        }
        assert_eq!(TextLayout::Whole.format_moment(at_seconds(0)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn a_paragraph_breaks_between_words_and_a_pipe_gets_one_line() {
        let sentence = "the quick brown fox jumps";
        assert_eq!(terminal_layout(12).wrap_paragraph(sentence, 2), "the quick\n  brown fox\n  jumps");
        assert_eq!(TextLayout::Whole.wrap_paragraph(sentence, 2), sentence);
    }

    #[test]
    fn a_narrow_table_cuts_names_and_moves_its_last_columns_below_the_row() {
        let header = ["", "queue", "visible", "redrive after"];
        let row = ["source", "a-very-long-prefix-in-production-source", "12,345", "1 receive → prod-dlq"];
        let rows = vec![row.map(str::to_owned).to_vec()];
        let whole = TextLayout::Whole.format_table(&header, rows.clone(), &[2]);
        assert_eq!(terminal_layout(100).format_table(&header, rows.clone(), &[2]), whole);
        let narrow = terminal_layout(40).format_table(&header, rows, &[2]);
        let lines: Vec<_> = narrow.lines().map(str::trim).collect();
        assert_eq!(
            lines[1..],
            ["source  a-very-long-pr…source   12,345", "redrive after: 1 receive → prod-dlq"]
        );
    }

    proptest! {
        /// A line that wraps would break the alignment of the columns.
        #[test]
        fn no_line_of_a_table_is_wider_than_the_terminal(
            columns in 20_usize..200,
            rows in prop::collection::vec(prop::collection::vec("[a-zä長\u{1b} -]{0,60}", 4), 0..5),
        ) {
            let table = terminal_layout(columns).format_table(&["queue", "by", "state", "reason"], rows, &[]);
            for line in table.lines() {
                prop_assert!(measure_text_width(line) <= columns, "{line}");
            }
        }
    }
}

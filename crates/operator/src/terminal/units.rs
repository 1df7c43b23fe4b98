//! Numbers, time spans and tables: formatted for output, and parsed from arguments.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::str::FromStr;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use indicatif::HumanCount;

pub const MINUTE: u64 = 60;
pub const HOUR: u64 = 60 * MINUTE;
pub const DAY: u64 = 24 * HOUR;

/// Formats 1234567 as `1,234,567`.
pub fn group_digits(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Formats a count with its noun: `1 message`, `2,000 messages`.
pub fn format_count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", group_digits(number), if number == 1 { "" } else { "s" })
}

/// Formats a time span as on the command line, such as `1h 30m`; `0s` for 0. Units between two others are never
/// omitted: `1h 0m 30s` cannot be mistaken for an hour and a half.
pub fn format_span(seconds: u64) -> String {
    let units = [
        (seconds / DAY, "d"),
        (seconds % DAY / HOUR, "h"),
        (seconds % HOUR / MINUTE, "m"),
        (seconds % MINUTE, "s"),
    ];
    let first = units.iter().position(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let last = units.iter().rposition(|(count, _)| *count > 0).unwrap_or(units.len() - 1);
    let words: Vec<_> = units[first..=last].iter().map(|(count, unit)| format!("{count}{unit}")).collect();
    words.join(" ")
}

/// Formats a time span rounded down: to seconds below an hour, minutes below a day, hours below 30 days, otherwise
/// days: `3d 4h`, `1h 5m`, `12s`. A negative span is `0s`.
pub fn approximate_span(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let precision = match seconds {
        ..HOUR => 1,
        HOUR..DAY => MINUTE,
        DAY.. if seconds < 30 * DAY => HOUR,
        _ => DAY,
    };
    format_span(seconds - seconds % precision)
}

/// Draws a bar of `█`, at most `width_max` characters long, for `count` out of `most`. A count above 0 has at least one
/// character.
pub fn draw_bar(count: u64, most: u64, width_max: u64) -> String {
    "█".repeat(usize::try_from((count * width_max).div_ceil(most.max(1))).unwrap_or(0))
}

/// Formats a table without borders; the columns in `right` are right-aligned. The header may be empty.
pub fn format_table<C: Into<String>>(
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<C>>,
    right: impl IntoIterator<Item = usize>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    if !header.is_empty() {
        table.set_header(header);
    }
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(Into::into).collect::<Vec<String>>()));
    for column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

/// Converts a count to a float, for arithmetic.
#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub fn as_float(count: u64) -> f64 {
    count as f64
}

/// Returns a parser for a time span of whole seconds within limits, such as `90s` or `1h 30m`.
pub fn seconds(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let given = humantime::parse_duration(text)
            .map_err(|_| "a span is a number with its unit, such as 90s, 10m, 1h 30m or 7d".to_owned())?;
        if limits.contains(&given.as_secs()) && given.subsec_nanos() == 0 {
            return Ok(given);
        }
        let [least, most] = [limits.start(), limits.end()].map(|limit| format_span(*limit));
        Err(format!("whole seconds from {least} to {most}"))
    }
}

/// Returns a parser for a whole number within limits. Its errors name both limits.
pub fn number<N, R>(range: R) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display,
    R: RangeBounds<N> + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| match (range.start_bound(), range.end_bound()) {
            (Bound::Included(least), Bound::Included(most)) => {
                format!("a whole number from {least} to {most}, without commas")
            }
            // Without an upper limit, the type's maximum applies.
            (Bound::Included(least), _)
                if text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() > 9 =>
            {
                format!("a whole number from {least}; this one is too large")
            }
            (Bound::Included(least), _) => format!("a whole number from {least}, without commas"),
            _ => "a whole number, without commas".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_and_spans_omit_leading_and_trailing_zero_units() {
        assert_eq!([0, 999, 1000, 1_234_567].map(group_digits), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2000].map(|number| format_count(number, "message")), ["1 message", "2,000 messages"]);
        let spans = [-5, 0, 59, 61, 3600, 3661, 86_400, 93_784].map(approximate_span);
        assert_eq!(spans, ["0s", "0s", "59s", "1m 1s", "1h", "1h 1m", "1d", "1d 2h"]);
        assert_eq!([0, 90, 5400, 86_400].map(format_span), ["0s", "1m 30s", "1h 30m", "1d"]);
        let gaps = [3630, 7 * DAY, DAY + 60, DAY + 1].map(format_span);
        assert_eq!(gaps, ["1h 0m 30s", "7d", "1d 0h 1m", "1d 0h 0m 1s"], "no unit in between is omitted");
    }

    #[test]
    fn a_number_must_be_whole_and_within_its_limits() {
        let parse = number(1..=3000_u32);
        assert_eq!(parse("3000"), Ok(3000));
        for wrong in ["", "0", "3001", "1,000", "-1", "1.5", "99999999999"] {
            assert_eq!(parse(wrong).unwrap_err(), "a whole number from 1 to 3000, without commas", "{wrong}");
        }
        let parse = number(0_u32..);
        assert_eq!(parse("4294967295"), Ok(u32::MAX));
        for wrong in ["4294967296", "1234567890123"] {
            assert_eq!(parse(wrong).unwrap_err(), "a whole number from 0; this one is too large");
        }
        let least = std::num::NonZeroU32::MIN;
        assert_eq!(number(least..)("0").unwrap_err(), "a whole number from 1, without commas");
    }

    #[test]
    fn a_time_span_needs_a_unit_and_must_be_within_its_limits() {
        let parse = seconds(1..=30 * DAY);
        assert_eq!(parse("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "10", "m", "-1s", "ten minutes"] {
            assert!(parse(wrong).unwrap_err().contains("such as 90s"), "{wrong}");
        }
        assert_eq!(parse("31d").unwrap_err(), "whole seconds from 1s to 30d");
        assert_eq!(parse("1500ms").unwrap_err(), "whole seconds from 1s to 30d");
    }
}

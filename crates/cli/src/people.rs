//! Numbers and spans as people read and write them.

use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use indicatif::HumanCount;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// 1234567 as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// `1 message`, `2,000 messages`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `1h 30m`: as it is written on the command line.
pub(crate) fn span(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

/// A span without what nobody wants to know: `3days 4h`, `1h 5m`, `12s`.
pub(crate) fn about(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    let precision = match seconds {
        ..HOUR => 1,
        HOUR..DAY => MINUTE,
        DAY.. if seconds < 30 * DAY => HOUR,
        _ => DAY,
    };
    span(seconds - seconds % precision)
}

/// A table of columns without lines; numbers stand at the right of the columns in `right`. The header may be empty.
pub(crate) fn table<C: Into<String>>(
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

/// A count to calculate with.
#[expect(clippy::cast_precision_loss, reason = "what is counted here is far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A span of whole seconds on the command line, within limits.
pub(crate) fn parse_span(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let span = humantime::parse_duration(text)
        .map_err(|_| "a span is a number with its unit, such as 90s, 10m, 1h 30m or 7d".to_owned())?;
    if (least..=most).contains(&span) && span.subsec_nanos() == 0 {
        return Ok(span);
    }
    let [least, most] = [least, most].map(humantime::format_duration);
    Err(format!("whole seconds from {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_spans_have_the_units_that_matter() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2000].map(|number| counted(number, "message")), ["1 message", "2,000 messages"]);
        let spans = [-5, 0, 59, 61, 3600, 3661, 86_400, 93_784].map(about);
        assert_eq!(spans, ["0s", "0s", "59s", "1m 1s", "1h", "1h 1m", "1day", "1day 2h"]);
        assert_eq!([0, 90, 5400, 86_400].map(span), ["0s", "1m 30s", "1h 30m", "1day"]);
    }

    #[test]
    fn a_span_has_a_unit_and_limits() {
        let parse = |text| parse_span(text, Duration::from_secs(1), Duration::from_secs(30 * DAY));
        assert_eq!(parse("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "10", "m", "-1s", "ten minutes"] {
            assert!(parse(wrong).unwrap_err().contains("such as 90s"), "{wrong}");
        }
        assert_eq!(parse("31d").unwrap_err(), "whole seconds from 1s to 30days");
        assert_eq!(parse("1500ms").unwrap_err(), "whole seconds from 1s to 30days");
    }
}

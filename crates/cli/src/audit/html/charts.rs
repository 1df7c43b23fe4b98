//! Charts, as tables and as inline SVG. Colours are the style sheet's, by class; no text is in colour alone.

use std::fmt::Write as _;

use redeliver_core::reason::DeadLetterReason;

use crate::audit::over_time::OverTime;
use crate::markup::escape;
use crate::people::grouped;

/// Rows of a bar chart.
pub(super) const ROWS_MAX: usize = 20;
const WIDTH: f64 = 560.0;
/// Where the columns stand.
const PLOT: Plot = Plot { left: 48.0, right: 552.0, top: 12.0, bottom: 192.0 };
const HEIGHT: f64 = 220.0;
const COLUMN_MAX: f64 = 44.0;

struct Plot {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// The style sheet's class of an error type.
pub(super) fn class_of(code: &str) -> &'static str {
    const CLASSES: [&str; 7] = ["e1", "e2", "e3", "e4", "e5", "e6", "e7"];
    let index = DeadLetterReason::ALL.iter().position(|reason| reason.as_str() == code);
    index.and_then(|index| CLASSES.get(index)).unwrap_or(&"e0")
}

/// Horizontal bars: label, count, class. A table, since the letters of a drawing shrink with the screen.
pub(super) fn bars(name: &str, rows: Vec<(String, u64, &'static str)>) -> String {
    let most = rows.iter().map(|(_, count, _)| *count).max().unwrap_or(0).max(1);
    let mut table = format!("<table class=\"bars\" aria-label=\"{name}\">\n");
    for (label, count, class) in rows {
        // One of very many is still to be seen.
        let percent = if count > 0 { (100.0 * float(count) / float(most)).max(0.5) } else { 0.0 };
        let _ = writeln!(
            table,
            "<tr><th scope=\"row\">{}</th><td class=\"bar\"><div class=\"{class}\" style=\"width:{percent:.1}%\"></div></td>\
             <td class=\"number\">{}</td></tr>",
            escape(&label),
            grouped(count),
        );
    }
    table + "</table>\n"
}

/// Columns over time, stacked by error type, with a legend.
pub(super) fn columns(over_time: &OverTime) -> String {
    let Some((first, last)) = over_time.spans.first().zip(over_time.spans.last()) else {
        return String::new();
    };
    let width = over_time.span_seconds;
    let slot_of = |start: redeliver_core::message::Timestamp| (start - first.start).num_seconds() / width;
    let slots = slot_of(last.start) + 1;
    let step = (PLOT.right - PLOT.left) / float(slots.unsigned_abs());
    let column = (step * 0.82).min(COLUMN_MAX);
    let most = over_time.spans.iter().map(|span| span.by_error_type.values().sum()).max().unwrap_or(1);
    let (tick, ticks) = scale(most);
    let y = |count: u64| PLOT.bottom - (PLOT.bottom - PLOT.top) * float(count) / float(tick * ticks);
    let mut svg = open("Dead letters over time", HEIGHT);
    for count in (0..=ticks).map(|index| index * tick) {
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{:.0}\" x2=\"{:.0}\" y1=\"{2:.1}\" y2=\"{2:.1}\"/>\
             <text class=\"label\" x=\"{3:.0}\" y=\"{2:.1}\">{4}</text>",
            PLOT.left,
            PLOT.right,
            y(count),
            PLOT.left - 8.0,
            grouped(count)
        );
    }
    for span in &over_time.spans {
        let left = PLOT.left + step * float(slot_of(span.start).unsigned_abs()) + (step - column) / 2.0;
        let mut title = span.start.format("%Y-%m-%d %H:%M").to_string();
        let mut rects = String::new();
        let mut below = 0;
        for (code, count) in &span.by_error_type {
            let _ = write!(title, "\n{}: {count}", escape(code));
            let (bottom, top) = (y(below), y(below + count));
            let _ = write!(
                rects,
                "<rect class=\"{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{column:.1}\" height=\"{:.1}\"/>",
                class_of(code),
                bottom - top
            );
            below += count;
        }
        let _ = writeln!(svg, "<g><title>{title}</title>{rects}</g>");
    }
    let format = if width < 86_400 { "%m-%d %H:%M" } else { "%Y-%m-%d" };
    let labelled = if slots > 2 { vec![0, slots / 2, slots - 1] } else { (0..slots).collect() };
    for slot in labelled {
        // Beside a few wide columns there is room on both sides, beside narrow ones at the ends there is not.
        let (anchor, shift) = match slot {
            _ if slots <= 8 => ("middle", 0.0),
            0 => ("start", -column / 2.0),
            _ if slot == slots - 1 => ("end", column / 2.0),
            _ => ("middle", 0.0),
        };
        let x = PLOT.left + step * (float(slot.unsigned_abs()) + 0.5) + shift;
        let at = first.start + chrono::TimeDelta::seconds(slot * width);
        let y = PLOT.bottom + 18.0;
        let _ =
            writeln!(svg, "<text class=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", at.format(format));
    }
    svg + "</svg>\n" + &legend(over_time)
}

fn legend(over_time: &OverTime) -> String {
    let codes: std::collections::BTreeSet<_> =
        over_time.spans.iter().flat_map(|span| span.by_error_type.keys()).collect();
    let items = codes.into_iter().map(|code| {
        format!("<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"{}\" width=\"10\" height=\"10\" rx=\"2\"/></svg>{}</li>", class_of(code), escape(code))
    });
    format!("<ul class=\"legend\">{}</ul>\n", items.collect::<String>())
}

/// The distance of the grid's lines, 1, 2 or 5 of some power of ten, and how many there are.
fn scale(most: u64) -> (u64, u64) {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let mut steps = powers.flat_map(|power| [power, power.saturating_mul(2), power.saturating_mul(5)]);
    let step = steps.find(|step| most.div_ceil(*step) <= 4).unwrap_or(most.max(1));
    (step, most.div_ceil(step).max(1))
}

fn open(name: &str, height: f64) -> String {
    format!(
        "<svg class=\"chart\" role=\"img\" aria-label=\"{name}\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\">\n"
    )
}

#[expect(clippy::cast_precision_loss, reason = "a picture needs no more than 52 bits")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_at_most_four_lines_at_round_numbers() {
        let of = [0, 1, 4, 5, 9, 37, 1040, 2000].map(scale);
        assert_eq!(of, [(1, 1), (1, 1), (1, 4), (2, 3), (5, 2), (10, 4), (500, 3), (500, 4)]);
    }

    #[test]
    fn a_bar_is_as_long_as_its_count_and_its_label_is_text() {
        let table = bars(
            "n",
            vec![("<b>".to_owned(), 4, "e1"), ("x".to_owned(), 2, "e0"), ("y".to_owned(), 0, "e0")],
        );
        assert!(table.contains(">&lt;b&gt;</th>") && !table.contains("<b>"), "{table}");
        for width in ["class=\"e1\" style=\"width:100.0%\"", "style=\"width:50.0%\"", "style=\"width:0.0%\""]
        {
            assert_eq!(table.matches(width).count(), 1, "{width} in {table}");
        }
    }
}

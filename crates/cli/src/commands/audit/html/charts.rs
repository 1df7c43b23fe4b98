//! The charts of all dead letters: bars by category, and columns over time.

use std::collections::BTreeSet;

use maud::{Markup, html};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_operator::markup::chart::{Axis, LegendKey, Plot};
use redeliver_operator::terminal::units::{as_float, group_digits};

use redeliver_operator::audit::ArrivalHistogram;

const HEIGHT: f64 = 180.0;
/// A column's width as a fraction of its slot, and its maximum height as a fraction of the chart.
const COLUMN: f64 = 0.82;
const COLUMN_MAX: f64 = 0.09;

/// Returns the CSS class of an error type.
pub(super) fn css_class(code: &str) -> &'static str {
    const CLASSES: [&str; 7] = ["s1", "s2", "s3", "s4", "s5", "s6", "s7"];
    let index = DeadLetterReason::ALL.iter().position(|reason| reason.as_str() == code);
    index.and_then(|index| CLASSES.get(index)).unwrap_or(&"s0")
}

/// Renders horizontal bars in the colors of error types, as a table: the text in an SVG would shrink with the screen.
pub(super) fn render_bars(name: &str, rows: &[(String, u64)]) -> Markup {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    // A bar for one message stays visible next to a bar for millions.
    let percent = |count| if count > 0 { (100.0 * as_float(count) / as_float(most)).max(0.5) } else { 0.0 };
    html! {
        table class="bars" aria-label=(name) {
            @for (label, count) in rows {
                tr {
                    th scope="row" { (label) }
                    td class="bar" { div class=(css_class(label)) style={"width:" (format!("{:.1}", percent(*count))) "%"} {} }
                    td class="number" { (group_digits(*count)) }
                } "\n"
            }
        }
    }
}

/// Renders columns over time, stacked by error type, with a legend.
pub(super) fn render_columns(over_time: &ArrivalHistogram) -> Markup {
    let ArrivalHistogram { span_seconds: width, spans } = over_time;
    let Some((first, last)) = spans.first().zip(spans.last()) else {
        return Markup::default();
    };
    let slot_of = |start: redeliver_core::message::Timestamp| {
        ((start - first.start).num_seconds() / width).unsigned_abs()
    };
    let slots = slot_of(last.start) + 1;
    let format = if *width < 86_400 { "%m-%d %H:%M" } else { "%Y-%m-%d" };
    let labelled = if slots > 2 { vec![0, slots / 2, slots - 1] } else { (0..slots).collect() };
    let marks = labelled.into_iter().map(|slot| {
        let start = first.start + chrono::TimeDelta::seconds(slot.cast_signed() * width);
        (as_float(slot) + 0.5, start.format(format).to_string())
    });
    let most = spans.iter().map(|span| span.by_error_type.values().sum()).max().unwrap_or(1);
    let x = Axis { from: 0.0, to: as_float(slots), marks: marks.collect(), has_lines: false };
    let plot = Plot { x, y: Axis::for_counts(most), height: HEIGHT };
    let half = (COLUMN / 2.0).min(COLUMN_MAX / 2.0 * as_float(slots));
    let drawn = html! { @for span in spans {
        @let middle = as_float(slot_of(span.start)) + 0.5;
        @let stacked = span.by_error_type.iter().scan(0, |below, (code, count)| {
            *below += count;
            Some((code, *below - count, *below))
        });
        g {
            title {
                (span.start.format("%Y-%m-%d %H:%M").to_string())
                @for (code, count) in &span.by_error_type { "\n" (code) ": " (count) }
            }
            @for (code, below, above) in stacked {
                (plot.draw_rectangle(css_class(code), (middle - half, as_float(below)), (middle + half, as_float(above))))
            }
        } "\n"
    } };
    let codes: BTreeSet<_> = spans.iter().flat_map(|span| span.by_error_type.keys()).collect();
    let legend: Vec<_> =
        codes.into_iter().map(|code| (LegendKey::Area(css_class(code), ""), code.clone())).collect();
    plot.draw_figure("Dead letters over time", "", &drawn, "", &legend).chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_length_is_proportional_to_count_and_labels_are_escaped() {
        let rows =
            [("<b>", 4), ("MESSAGE_EXPIRED", 2), ("y", 0)].map(|(name, count)| (name.to_owned(), count));
        let table = render_bars("n", &rows).into_string();
        assert!(table.contains(">&lt;b&gt;</th>") && !table.contains("<b>"), "{table}");
        for bar in [
            "class=\"s0\" style=\"width:100.0%\"",
            "class=\"s5\" style=\"width:50.0%\"",
            "class=\"s0\" style=\"width:0.0%\"",
        ] {
            assert_eq!(table.matches(bar).count(), 1, "{bar} in {table}");
        }
    }
}

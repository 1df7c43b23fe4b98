//! The backlog of an inner function that cannot keep up.

use redeliver_sim::planner::{Bottleneck, Forecast};

use super::axis::{column_outline, time_axis};
use super::load;
use redeliver_operator::markup::chart::{Axis, Figure, LegendKey, Plot};
use redeliver_operator::terminal::units::as_float;

const HEIGHT: f64 = 110.0;
const WAITING: &str = "s3";

/// Returns a figure for each policy with a bottleneck.
pub(super) fn backlog_figures(forecast: &Forecast) -> impl Iterator<Item = Figure> {
    forecast.policies.iter().filter_map(|policy| {
        let bottleneck = policy.outcome.measured.bottleneck.as_ref()?;
        Some(backlog_figure(&policy.name, bottleneck, load::axis_end(forecast)))
    })
}

/// Draws the backlog; `end` is the end of the load chart's time axis.
fn backlog_figure(policy: &str, bottleneck: &Bottleneck, end: u64) -> Figure {
    let (x, unit) = time_axis(end);
    // Axis labels have room for five digits.
    let (divisor, note) = match bottleneck.backlog_max {
        0..100_000 => (1, "messages waiting in its queue"),
        _ => (1000, "thousands of messages waiting in its queue"),
    };
    let plot = Plot { x, y: Axis::for_counts(bottleneck.backlog_max / divisor), height: HEIGHT };
    let waiting =
        column_outline(end, |seconds| as_float(bottleneck.load.max_backlog(seconds)) / as_float(divisor));
    let legend = [(LegendKey::Area(WAITING, ""), "messages waiting".to_owned())];
    plot.draw_figure(
        format!("Bottleneck, the {}: {policy}", bottleneck.function),
        note,
        &plot.draw_area(WAITING, waiting),
        &format!("time since the first message, {unit}"),
        &legend,
    )
}

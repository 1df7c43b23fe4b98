//! The messages that wait for an inner function that cannot keep up.

use redeliver_sim::planner::{Bottleneck, Forecast};

use super::axis::{outline, time};
use super::load;
use redeliver_operator::markup::chart::{Axis, Figure, Key, Plot};
use redeliver_operator::terminal::units::float;

const HEIGHT: f64 = 110.0;
const WAITING: &str = "s3";

/// A figure for each policy with a bottleneck.
pub(super) fn figures(forecast: &Forecast) -> impl Iterator<Item = Figure> {
    forecast.policies.iter().filter_map(|policy| {
        let bottleneck = policy.outcome.measured.bottleneck.as_ref()?;
        Some(figure(&policy.name, bottleneck, load::end(forecast)))
    })
}

/// `end` is that of the load's time axis.
fn figure(policy: &str, bottleneck: &Bottleneck, end: u64) -> Figure {
    let (x, unit) = time(end);
    // The axis has room for five digits.
    let (divisor, note) = match bottleneck.backlog_max {
        0..100_000 => (1, "messages waiting in its queue"),
        _ => (1000, "thousands of messages waiting in its queue"),
    };
    let plot = Plot { x, y: Axis::counts(bottleneck.backlog_max / divisor), height: HEIGHT };
    let waiting = outline(end, |seconds| float(bottleneck.load.backlog(seconds)) / float(divisor));
    let legend = [(Key::Area(WAITING, ""), "messages waiting".to_owned())];
    plot.figure(
        format!("Bottleneck, the {}: {policy}", bottleneck.function),
        note,
        &plot.area(WAITING, waiting),
        &format!("time since the first message, {unit}"),
        &legend,
    )
}

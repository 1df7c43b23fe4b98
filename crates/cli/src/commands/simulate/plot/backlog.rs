//! The messages that wait for an inner function that cannot keep up.

use redeliver_sim::planner::{Bottleneck, Forecast};

use super::axis::time;
use redeliver_operator::markup::chart::{Axis, Figure, Key, Plot};
use redeliver_operator::terminal::units::float;

const HEIGHT: f64 = 110.0;
const COLUMNS: u64 = 200;
const WAITING: &str = "s3";

/// A figure for each policy with a bottleneck.
pub(super) fn figures(forecast: &Forecast) -> impl Iterator<Item = Figure> {
    forecast.policies.iter().filter_map(|policy| {
        let bottleneck = policy.outcome.measured.bottleneck.as_ref()?;
        Some(figure(&policy.name, bottleneck))
    })
}

fn figure(policy: &str, bottleneck: &Bottleneck) -> Figure {
    let end = bottleneck.load.last_second() + 1;
    let (x, unit) = time(end);
    // The axis has room for five digits.
    let (divisor, note) = match bottleneck.backlog_max {
        0..100_000 => (1, "messages waiting in its queue"),
        _ => (1000, "thousands of messages waiting in its queue"),
    };
    let plot = Plot { x, y: Axis::counts(bottleneck.backlog_max / divisor), height: HEIGHT };
    let width = end.div_ceil(COLUMNS);
    let steps = (0..end.div_ceil(width)).flat_map(|column| {
        let (from, to) = (column * width, (column + 1) * width);
        let waiting = float(bottleneck.load.backlog(from..to)) / float(divisor);
        [from, to.min(end)].map(|at| (float(at), waiting))
    });
    let outline = [(0.0, 0.0)].into_iter().chain(steps).chain([(float(end), 0.0)]);
    let legend = [(Key::Area(WAITING, ""), "messages waiting".to_owned())];
    plot.figure(
        format!("Bottleneck, the {}: {policy}", bottleneck.function),
        note,
        &plot.area(WAITING, outline),
        &format!("time since the first message, {unit}"),
        &legend,
    )
}

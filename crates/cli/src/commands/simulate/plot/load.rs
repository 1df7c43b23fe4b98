//! Calls of the target over time: failures on top of successes.

use maud::html;
use redeliver_sim::planner::{Forecast, Load, PolicyForecast, Second};

use super::axis::time;
use redeliver_operator::markup::chart::{Axis, Figure, Key, Plot};
use redeliver_operator::terminal::units::float;

const HEIGHT: f64 = 150.0;
/// The largest number of columns; a column shows its busiest second.
const COLUMNS: u64 = 200;
const SUCCEEDED: &str = "s1";
const FAILED: &str = "s5";
const WITHOUT: &str = "s2";

/// One figure for each policy, all with the same axes.
pub(super) fn figures(forecast: &Forecast) -> Vec<Figure> {
    let policies = &forecast.policies;
    let own = || forecast.outcomes().map(|outcome| &outcome.measured.load);
    let loads = || own().chain(policies.iter().filter_map(without));
    let end = loads().map(|load| load.last_second() + 1).max().unwrap_or(1);
    let most = loads().map(|load| load.busiest(0..end).calls).max().unwrap_or(1);
    let (x, unit) = time(end);
    let plot = Plot { x, y: Axis::counts(most), height: HEIGHT };
    let width = end.div_ceil(COLUMNS);
    let outage = forecast.scenario.fault.outage_seconds();
    let capacity = forecast.scenario.capacity.map(f64::from).filter(|capacity| *capacity <= plot.y.to);
    let mut legend = vec![
        (Key::Area(FAILED, ""), "failed".to_owned()),
        (Key::Area(SUCCEEDED, ""), "succeeded".to_owned()),
    ];
    if outage.is_some() {
        legend.push((Key::Area("down", ""), "the target is down".to_owned()));
    }
    if policies.iter().any(|policy| policy.without_circuit_breaker.is_some()) {
        legend.push((Key::Line(WITHOUT, "thin"), "without circuit breaker".to_owned()));
    }
    if capacity.is_some() {
        legend.push((Key::Line("ink", "thin"), "the target's capacity".to_owned()));
    }
    let note = match width {
        1 => "calls per second".to_owned(),
        _ => format!("calls per second, the busiest of each {width} s"),
    };
    let figure = |policy: &PolicyForecast| {
        let stairs = |load: &Load, height: fn(&Second) -> u64| {
            let columns = (0..end.div_ceil(width)).flat_map(|column| {
                let (from, to) = (column * width, (column + 1) * width);
                let height = float(height(&load.busiest(from..to)));
                [from, to.min(end)].map(|at| (float(at), height))
            });
            [(0.0, 0.0)].into_iter().chain(columns).chain([(float(end), 0.0)]).collect::<Vec<_>>()
        };
        let load = &policy.outcome.measured.load;
        let drawn = html! {
            @if let Some(seconds) = outage {
                (plot.rectangle("down", (0.0, 0.0), (float(seconds.min(end)), plot.y.to)))
            }
            (plot.area(FAILED, stairs(load, |second| second.calls)))
            (plot.area(SUCCEEDED, stairs(load, |second| second.succeeded)))
            @if let Some(without) = without(policy) {
                (plot.line(&format!("{WITHOUT} thin"), stairs(without, |second| second.calls)))
            }
            @if let Some(capacity) = capacity {
                (plot.line("ink thin", [(0.0, capacity), (float(end), capacity)]))
            }
        };
        let below = format!("time since the first message, {unit}");
        plot.figure(format!("Load on the target: {}", policy.name), note.clone(), &drawn, &below, &legend)
    };
    policies.iter().map(figure).collect()
}

fn without(policy: &PolicyForecast) -> Option<&Load> {
    policy.without_circuit_breaker.as_ref().map(|without| &without.measured.load)
}

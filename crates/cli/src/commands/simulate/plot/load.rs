//! Calls to the target over time, with failures stacked on successes, and held messages.

use std::ops::Range;

use maud::html;
use redeliver_sim::planner::{Forecast, LoadBySecond, PolicyForecast, ScenarioGroups};

use super::super::arguments::plain_queue_name;
use super::axis::{COLUMNS, column_outline, column_seconds, time_axis};
use redeliver_operator::markup::chart::{Axis, Figure, LegendKey, Plot};
use redeliver_operator::terminal::units::{as_float, format_span};

const HEIGHT: f64 = 150.0;
const SUCCEEDED: &str = "s1";
const FAILED: &str = "s5";
const WITHOUT_BREAKER: &str = "s2";
const HELD: &str = "s3";

/// Returns one figure per policy and per plain queue, all with the same axes.
pub(super) fn load_figures(forecast: &Forecast) -> Vec<Figure> {
    let policies = &forecast.policies;
    let own = || forecast.outcomes().map(|outcome| &outcome.measured.load);
    let plain = || forecast.plain_sqs.iter().map(|plain| &plain.outcome.measured.load);
    let loads = || own().chain(policies.iter().filter_map(load_without_breaker)).chain(plain());
    let end = axis_end(forecast);
    let calls = loads().map(|load| load.busiest_second(0..end).calls).max().unwrap_or(1);
    let holds = own().map(|load| load.max_holds(0..end)).max().unwrap_or(0);
    let most = calls.max(holds);
    let (x, unit) = time_axis(end);
    let plot = Plot { x, y: Axis::for_counts(most), height: HEIGHT };
    let width = column_seconds(end);
    let down_times = down_times(forecast);
    let capacity = forecast.scenario.capacity.map(f64::from).filter(|capacity| *capacity <= plot.y.to);
    let mut legend = vec![
        (LegendKey::Area(FAILED, ""), "failed".to_owned()),
        (LegendKey::Area(SUCCEEDED, ""), "succeeded".to_owned()),
    ];
    if !down_times.is_empty() {
        let words = match forecast.scenario.groups {
            Some(ScenarioGroups { count, down }) if down < count => {
                format!("down for {down} of {count} groups")
            }
            _ => "the target is down".to_owned(),
        };
        legend.push((LegendKey::Area("down", ""), words));
    }
    if policies.iter().any(|policy| policy.without_circuit_breaker.is_some()) {
        legend.push((LegendKey::Line(WITHOUT_BREAKER, "thin"), "without circuit breaker".to_owned()));
    }
    if holds > 0 {
        legend.push((LegendKey::Line(HELD, "thin"), "messages held".to_owned()));
    }
    if capacity.is_some() {
        legend.push((LegendKey::Line("ink", "thin"), "the target's capacity".to_owned()));
    }
    let what = if holds > 0 { "calls and held messages per second" } else { "calls per second" };
    let note = match width {
        1 => what.to_owned(),
        _ => format!("{what}, the busiest of each {width} s"),
    };
    let figure = |name: &str, load: &LoadBySecond, without: Option<&LoadBySecond>| {
        let stairs =
            |height: &dyn Fn(Range<u64>) -> u64| column_outline(end, |range| as_float(height(range)));
        let drawn = html! {
            @for down in &down_times {
                (plot.draw_rectangle("down", (as_float(down.start.min(end)), 0.0), (as_float(down.end.min(end)), plot.y.to)))
            }
            (plot.draw_area(FAILED, stairs(&|range| load.busiest_second(range).calls)))
            (plot.draw_area(SUCCEEDED, stairs(&|range| load.busiest_second(range).succeeded)))
            @if let Some(without) = without {
                (plot.draw_line(&format!("{WITHOUT_BREAKER} thin"), stairs(&|range| without.busiest_second(range).calls)))
            }
            @if holds > 0 { (plot.draw_line(&format!("{HELD} thin"), stairs(&|range| load.max_holds(range)))) }
            @if let Some(capacity) = capacity {
                (plot.draw_line("ink thin", [(0.0, capacity), (as_float(end), capacity)]))
            }
            @if let Some(limit) = earliest_end(forecast, load) {
                (plot.draw_marker(as_float(limit), &format!("earliest possible end {}", format_span(limit))))
            }
        };
        let below = format!("time since the first message, {unit}");
        plot.draw_figure(format!("Load on the target: {name}"), note.clone(), &drawn, &below, &legend)
    };
    let policy_figures = policies
        .iter()
        .zip(own())
        .map(|(policy, load)| figure(&policy.name, load, load_without_breaker(policy)));
    let plain_figures = forecast.plain_sqs.iter().zip(plain());
    let plain_figures = plain_figures.map(|(sqs, load)| figure(&plain_queue_name(sqs.plain), load, None));
    policy_figures.chain(plain_figures).collect()
}

/// Returns the end of the time axis, in seconds since the first message.
pub(super) fn axis_end(forecast: &Forecast) -> u64 {
    let own = || forecast.outcomes().map(|outcome| &outcome.measured.load);
    let plain = forecast.plain_sqs.iter().map(|plain| &plain.outcome.measured.load);
    let loads = own().chain(forecast.policies.iter().filter_map(load_without_breaker)).chain(plain);
    let bottlenecks = forecast.outcomes().filter_map(|outcome| outcome.measured.bottleneck.as_ref());
    let last_seconds = loads
        .map(LoadBySecond::last_second)
        .chain(bottlenecks.map(|bottleneck| bottleneck.load.last_second()));
    let last = last_seconds.map(|second| second + 1).max().unwrap_or(1);
    own().filter_map(|load| earliest_end(forecast, load)).max().unwrap_or(0).max(last)
}

/// Returns the periods in which the target is down. If there are more periods than columns, the chart cannot show them
/// separately, so they are merged into one.
fn down_times(forecast: &Forecast) -> Vec<Range<u64>> {
    let mut times = forecast.scenario.down_times();
    match (times.len() as u64 > COLUMNS, forecast.scenario.recovery_second()) {
        (true, Some(end)) => times.next().map(|first| first.start..end).into_iter().collect(),
        _ => times.collect(),
    }
}

/// Returns the earliest second by which the target could have processed all messages: after its final recovery, it
/// processes the remaining messages at its capacity, but it cannot finish before the last message arrives.
fn earliest_end(forecast: &Forecast, load: &LoadBySecond) -> Option<u64> {
    let back = forecast.scenario.recovery_second()?;
    let left = forecast.scenario.messages.saturating_sub(load.successes_before(back));
    let at_capacity = back + left.div_ceil(forecast.scenario.capacity?.into());
    Some(at_capacity.max(forecast.scenario.over.as_secs()))
}

fn load_without_breaker(policy: &PolicyForecast) -> Option<&LoadBySecond> {
    policy.without_circuit_breaker.as_ref().map(|without| &without.measured.load)
}

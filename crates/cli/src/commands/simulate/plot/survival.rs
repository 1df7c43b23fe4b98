//! The probability of surviving an outage, by its length.

use maud::html;
use redeliver_sim::planner::{Forecast, Survival};

use super::axis::POLICY_COLORS;
use redeliver_operator::markup::chart::{Axis, Figure, LegendKey, Plot};
use redeliver_operator::terminal::units::as_float;

const HEIGHT: f64 = 180.0;
const POINTS: u64 = 120;
/// From 1 minute to 30 days, the longest outage a scenario can have, on a logarithmic scale.
const MARKS: [(f64, &str); 8] = [
    (60.0, "1 min"),
    (300.0, "5 min"),
    (1200.0, "20 min"),
    (3600.0, "1 h"),
    (14_400.0, "4 h"),
    (86_400.0, "24 h"),
    (604_800.0, "7 d"),
    (2_592_000.0, "30 d"),
];
/// The end of the axis, unless the scenario's outage is longer.
const END_SECONDS: u64 = 86_400;

pub(super) fn survival_figure(forecast: &Forecast) -> Figure {
    let outage = forecast.scenario.fault.outage_seconds();
    let [from, to] = [MARKS[0].0, as_float(outage.unwrap_or(0).max(END_SECONDS))].map(f64::ln);
    let marks = MARKS.into_iter().map(|(seconds, words)| (seconds.ln(), words.to_owned()));
    let marks = marks.filter(|(at, _)| *at <= to).collect();
    let x = Axis { from, to, marks, has_lines: true };
    let percents = [0_u8, 20, 40, 60, 80, 100].map(|mark| (f64::from(mark), mark.to_string()));
    let plot = Plot {
        x,
        y: Axis { from: 0.0, to: 104.0, marks: percents.to_vec(), has_lines: true },
        height: HEIGHT,
    };
    let outage = outage.map(|seconds| as_float(seconds.max(1)).ln()).filter(|at| *at >= from);
    let places: Vec<_> =
        (0..=POINTS).map(|point| from + (to - from) * as_float(point) / as_float(POINTS)).collect();
    let mut legend = vec![
        (LegendKey::Line("ink", ""), "fails first at any moment of it".to_owned()),
        (LegendKey::Line("ink", "thin"), "fails first at its beginning".to_owned()),
    ];
    if forecast.policies.iter().any(|policy| policy.hold.is_some()) {
        let held: u64 = forecast.circuit_breakers().map(|breaker| breaker.held_messages).sum();
        // A longer text would be clipped.
        let words = if held == 0 { "held: none was in this run" } else { "held" };
        legend.insert(0, (LegendKey::Line("ink", "dashed"), words.to_owned()));
    }
    if outage.is_some() {
        legend.push((LegendKey::Tick("ink thin"), "the outage of the scenario".to_owned()));
    }
    let drawn = html! {
        @if let Some(at) = outage { (plot.draw_line("ink thin", [(at, 0.0), (at, 100.0)])) }
        @for (policy, color) in forecast.policies.iter().zip(POLICY_COLORS) {
            @let survival = |at: f64| Survival::for_outage(&policy.schedule, policy.hold.as_ref(), round_seconds(at.exp()));
            @let chances: Vec<_> = places.iter().map(|at| (*at, survival(*at))).collect();
            @let line = |chance: fn(&Survival) -> Option<f64>| chances.iter().filter_map(move |(at, survival)| Some((*at, chance(survival)? * 100.0)));
            @if policy.hold.is_some() { (plot.draw_line(&format!("{color} dashed"), line(|survival| survival.held))) }
            (plot.draw_line(color, line(|survival| Some(survival.at_a_random_moment))))
            (plot.draw_line(&format!("{color} thin"), line(|survival| Some(survival.from_its_beginning))))
        }
    };
    let policies = forecast.policies.iter().zip(POLICY_COLORS);
    legend.extend(policies.map(|(policy, color)| (LegendKey::Line(color, ""), policy.name.clone())));
    plot.draw_figure(
        "Chance that a message survives an outage",
        "in %",
        &drawn,
        "length of the outage",
        &legend,
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 minute to 30 days")]
fn round_seconds(length: f64) -> u64 {
    length.round() as u64
}

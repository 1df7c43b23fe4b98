//! The attempt times of one message: a band from the earliest to the latest, with the median.

use maud::{Markup, html};
use redeliver_sim::planner::{Forecast, ScheduledAttempt};

use super::axis::{POLICY_COLORS, time_axis};
use redeliver_operator::markup::chart::{Axis, Figure, LegendKey, Plot};
use redeliver_operator::terminal::units::as_float;

const ATTEMPTS: usize = 12;

pub(super) fn schedule_figure(forecast: &Forecast) -> Figure {
    let policies = &forecast.policies;
    let longest = policies.iter().map(|policy| policy.schedule.attempts.len()).max().unwrap_or(0);
    let drawn = longest.min(ATTEMPTS);
    let end = policies.iter().flat_map(|policy| policy.schedule.attempts.iter().take(drawn).next_back());
    let (x, unit) = time_axis(end.map(|attempt| attempt.latest_seconds).max().unwrap_or(0));
    let rows = as_float(drawn.max(1) as u64);
    let marks = (1..=drawn as u64).map(|number| (as_float(number), number.to_string())).collect();
    // Bands are thinner if there are many policies, so that the picture fits on a screen.
    let height = rows * (12.0 + 6.0 * as_float(policies.len() as u64));
    let plot = Plot {
        x: Axis { has_lines: true, ..x },
        // The first attempt is at the top.
        y: Axis { from: rows + 0.5, to: 0.5, marks, has_lines: false },
        height,
    };
    let share = 0.8 / as_float(policies.len().max(1) as u64);
    let band = |index: u64, color: &str, attempt: &ScheduledAttempt| -> Markup {
        let top = f64::from(attempt.attempt) - 0.4 + share * as_float(index);
        let bottom = top + share * 0.9;
        let [from, median, to] =
            [attempt.earliest_seconds, attempt.median_seconds, attempt.latest_seconds].map(as_float);
        html! {
            (plot.draw_rectangle(&format!("{color} band"), (from, top), (to, bottom)))
            (plot.draw_line(color, [(median, top), (median, bottom)]))
        }
    };
    let bands = html! {
        @for (index, (policy, color)) in (0..).zip(policies.iter().zip(POLICY_COLORS)) {
            @for attempt in policy.schedule.attempts.iter().take(drawn) { (band(index, color, attempt)) }
        }
    };
    let mut legend: Vec<_> = policies
        .iter()
        .zip(POLICY_COLORS)
        .map(|(policy, color)| (LegendKey::Area(color, "band"), policy.name.clone()))
        .collect();
    legend.push((LegendKey::Tick("ink"), "median; earliest to latest".to_owned()));
    let which = if longest > drawn { format!("first {drawn} ") } else { String::new() };
    let title = format!("When the {which}attempts of one message are made");
    plot.draw_figure(title, "if all fail", &bands, &format!("time since the first failure, {unit}"), &legend)
}

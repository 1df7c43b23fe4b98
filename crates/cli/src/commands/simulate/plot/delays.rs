//! The processing delay of messages by send time, separately for groups affected by the fault and for other groups.

use maud::html;
use redeliver_sim::planner::{DelaysByGroup, Forecast, LongestDelays, ScenarioGroups};

use super::axis::{column_outline, column_seconds, time_axis};
use redeliver_operator::markup::chart::{Axis, Figure, LegendKey, Plot};
use redeliver_operator::terminal::units::{as_float, format_count};

const HEIGHT: f64 = 150.0;
const DOWN: &str = "s5";
const UP: &str = "s1";

/// Returns one figure per policy, all with the same axes, or nothing if the scenario has no groups.
pub(super) fn delay_figures(forecast: &Forecast) -> Vec<Figure> {
    let Some(ScenarioGroups { count, down }) = forecast.scenario.groups else { return Vec::new() };
    let by_group = || {
        let policies = forecast.policies.iter();
        policies.filter_map(|policy| Some((&policy.name, policy.outcome.measured.by_group.as_ref()?)))
    };
    let longest = || by_group().flat_map(|(_, groups)| [&groups.up_longest, &groups.down_longest]);
    let end = longest().map(LongestDelays::last_second).max().unwrap_or(0) + 1;
    let most = longest().map(|delays| delays.longest_delay_within(0..end)).max().unwrap_or(0);
    let (x, unit) = time_axis(end);
    let (y, delay_unit) = time_axis(most.div_ceil(1000));
    let plot = Plot { x, y: Axis { has_lines: true, ..y }, height: HEIGHT };
    let note = format!("{delay_unit} from the send, the longest of each {} s", column_seconds(end));
    let below = format!("time of the send, {unit} since the first message");
    let [with, without] = [down, count - down].map(|groups| format_count(groups.into(), "group"));
    let mut legend = vec![(LegendKey::Area(DOWN, ""), format!("{with} with the fault"))];
    if count > down {
        legend.push((LegendKey::Line(UP, ""), format!("{without} without it")));
    }
    let figure = |(name, by_group): (&String, &DelaysByGroup)| {
        let stairs = |delays: &LongestDelays| {
            column_outline(end, |range| as_float(delays.longest_delay_within(range)) / 1000.0)
        };
        let drawn = html! {
            (plot.draw_area(DOWN, stairs(&by_group.down_longest)))
            @if count > down { (plot.draw_line(UP, stairs(&by_group.up_longest))) }
        };
        plot.draw_figure(
            format!("Time until a message is processed: {name}"),
            note.clone(),
            &drawn,
            &below,
            &legend,
        )
    };
    by_group().map(figure).collect()
}

//! The time that messages took, by the time of their send: those of the groups that meet the fault, and the others.

use maud::html;
use redeliver_sim::planner::{ByGroup, Forecast, Groups, LongestDelays};

use super::axis::{column_seconds, outline, time};
use redeliver_operator::markup::chart::{Axis, Figure, Key, Plot};
use redeliver_operator::terminal::units::{counted, float};

const HEIGHT: f64 = 150.0;
const DOWN: &str = "s5";
const UP: &str = "s1";

/// A figure for each policy, all with the same axes, if there are groups.
pub(super) fn figures(forecast: &Forecast) -> Vec<Figure> {
    let Some(Groups { count, down }) = forecast.scenario.groups else { return Vec::new() };
    let by_group = || {
        let policies = forecast.policies.iter();
        policies.filter_map(|policy| Some((&policy.name, policy.outcome.measured.by_group.as_ref()?)))
    };
    let longest = || by_group().flat_map(|(_, groups)| [&groups.up_longest, &groups.down_longest]);
    let end = longest().map(LongestDelays::last_second).max().unwrap_or(0) + 1;
    let most = longest().map(|delays| delays.within(0..end)).max().unwrap_or(0);
    let (x, unit) = time(end);
    let (y, delay_unit) = time(most.div_ceil(1000));
    let plot = Plot { x, y: Axis { has_lines: true, ..y }, height: HEIGHT };
    let note = format!("{delay_unit} from the send, the longest of each {} s", column_seconds(end));
    let below = format!("time of the send, {unit} since the first message");
    let [with, without] = [down, count - down].map(|groups| counted(groups.into(), "group"));
    let mut legend = vec![(Key::Area(DOWN, ""), format!("{with} with the fault"))];
    if count > down {
        legend.push((Key::Line(UP, ""), format!("{without} without it")));
    }
    let figure = |(name, by_group): (&String, &ByGroup)| {
        let stairs = |delays: &LongestDelays| outline(end, |range| float(delays.within(range)) / 1000.0);
        let drawn = html! {
            (plot.area(DOWN, stairs(&by_group.down_longest)))
            @if count > down { (plot.line(UP, stairs(&by_group.up_longest))) }
        };
        plot.figure(
            format!("Time until a message is processed: {name}"),
            note.clone(),
            &drawn,
            &below,
            &legend,
        )
    };
    by_group().map(figure).collect()
}

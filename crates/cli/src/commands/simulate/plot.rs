//! The charts of the forecast: delays by group, load on the target, schedule and survival.

mod axis;
mod backlog;
mod delays;
mod load;
mod schedule;
mod survival;

use redeliver_sim::planner::Forecast;

use axis::POLICY_COLORS;
use redeliver_operator::markup::chart::Figure;

/// Maximum number of policies that can be distinguished in one picture.
pub(super) const POLICIES_MAX: usize = POLICY_COLORS.len();

pub(super) fn forecast_figures(forecast: &Forecast) -> Vec<Figure> {
    let mut figures = delays::delay_figures(forecast);
    figures.extend(load::load_figures(forecast));
    figures.extend(backlog::backlog_figures(forecast));
    figures.extend([schedule::schedule_figure(forecast), survival::survival_figure(forecast)]);
    figures
}

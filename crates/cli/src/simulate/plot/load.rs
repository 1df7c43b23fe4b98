//! Calls of the target over time: what failed on top of what succeeded.

use plotters::prelude::*;

use super::axis::{self, Unit};
use super::legend::{self, Mark};
use super::{Area, Drawn, INK, POLICIES, QUIET, beside_legend, chart, small};
use crate::people::grouped;
use crate::simulate::Second;
use crate::simulate::report::{PolicyReport, Report};
use crate::simulate::schedule::float;

/// Columns at most; of the seconds in a column the busiest is drawn.
const COLUMNS: u64 = 200;
const SUCCEEDED: RGBColor = POLICIES[0];
const FAILED: RGBColor = POLICIES[4];

pub(super) fn draw(area: &Area<'_>, report: &Report, policy: &PolicyReport) -> Drawn {
    // The same axes for all policies, or they could not be compared.
    let end = report.policies.iter().map(|policy| policy.load.last_second() + 1).max().unwrap_or(1);
    let most = report.policies.iter().map(|policy| policy.load.busiest(0..end).calls).max().unwrap_or(1);
    let unit = Unit::of(end);
    let top = float(most.max(1)) * 1.05;
    let (area, beside) = beside_legend(area);
    let mut chart = chart(&area, format_args!("Load on the target: {}", policy.name))
        .build_cartesian_2d(0.0..unit.from(end), 0.0..top)?;
    if let Some(seconds) = report.scenario.outage_seconds {
        let corners = [(0.0, 0.0), (unit.from(seconds.min(end)), top)];
        chart.draw_series([Rectangle::new(corners, QUIET.mix(0.6).filled())])?;
    }
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(QUIET.mix(0.8))
        .axis_style(INK.mix(0.5))
        .label_style(small())
        .x_desc(format!("time since the first message, {}", unit.name))
        .y_desc("calls per second")
        .y_labels(5)
        .x_labels(10)
        .x_label_formatter(&|at| axis::short(*at))
        .y_label_formatter(&|calls| grouped(format!("{calls:.0}").parse().unwrap_or(0)))
        .draw()?;
    let width = end.div_ceil(COLUMNS);
    let columns: Vec<_> = (0..end.div_ceil(width))
        .map(|column| (column * width, policy.load.busiest(column * width..(column + 1) * width)))
        .collect();
    let stairs = |height: fn(&Second) -> u64| {
        let columns = columns.iter().flat_map(|(from, second)| {
            let height = float(height(second));
            [(unit.from(*from), height), (unit.from((from + width).min(end)), height)]
        });
        [(0.0, 0.0)].into_iter().chain(columns).chain([(unit.from(end), 0.0)]).collect::<Vec<_>>()
    };
    chart.draw_series([
        Polygon::new(stairs(|second| second.calls), FAILED.filled()),
        Polygon::new(stairs(|second| second.succeeded), SUCCEEDED.filled()),
    ])?;
    let capacity = report.scenario.capacity_per_second.map(f64::from).filter(|capacity| *capacity <= top);
    if let Some(capacity) = capacity {
        let line = [(0.0, capacity), (unit.from(end), capacity)];
        chart.draw_series([PathElement::new(line, INK.stroke_width(2))])?;
    }
    let mut entries = vec![(Mark::Patch(FAILED.into()), "failed".to_owned())];
    entries.push((Mark::Patch(SUCCEEDED.into()), "succeeded".to_owned()));
    if report.scenario.outage_seconds.is_some() {
        entries.push((Mark::Patch(QUIET.mix(0.6)), "the target is down".to_owned()));
    }
    if capacity.is_some() {
        entries.push((Mark::Line(INK, 2), "the target's capacity".to_owned()));
    }
    if width > 1 {
        entries.push((Mark::Patch(TRANSPARENT), format!("(the busiest second of each {width})")));
    }
    legend::draw(&beside, &entries)
}

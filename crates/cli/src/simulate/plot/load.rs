//! Calls of the target over time: what failed on top of what succeeded.

use plotters::prelude::*;

use super::axis::{self, Unit};
use super::legend::{self, Mark};
use super::{Area, Drawn, INK, POLICIES, QUIET, Shape, small};
use crate::people::grouped;
use crate::simulate::Second;
use crate::simulate::report::Report;
use crate::simulate::schedule::float;
use crate::text::shortened;

const HEIGHT: u32 = 240;
/// Columns at most; of the seconds in a column the busiest is drawn.
const COLUMNS: u64 = 200;
const SUCCEEDED: RGBColor = POLICIES[0];
const FAILED: RGBColor = POLICIES[4];

/// Of the chart of the policy with this index.
pub(super) fn height(report: &Report, index: usize, shape: Shape) -> u32 {
    shape.height(HEIGHT, lines(report, index, shape))
}

/// All that a legend may have to say. It is the same for all policies: under one another, the first chart's is enough.
fn lines(report: &Report, index: usize, shape: Shape) -> u32 {
    if shape == Shape::Narrow && index > 0 {
        return 0;
    }
    let outage = u32::from(report.scenario.outage_seconds.is_some());
    let capacity = u32::from(report.scenario.capacity_per_second.is_some());
    2 + outage + capacity + u32::from(width(end(report)) > 1)
}

/// The same axes for all policies, or they could not be compared.
fn end(report: &Report) -> u64 {
    report.policies.iter().map(|policy| policy.load.last_second() + 1).max().unwrap_or(1)
}

/// Seconds of a column.
const fn width(end: u64) -> u64 {
    end.div_ceil(COLUMNS)
}

pub(super) fn draw(area: &Area<'_>, report: &Report, index: usize, shape: Shape) -> Drawn {
    let policy = &report.policies[index];
    let end = end(report);
    let most = report.policies.iter().map(|policy| policy.load.busiest(0..end).calls).max().unwrap_or(1);
    let unit = Unit::of(end);
    let top = float(most.max(1)) * 1.05;
    let (area, beside) = shape.split(area, lines(report, index, shape));
    let mut chart = shape
        .chart(&area, &format!("Load on the target: {}", shortened(&policy.name, shape.name_characters())))
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
        .y_labels(usize::try_from(most + 1).unwrap_or(5).min(5)) // whole calls: no mark between two
        .x_labels(shape.marks())
        .x_label_formatter(&|at| axis::short(*at))
        .y_label_formatter(&|calls| grouped(format!("{calls:.0}").parse().unwrap_or(0)))
        .draw()?;
    let width = width(end);
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
    if lines(report, index, shape) == 0 {
        return Ok(());
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
    legend::draw(&beside, shape, &entries)
}

//! Calls of the target over time: what failed on top of what succeeded.

use plotters::prelude::*;

use super::axis::Unit;
use super::{Area, Drawn, INK, POLICIES, QUIET, chart, small};
use crate::simulate::report::{PolicyReport, Report};
use crate::simulate::schedule::float;
use crate::text::grouped;

/// Columns at most; of the seconds in a column the busiest is drawn.
const COLUMNS: u64 = 240;
const SUCCEEDED: RGBColor = POLICIES[0];
const FAILED: RGBColor = POLICIES[4];

pub(super) fn draw(area: &Area<'_>, report: &Report, policy: &PolicyReport) -> Drawn {
    // The same axes for all policies, or they could not be compared.
    let end = report.policies.iter().map(|policy| policy.load.last_second() + 1).max().unwrap_or(1);
    let most =
        report.policies.iter().map(|policy| policy.load.busiest(0..end).calls).max().unwrap_or(1).max(1);
    let unit = Unit::of(end);
    let width = end.div_ceil(COLUMNS);
    let each =
        if width == 1 { "each second".to_owned() } else { format!("the busiest second of each {width}") };
    let top = float(most) * 1.12;
    let mut chart = chart(area, format_args!("Load on the target: {}", policy.name))
        .build_cartesian_2d(0.0..unit.from(end), 0.0..top)?;
    if let Some(seconds) = report.scenario.outage_seconds {
        let outage =
            Rectangle::new([(0.0, 0.0), (unit.from(seconds.min(end)), top)], QUIET.mix(0.6).filled());
        let drawn = chart.draw_series([outage])?;
        drawn.label("the target is down").legend(|at| patch(at, QUIET));
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
        .x_label_formatter(&|at| format!("{at:.0}"))
        .y_label_formatter(&|calls| grouped(format!("{calls:.0}").parse().unwrap_or(0)))
        .draw()?;
    let columns: Vec<_> = (0..end.div_ceil(width))
        .map(|column| (column * width, policy.load.busiest(column * width..(column + 1) * width)))
        .collect();
    let stairs = |height: fn(&super::super::Second) -> u64| {
        let columns = columns.iter();
        columns.flat_map(move |(from, second)| {
            let height = float(height(second));
            [(unit.from(*from), height), (unit.from((from + width).min(end)), height)]
        })
    };
    chart
        .draw_series(AreaSeries::new(stairs(|second| second.calls), 0.0, FAILED))?
        .label(format!("failed ({each})"))
        .legend(|at| patch(at, FAILED));
    chart
        .draw_series(AreaSeries::new(stairs(|second| second.succeeded), 0.0, SUCCEEDED))?
        .label("succeeded")
        .legend(|at| patch(at, SUCCEEDED));
    if let Some(most) = report.scenario.capacity_per_second.map(f64::from).filter(|most| *most <= top) {
        let line = [(0.0, most), (unit.from(end), most)];
        chart
            .draw_series(DashedLineSeries::new(line, 6, 4, INK.stroke_width(1)))?
            .label("the target's capacity")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], INK));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .label_font(small())
        .draw()?;
    Ok(())
}

fn patch((x, y): (i32, i32), colour: RGBColor) -> Rectangle<(i32, i32)> {
    Rectangle::new([(x, y - 6), (x + 16, y + 6)], colour.filled())
}

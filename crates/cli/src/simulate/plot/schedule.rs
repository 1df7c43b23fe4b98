//! When each attempt of one message comes: a band from the earliest to the latest, with the median.

use plotters::prelude::*;

use super::axis::{self, Marked, Unit};
use super::legend::{self, Mark};
use super::{Area, Drawn, INK, POLICIES, QUIET, Shape, small};
use crate::simulate::report::Report;
use crate::simulate::schedule::float;

/// Attempts that are drawn.
const ATTEMPTS: usize = 12;
/// Pixels of an attempt of a single policy, and of what is around all attempts: title and axis.
const ATTEMPT: u32 = 18;
const AROUND: u32 = 120;

pub(super) fn height(report: &Report, shape: Shape) -> u32 {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let policies = count(report.policies.len());
    // The bands of many policies are thinner, or nobody would see a picture of them as a whole.
    let attempt = (ATTEMPT * policies).min(12 + 8 * policies);
    shape.height(AROUND + (attempt * count(attempts(report))).max(8 * ATTEMPT), lines(report))
}

/// A line for each policy, and one for what is drawn.
fn lines(report: &Report) -> u32 {
    u32::try_from(report.policies.len()).unwrap_or(u32::MAX) + 1
}

fn attempts(report: &Report) -> usize {
    report.policies.iter().map(|policy| policy.schedule.len()).max().unwrap_or(0).min(ATTEMPTS)
}

pub(super) fn draw(area: &Area<'_>, report: &Report, shape: Shape) -> Drawn {
    let drawn = attempts(report);
    let shown = || report.policies.iter().map(|policy| policy.schedule.iter().take(drawn));
    let end = shown().flatten().map(|attempt| attempt.latest_seconds).max().unwrap_or(0).max(1);
    let unit = Unit::of(end);
    let is_all = report.policies.iter().all(|policy| policy.schedule.len() <= drawn);
    let which = if is_all { String::new() } else { format!("first {drawn} ") };
    let numbers: Vec<_> = (1..=drawn).map(|number| float(number as u64)).collect();
    let rows = float(drawn.max(1) as u64);
    let title = match shape {
        Shape::Wide => format!("When the {which}attempts of one message come, if all fail"),
        Shape::Narrow => format!("When the {which}attempts come"),
    };
    let (area, beside) = shape.split(area, lines(report));
    let mut chart = shape
        .chart(&area, &title)
        // The first attempt is at the top.
        .build_cartesian_2d(0.0..unit.from(end) * 1.02, Marked { range: rows + 0.5..0.5, marks: numbers })?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(QUIET.mix(0.8))
        .axis_style(INK.mix(0.5))
        .label_style(small())
        .x_desc(format!("time since the first failure, {}", unit.name))
        .y_desc("attempt")
        .x_labels(shape.marks())
        .x_label_formatter(&|at| axis::short(*at))
        .y_label_formatter(&|attempt| format!("{attempt:.0}"))
        .draw()?;
    let share = 0.8 / float(report.policies.len().max(1) as u64);
    let mut entries = Vec::new();
    for (index, ((policy, attempts), colour)) in (0..).zip(report.policies.iter().zip(shown()).zip(POLICIES))
    {
        for attempt in attempts {
            let top = f64::from(attempt.attempt) - 0.4 + share * float(index);
            let bottom = top + share * 0.9;
            let [from, median, to] =
                [attempt.earliest_seconds, attempt.median_seconds, attempt.latest_seconds]
                    .map(|seconds| unit.from(seconds));
            chart.draw_series([Rectangle::new([(from, top), (to, bottom)], colour.mix(0.45).filled())])?;
            chart
                .draw_series([PathElement::new([(median, top), (median, bottom)], colour.stroke_width(3))])?;
        }
        entries.push((Mark::Patch(colour.mix(0.45)), policy.name.clone()));
    }
    entries.push((Mark::Tick(INK), "median; the band: earliest to latest".to_owned()));
    legend::draw(&beside, shape, &entries)
}

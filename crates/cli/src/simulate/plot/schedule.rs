//! When each attempt of one message comes: a band from the earliest to the latest, with the median.

use plotters::prelude::*;

use super::axis::{Marked, Unit};
use super::{Area, Drawn, INK, POLICIES, QUIET, chart, small};
use crate::simulate::report::Report;
use crate::simulate::schedule::float;

/// Attempts that are drawn.
const ATTEMPTS: usize = 12;
const ROW: u32 = 20;
/// Title, axis and legend.
const AROUND: u32 = 130;

pub(super) fn height(report: &Report) -> u32 {
    let rows = u32::try_from(attempts(report) * report.policies.len().max(1)).unwrap_or(u32::MAX);
    AROUND + ROW * rows.max(3)
}

fn attempts(report: &Report) -> usize {
    report.policies.iter().map(|policy| policy.schedule.len()).max().unwrap_or(0).min(ATTEMPTS)
}

pub(super) fn draw(area: &Area<'_>, report: &Report) -> Drawn {
    let rows = attempts(report);
    let latest =
        report.policies.iter().filter_map(|policy| policy.schedule[..policy.schedule.len().min(rows)].last());
    let end = latest.map(|attempt| attempt.latest_seconds).max().unwrap_or(0).max(1);
    let unit = Unit::of(end);
    let is_all = report.policies.iter().all(|policy| policy.schedule.len() <= rows);
    let which = if is_all { String::new() } else { format!("the first {rows} ") };
    let rows = float(rows as u64);
    let mut chart = chart(area, format_args!("When {which}attempts of one message come, if all fail"))
        // The first attempt is at the top.
        .build_cartesian_2d(
            0.0..unit.from(end) * 1.02,
            Marked { range: rows.max(1.0) + 0.5..0.5, marks: numbers(rows) },
        )?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(QUIET.mix(0.8))
        .axis_style(INK.mix(0.5))
        .label_style(small())
        .x_desc(format!("time since the first failure, {}", unit.name))
        .y_desc("attempt")
        .x_labels(10)
        .x_label_formatter(&|at| format!("{at:.0}"))
        .y_label_formatter(&|attempt| format!("{attempt:.0}"))
        .draw()?;
    let share = 0.8 / float(report.policies.len().max(1) as u64);
    for ((index, policy), colour) in (0_u64..).zip(&report.policies).zip(POLICIES) {
        let told = policy.schedule.iter().take(ATTEMPTS);
        let bands = told.clone().map(|at| {
            let top = f64::from(at.attempt) - 0.4 + share * float(index);
            let [from, to] = [at.earliest_seconds, at.latest_seconds].map(|seconds| unit.from(seconds));
            // What has but one moment is still to be seen.
            let least = unit.from(end) / 250.0;
            Rectangle::new(
                [(from, top), (to.max(from + least), top + share * 0.9)],
                colour.mix(0.45).filled(),
            )
        });
        chart
            .draw_series(bands)?
            .label(format!("{}: earliest to latest", policy.name))
            .legend(move |(x, y)| Rectangle::new([(x, y - 6), (x + 16, y + 6)], colour.mix(0.45).filled()));
        let medians = told.map(|at| {
            let top = f64::from(at.attempt) - 0.4 + share * float(index);
            let median = unit.from(at.median_seconds);
            PathElement::new([(median, top), (median, top + share * 0.9)], colour.stroke_width(3))
        });
        chart
            .draw_series(medians)?
            .label("median")
            .legend(move |(x, y)| PathElement::new([(x + 8, y - 6), (x + 8, y + 6)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .label_font(small())
        .draw()?;
    Ok(())
}

fn numbers(rows: f64) -> Vec<f64> {
    std::iter::successors(Some(1.0), |number| Some(number + 1.0))
        .take_while(|number| *number <= rows)
        .collect()
}

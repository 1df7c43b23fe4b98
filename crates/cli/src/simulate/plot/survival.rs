//! The chance to survive, by the length of the outage.

use plotters::prelude::*;

use super::axis::{Marked, label};
use super::legend::{self, Mark};
use super::{Area, Drawn, INK, POLICIES, QUIET, Shape, small};
use crate::simulate::Survival;
use crate::simulate::report::Report;
use crate::simulate::schedule::float;

const HEIGHT: u32 = 320;
/// Points of a curve.
const POINTS: u64 = 120;
/// 1 minute to 24 hours, on a scale where each doubling is as wide.
const SHORTEST: f64 = 60.0;
const LONGEST: f64 = 86_400.0;
const MARKS: [f64; 11] =
    [60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0, 86_400.0];
const FEW_MARKS: [f64; 5] = [60.0, 600.0, 3600.0, 14_400.0, 86_400.0];

pub(super) fn height(report: &Report, shape: Shape) -> u32 {
    shape.height(HEIGHT, lines(report))
}

/// A line for each policy, two for the strokes, and one for the outage.
fn lines(report: &Report) -> u32 {
    let policies = u32::try_from(report.policies.len()).unwrap_or(u32::MAX);
    policies + 2 + u32::from(report.scenario.outage_seconds.is_some())
}

pub(super) fn draw(area: &Area<'_>, report: &Report, shape: Shape) -> Drawn {
    let (from, to) = (SHORTEST.ln(), LONGEST.ln());
    let marks = match shape {
        Shape::Wide => MARKS.to_vec(),
        Shape::Narrow => FEW_MARKS.to_vec(),
    };
    let marks = marks.into_iter().map(f64::ln).collect();
    let (area, beside) = shape.split(area, lines(report));
    let mut chart = shape
        .chart(&area, "Chance that a message survives an outage")
        .build_cartesian_2d(Marked { range: from..to, marks }, 0.0..104.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(QUIET.mix(0.8))
        .axis_style(INK.mix(0.5))
        .label_style(small())
        .x_desc("length of the outage")
        .y_desc("chance, %")
        .x_label_formatter(&|at| label(at.exp().round()))
        .y_labels(6)
        .y_label_formatter(&|chance| format!("{chance:.0}"))
        .draw()?;
    let mut entries = Vec::new();
    if let Some(seconds) = report.scenario.outage_seconds.map(float) {
        let at = seconds.clamp(SHORTEST, LONGEST).ln();
        chart.draw_series([PathElement::new([(at, 0.0), (at, 100.0)], INK.stroke_width(1))])?;
        entries.push((Mark::Tick(INK), "the outage of the scenario".to_owned()));
    }
    entries.push((Mark::Line(INK, 3), "fails first at any moment of it".to_owned()));
    entries.push((Mark::Line(INK, 1), "fails first at its beginning".to_owned()));
    let places: Vec<_> =
        (0..=POINTS).map(|point| from + (to - from) * float(point) / float(POINTS)).collect();
    for (policy, colour) in report.policies.iter().zip(POLICIES) {
        let survivals: Vec<_> =
            places.iter().map(|at| (*at, Survival::of(&policy.distribution, seconds(at.exp())))).collect();
        let at_any = survivals.iter().map(|(at, survival)| (*at, survival.at_a_random_moment * 100.0));
        chart.draw_series(LineSeries::new(at_any, colour.stroke_width(3)))?;
        entries.push((Mark::Line(colour, 3), policy.name.clone()));
        let at_beginning = survivals.iter().map(|(at, survival)| (*at, survival.from_its_beginning * 100.0));
        chart.draw_series(LineSeries::new(at_beginning, colour.stroke_width(1)))?;
    }
    legend::draw(&beside, shape, &entries)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 minute to 24 hours")]
fn seconds(length: f64) -> u64 {
    length.round() as u64
}

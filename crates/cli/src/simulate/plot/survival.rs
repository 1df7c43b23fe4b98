//! The chance to survive, by the length of the outage.

use plotters::prelude::*;

use super::axis::{Marked, label};
use super::{Area, Drawn, INK, POLICIES, QUIET, chart, small};
use crate::simulate::Survival;
use crate::simulate::report::Report;
use crate::simulate::schedule::float;

/// Points of a curve.
const POINTS: u64 = 160;
/// 1 minute to 24 hours, on a scale where each doubling is as wide.
const SHORTEST: f64 = 60.0;
const LONGEST: f64 = 86_400.0;
const TOLD: [f64; 11] =
    [60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0, 86_400.0];

pub(super) fn draw(area: &Area<'_>, report: &Report) -> Drawn {
    let (from, to) = (SHORTEST.ln(), LONGEST.ln());
    let mut chart = chart(area, "Chance that a message survives an outage")
        .build_cartesian_2d(Marked { range: from..to, marks: TOLD.map(f64::ln).to_vec() }, 0.0..104.0)?;
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
    if let Some(seconds) = report.scenario.outage_seconds.map(float) {
        let at = seconds.clamp(SHORTEST, LONGEST).ln();
        chart
            .draw_series(DashedLineSeries::new([(at, 0.0), (at, 100.0)], 6, 4, INK.stroke_width(1)))?
            .label("the outage of the scenario")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], INK));
    }
    let lengths = (0..=POINTS).map(|point| from + (to - from) * float(point) / float(POINTS));
    let lengths: Vec<_> = lengths.map(|length| (length, seconds(length.exp()))).collect();
    for (policy, colour) in report.policies.iter().zip(POLICIES) {
        let survivals: Vec<_> =
            lengths.iter().map(|(at, seconds)| (*at, Survival::of(&policy.distribution, *seconds))).collect();
        chart
            .draw_series(LineSeries::new(
                survivals.iter().map(|(at, survival)| (*at, survival.at_a_random_moment * 100.0)),
                colour.stroke_width(3),
            ))?
            .label(format!("{}: first failure at a random moment of it", policy.name))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(3)));
        chart
            .draw_series(DashedLineSeries::new(
                survivals.iter().map(|(at, survival)| (*at, survival.from_its_beginning * 100.0)),
                3,
                4,
                colour.stroke_width(2),
            ))?
            .label("at its beginning")
            .legend(move |(x, y)| {
                let dashes = [(x, y), (x + 4, y), (x + 8, y), (x + 12, y), (x + 16, y)];
                PathElement::new(dashes, colour.mix(0.6).stroke_width(1))
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .label_font(small())
        .draw()?;
    Ok(())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 minute to 24 hours")]
fn seconds(length: f64) -> u64 {
    length.round() as u64
}

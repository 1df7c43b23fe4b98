//! Axes whose marks are given, and units of time.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::Ranged;

/// A linear axis with marks at given values.
pub(super) struct Marked {
    pub(super) range: Range<f64>,
    pub(super) marks: Vec<f64>,
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        #[expect(clippy::cast_possible_truncation, reason = "pixels")]
        let pixels = (share * f64::from(limit.1 - limit.0)).round() as i32;
        limit.0 + pixels
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) seconds: f64,
}

impl Unit {
    /// The unit in which a span is a number of at most three digits, more or less.
    pub(super) fn of(span_seconds: u64) -> Self {
        let (name, seconds) = match span_seconds {
            0..=180 => ("seconds", 1.0),
            181..=14_400 => ("minutes", 60.0),
            14_401..=259_200 => ("hours", 3600.0),
            _ => ("days", 86_400.0),
        };
        Self { name, seconds }
    }

    pub(super) fn from(self, seconds: u64) -> f64 {
        crate::simulate::schedule::float(seconds) / self.seconds
    }
}

/// `7.5`, `20`: marks are round numbers, except for what adding them up left.
pub(super) fn short(mark: f64) -> String {
    format!("{}", (mark * 100.0).round() / 100.0)
}

/// `1 min`, `24 h`.
pub(super) fn label(seconds: f64) -> String {
    if seconds < 3600.0 { format!("{:.0} min", seconds / 60.0) } else { format!("{:.0} h", seconds / 3600.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_the_unit_that_fits() {
        let names = [60, 600, 14_400, 86_400, 1_209_600].map(|seconds| Unit::of(seconds).name);
        assert_eq!(names, ["seconds", "minutes", "minutes", "hours", "days"]);
        assert_eq!(Unit::of(600).from(90), 1.5);
        assert_eq!([60.0, 1800.0, 3600.0, 86_400.0].map(label), ["1 min", "30 min", "1 h", "24 h"]);
    }
}

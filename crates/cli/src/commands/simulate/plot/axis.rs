//! Colors and time axes of the charts.

use std::ops::Range;

use redeliver_operator::markup::chart::{Axis, Scale, fit_scale};
use redeliver_operator::terminal::units::as_float;

/// The colors that distinguish the policies.
pub(super) const POLICY_COLORS: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];

/// Returns a time axis and its unit, chosen so that the largest number on the axis has about three digits at most.
pub(super) fn time_axis(end_seconds: u64) -> (Axis, &'static str) {
    let (unit, seconds) = match end_seconds {
        0..=180 => ("seconds", 1),
        181..=14_400 => ("minutes", 60),
        14_401..=259_200 => ("hours", 3600),
        _ => ("days", 86_400),
    };
    let Scale { step, steps } = fit_scale(end_seconds.div_ceil(seconds), 8);
    let marks = (0..=steps).map(|index| index * step).filter(|mark| mark * seconds <= end_seconds);
    let marks = marks.map(|mark| (as_float(mark * seconds), mark.to_string())).collect();
    (Axis { from: 0.0, to: as_float(end_seconds.max(1)), marks, has_lines: false }, unit)
}

/// Maximum number of columns; each column shows the maximum over its seconds.
pub(super) const COLUMNS: u64 = 200;

/// Returns the number of seconds per column.
pub(super) const fn column_seconds(end_seconds: u64) -> u64 {
    end_seconds.div_ceil(COLUMNS)
}

/// Returns the outline of the columns up to the end; `largest` returns the maximum over a range of seconds.
pub(super) fn column_outline(end_seconds: u64, largest: impl Fn(Range<u64>) -> f64) -> Vec<(f64, f64)> {
    let width = column_seconds(end_seconds);
    let columns = (0..end_seconds.div_ceil(width)).flat_map(|column| {
        let (from, to) = (column * width, (column + 1) * width);
        let height = largest(from..to);
        [from, to.min(end_seconds)].map(|at| (as_float(at), height))
    });
    [(0.0, 0.0)].into_iter().chain(columns).chain([(as_float(end_seconds), 0.0)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_unit_fits_the_axis_length() {
        let units = [60, 600, 14_400, 86_400, 1_209_600].map(|seconds| time_axis(seconds).1);
        assert_eq!(units, ["seconds", "minutes", "minutes", "hours", "days"]);
        let (axis, _) = time_axis(630);
        let marks = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|minutes| (minutes * 60.0, minutes.to_string()));
        assert_eq!((axis.marks, axis.to), (marks.to_vec(), 630.0));
    }
}

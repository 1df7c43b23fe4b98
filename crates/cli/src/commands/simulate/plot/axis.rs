//! Colours and time axes of the charts.

use redeliver_operator::markup::chart::{Axis, scale};
use redeliver_operator::terminal::units::float;

/// The colours of the policies.
pub(super) const POLICY_COLOURS: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];

/// An axis of seconds, with marks in a unit in which the end has about three digits at most; also returns that unit.
pub(super) fn time(end_seconds: u64) -> (Axis, &'static str) {
    let (unit, seconds) = match end_seconds {
        0..=180 => ("seconds", 1),
        181..=14_400 => ("minutes", 60),
        14_401..=259_200 => ("hours", 3600),
        _ => ("days", 86_400),
    };
    let (step, steps) = scale(end_seconds.div_ceil(seconds), 8);
    let marks = (0..=steps).map(|index| index * step).filter(|mark| mark * seconds <= end_seconds);
    let marks = marks.map(|mark| (float(mark * seconds), mark.to_string())).collect();
    (Axis { from: 0.0, to: float(end_seconds.max(1)), marks, has_lines: false }, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_fits_the_span() {
        let units = [60, 600, 14_400, 86_400, 1_209_600].map(|seconds| time(seconds).1);
        assert_eq!(units, ["seconds", "minutes", "minutes", "hours", "days"]);
        let (axis, _) = time(630);
        let marks = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|minutes| (minutes * 60.0, minutes.to_string()));
        assert_eq!((axis.marks, axis.to), (marks.to_vec(), 630.0));
    }
}

//! The charts: load on the target, schedule and survival, as a picture or on a page.

mod load;
mod schedule;
mod survival;

use std::path::{Path, PathBuf};

use redeliver_dead_letters::files::{check_directory, publish};

use super::page;
use crate::files::FileError;
use crate::markup::chart::{Axis, Figure, picture, scale};
use crate::people::float;
use redeliver_sim::planner::Forecast;

/// One for each policy.
const POLICIES: [&str; 6] = ["s1", "s2", "s3", "s4", "s5", "s6"];
/// Policies that can be distinguished in one picture.
pub(super) const POLICIES_MAX: usize = POLICIES.len();

/// Where the picture goes, and as what.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    path: PathBuf,
    is_page: bool,
}

impl Picture {
    /// By the name's ending.
    pub(super) fn at(path: &Path) -> Result<Self, FileError> {
        let is_page = match path.extension().and_then(|ending| ending.to_str()) {
            Some("svg") => false,
            Some("html") => true,
            _ => return Err(FileError::new(path, "a picture's name ends in .svg or .html")),
        };
        // After minutes of simulation it would be too late.
        check_directory(path)?;
        Ok(Self { path: path.to_owned(), is_page })
    }

    pub(super) fn write(&self, forecast: &Forecast) -> Result<(), FileError> {
        let figures = figures(forecast);
        let content = if self.is_page { page::of(forecast, &figures) } else { picture(&figures) };
        publish(&self.path, content.as_bytes())
    }
}

pub(super) fn figures(forecast: &Forecast) -> Vec<Figure> {
    let mut figures = load::figures(forecast);
    figures.extend([schedule::figure(forecast), survival::figure(forecast)]);
    figures
}

/// An axis of seconds, marked in the unit in which the whole is a number of at most three digits, more or less; that
/// unit.
fn time(end_seconds: u64) -> (Axis, &'static str) {
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
    fn a_span_is_told_in_the_unit_that_fits() {
        let units = [60, 600, 14_400, 86_400, 1_209_600].map(|seconds| time(seconds).1);
        assert_eq!(units, ["seconds", "minutes", "minutes", "hours", "days"]);
        let (axis, _) = time(630);
        let marks = [0.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|minutes| (minutes * 60.0, minutes.to_string()));
        assert_eq!((axis.marks, axis.to), (marks.to_vec(), 630.0));
    }
}

//! What the core costs in instructions, counted by callgrind and compared with committed figures. Unlike time they are the
//! same in every run, so that more of them is a failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::bundle::bundle_costs;
use crate::tools::{Failure, output, root, side_by_side};

/// The figures, by case.
const FIGURES: &str = "tests/costs/instructions.toml";
/// Runs of a case that are counted, after one that is not.
const TIMES: u64 = 20;
/// What is counted: the function of the program with this in its name, and all that it calls.
const COUNTED: &str = "--toggle-collect=costs::counted*";

#[derive(Deserialize)]
pub(crate) struct Figures {
    /// The most that a hostile message may cost.
    pub(crate) hostile_max: u64,
    /// What is neither a failure nor worth a word.
    tolerance_percent: u64,
    /// The compiler that they were counted with.
    rustc: String,
    instructions: BTreeMap<String, u64>,
}

/// Whether instructions can be counted here; if not, what to do about it.
pub(crate) fn tools() -> Result<(), Failure> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err(Failure("the figures are those of x86-64 Linux; run it there".to_owned()));
    }
    let version = output(Command::new("valgrind").arg("--version"));
    version.map(drop).map_err(|_| Failure("install Valgrind (the command `valgrind`)".to_owned()))
}

/// Counts, prints and compares.
pub(crate) fn check() -> Result<(), Failure> {
    let figures = figures()?;
    let program = bundle_costs()?;
    let mut worse = Vec::new();
    let cases: Vec<_> = figures.instructions.iter().collect();
    let counts = side_by_side(&cases, |(case, _)| count(&program, &["count", case, &TIMES.to_string()]));
    for ((case, figure), counted) in cases.into_iter().zip(counts) {
        let counted = counted? / TIMES;
        let verdict = Verdict::of(counted, *figure, figures.tolerance_percent);
        println!("{counted:>12} for {figure:>12}  {case}{}", verdict.words());
        if verdict == Verdict::More {
            worse.push(case.as_str());
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    let rustc = output(Command::new("rustc").arg("--version"))?;
    Err(Failure(format!(
        "more instructions than {FIGURES} has (counted with {}, this is {}): {}; find what costs, or raise the figure and say why",
        figures.rustc,
        rustc.trim(),
        worse.join("; ")
    )))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Same,
    More,
    Less,
}

impl Verdict {
    fn of(counted: u64, figure: u64, tolerance_percent: u64) -> Self {
        let tolerance = figure * tolerance_percent / 100;
        if counted > figure + tolerance {
            Self::More
        } else if counted < figure - tolerance {
            Self::Less
        } else {
            Self::Same
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Same => "",
            Self::More => "  MORE",
            Self::Less => "  less: lower the figure",
        }
    }
}

pub(crate) fn figures() -> Result<Figures, Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure(format!("{FIGURES}: {error}"));
    let text = fs::read_to_string(root().join(FIGURES)).map_err(|error| failure(&error))?;
    toml::from_str(&text).map_err(|error| failure(&error))
}

/// The instructions of what is counted in one run of the program with these arguments.
pub(crate) fn count(program: &Path, arguments: &[&str]) -> Result<u64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED, "--log-fd=1"]);
    let report = output(valgrind.arg(program).args(arguments))?;
    let count = collected(&report).filter(|count| *count > 0);
    count.ok_or_else(|| Failure(format!("callgrind has counted nothing of {arguments:?}:\n{report}")))
}

/// `==PID== Collected : 4665597`.
fn collected(report: &str) -> Option<u64> {
    let (_, count) = report.lines().find_map(|line| line.split_once("Collected : "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_than_the_tolerance_is_a_failure() {
        assert_eq!(Verdict::of(1030, 1000, 3), Verdict::Same);
        assert_eq!(Verdict::of(1031, 1000, 3), Verdict::More);
        assert_eq!(Verdict::of(970, 1000, 3), Verdict::Same);
        assert_eq!(Verdict::of(969, 1000, 3), Verdict::Less);
    }

    #[test]
    fn the_count_is_read_from_callgrinds_report() {
        assert_eq!(collected("==7== Events    : Ir\n==7== Collected : 4665597\n==7== \n"), Some(4_665_597));
        assert_eq!(collected("==7== Collected :\n"), None);
    }

    #[test]
    fn the_committed_figures_can_be_read() {
        assert!(!figures().unwrap().instructions.is_empty());
    }
}

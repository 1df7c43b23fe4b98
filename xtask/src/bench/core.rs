//! `cargo xtask bench core`: measures the cost of a message in the core, as messages and bytes per second and relative
//! to the speed at which `serde_json` skims the same body.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::{format_rate, median};
use crate::tools::{TaskFailure, cargo_command, command_output, target_dir};

/// Each round measures every case once, so that other load on the machine affects all compared cases.
const ROUNDS: usize = 7;
/// Many short samples: the median sample has the processor to itself even on a shared machine.
const ARGUMENTS: [&str; 7] =
    ["--noplot", "--warm-up-time", "0.1", "--measurement-time", "0.25", "--sample-size", "60"];
/// The case that the others are compared with.
const SKIM: &str = "serde_json skims";

/// The file that Criterion writes for a case.
#[derive(Deserialize)]
struct Benchmark {
    function_id: String,
    throughput: Throughput,
}

#[derive(Deserialize)]
struct Throughput {
    #[serde(rename = "Bytes")]
    bytes: u64,
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    /// Nanoseconds per run.
    point_estimate: f64,
}

/// A measured case: the size of its message, and the time per run in each round.
#[derive(Debug, Default, PartialEq)]
struct MeasuredCase {
    bytes: u64,
    nanoseconds: Vec<f64>,
}

pub(super) fn bench_core() -> Result<(), TaskFailure> {
    let home = target_dir().join("criterion-core");
    let mut cases: BTreeMap<String, MeasuredCase> = BTreeMap::new();
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}");
        let mut bench = cargo_command(&["bench", "--package", "redeliver-costs", "--bench", "core", "--"]);
        // Criterion's own output covers only one round.
        command_output(bench.args(ARGUMENTS).env("CRITERION_HOME", &home))?;
        read_round(&home.join("core"), &mut cases)?;
    }
    print!("{}", render_table(&cases));
    Ok(())
}

fn read_round(directory: &Path, cases: &mut BTreeMap<String, MeasuredCase>) -> Result<(), TaskFailure> {
    let failure = |error: std::io::Error| TaskFailure(format!("{}: {error}", directory.display()));
    for case in fs::read_dir(directory).map_err(failure)? {
        let new = case.map_err(failure)?.path().join("new");
        if !new.exists() {
            continue; // Criterion's own summary
        }
        let benchmark: Benchmark = read_json(&new.join("benchmark.json"))?;
        let estimates: Estimates = read_json(&new.join("estimates.json"))?;
        let measured = cases.entry(benchmark.function_id).or_default();
        measured.bytes = benchmark.throughput.bytes;
        measured.nanoseconds.push(estimates.median.point_estimate);
    }
    Ok(())
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, TaskFailure> {
    let failure = |error: &dyn std::fmt::Display| TaskFailure(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failure(&error))?;
    serde_json::from_str(&text).map_err(|error| failure(&error))
}

/// Renders a line for each case. Cases are named `OPERATION, MESSAGE`.
fn render_table(cases: &BTreeMap<String, MeasuredCase>) -> String {
    let mut table =
        format!("\n{:<46} {:>12} {:>12} {:>16}\n", "", "messages/s", "bytes/s", "of skim's speed");
    for (name, case) in cases {
        let message = name.split_once(", ").map_or("", |(_, message)| message);
        let skimmed = cases.get(&format!("{SKIM}, {message}"));
        let shares = skimmed.map(|skimmed| {
            let rounds = skimmed.nanoseconds.iter().zip(&case.nanoseconds);
            median(rounds.map(|(skimmed, case)| skimmed / case).collect())
        });
        let per_second = 1e9 / median(case.nanoseconds.clone());
        let share = shares.map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
        #[expect(clippy::cast_precision_loss, reason = "a body has a mebibyte at most")]
        let bytes = format_rate(per_second * case.bytes as f64);
        table += &format!("{name:<46} {per_second:>12.0} {bytes:>12} {share:>16}\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_relative_to_skim_is_the_median_over_all_rounds() {
        let measured = |nanoseconds: &[f64]| MeasuredCase { bytes: 1000, nanoseconds: nanoseconds.to_vec() };
        let cases = BTreeMap::from([
            ("serde_json skims, small".to_owned(), measured(&[1000.0, 3000.0, 1000.0])),
            ("re-send, small".to_owned(), measured(&[2000.0, 6000.0, 4000.0])),
        ]);
        let table = render_table(&cases);
        let line = |name: &str| {
            let line = table.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().rev().take(5).collect::<Vec<_>>()
        };
        assert_eq!(line("re-send, small"), ["%", "50", "MB/s", "250", "250000"]);
        assert_eq!(line("serde_json skims, small"), ["%", "100", "MB/s", "1000", "1000000"]);
    }
}

//! `cargo xtask bench`: measures performance, mostly as a ratio to an alternative measured in the same run.

mod core;
mod storms;

use clap::ValueEnum;

use crate::bundle::{LambdaArchitecture, bundle_floor_function, bundle_functions};
use crate::functions;
use crate::instructions;
use crate::tools::{TaskFailure, cargo_command, run_command};
use crate::venv;

/// The subject of a measurement.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BenchSelection {
    /// `redeliver audit` on 10,000 messages, compared with a straightforward boto3 loop on the same emulator.
    Audit,
    /// One message in the core, from the received body to the re-sent body, compared with `serde_json` skimming it.
    Core,
    /// A retry and the worst known messages, in instructions, compared with their limits. The tests include this.
    Instructions,
    /// `redeliver simulate` with several policies: the load on a target that returns after an outage. Draws
    /// docs/storms.svg and docs/outage.svg.
    Storms,
    /// The functions' bundles: startup time, CPU time, memory, requests and bytes, compared with a minimal function and
    /// with Python.
    Functions,
}

/// Measures the subject and prints the result.
pub(crate) fn run_benchmark(what: BenchSelection) -> Result<(), TaskFailure> {
    match what {
        BenchSelection::Audit => bench_audit(),
        BenchSelection::Core => core::bench_core(),
        BenchSelection::Instructions => {
            instructions::require_tools().and_then(|()| instructions::check_counts())
        }
        BenchSelection::Storms => storms::bench_storms(),
        BenchSelection::Functions => measure_functions(),
    }
}

fn bench_audit() -> Result<(), TaskFailure> {
    venv::set_up(&venv::TESTS)?.require_environment()?;
    run_command(&mut cargo_command(&[
        "build",
        "--release",
        "--bin",
        "redeliver",
        "--bin",
        "scripted-processor",
    ]))?;
    run_command(&mut cargo_command(&["run", "--package", "redeliver-tests", "--bin", "bench-audit"]))
}

fn measure_functions() -> Result<(), TaskFailure> {
    venv::set_up(&venv::TESTS)?.require_environment()?;
    bundle_functions(LambdaArchitecture::HOST)?;
    bundle_floor_function(LambdaArchitecture::HOST)?;
    functions::JAVA.build_if_changed()?;
    functions::GO.build_if_changed()?;
    run_command(&mut cargo_command(&["run", "--bin", "bench-functions"]))
}

/// Returns the median; for an even number of values, the upper of the two middle ones.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Formats a rate in bytes per second as megabytes per second.
fn format_rate(bytes: f64) -> String {
    format!("{:.0} MB/s", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_ignores_outliers() {
        assert_eq!(median(vec![3.0, 1000.0, 1.0]), 3.0);
        assert_eq!(format_rate(307_200_000.0), "307 MB/s");
    }
}

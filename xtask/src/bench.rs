//! `cargo xtask bench`: figures as ratios, measured in one run.

mod core;
mod storms;

use clap::ValueEnum;

use crate::bundle::{LambdaArchitecture, bundle_floor, bundle_functions};
use crate::functions;
use crate::instructions;
use crate::tools::{TaskFailure, cargo_command, run_command};
use crate::venv;

/// The subject of a measurement.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BenchSelection {
    /// `redeliver audit` on 10,000 messages, and a straightforward boto3 loop on the same emulator.
    Audit,
    /// One message in the core, from its received body to the body that is sent again, and `serde_json` that skims it.
    Core,
    /// A retry, and the worst messages that we know, in instructions and with their limits. The tests do it too.
    Instructions,
    /// `redeliver simulate` with several policies: what hits a target when it returns after an outage. Draws docs/storms.svg and docs/outage.svg.
    Storms,
    /// The functions' bundles: start, CPU, memory, requests and bytes, beside the least that a function can be and beside Python.
    Functions,
}

/// Measures and prints.
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
    bundle_floor(LambdaArchitecture::HOST)?;
    functions::JAVA.build_if_changed()?;
    functions::GO.build_if_changed()?;
    run_command(&mut cargo_command(&["run", "--bin", "bench-functions"]))
}

/// The one in the middle; of an even number the upper one.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The number of bytes in megabytes.
fn bytes_a_second(bytes: f64) -> String {
    format!("{:.0} MB/s", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_ignores_outliers() {
        assert_eq!(median(vec![3.0, 1000.0, 1.0]), 3.0);
        assert_eq!(bytes_a_second(307_200_000.0), "307 MB/s");
    }
}

//! `cargo xtask bench`: figures as ratios, measured in one run.

mod core;
mod storms;

use clap::ValueEnum;

use crate::bundle::{Architecture, bundle, bundle_floor};
use crate::functions;
use crate::instructions;
use crate::tools::{Failure, cargo, run};
use crate::venv;

/// The subject of a measurement.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Bench {
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
pub(crate) fn bench(what: Bench) -> Result<(), Failure> {
    match what {
        Bench::Audit => audit(),
        Bench::Core => core::core(),
        Bench::Instructions => instructions::tools().and_then(|()| instructions::check()),
        Bench::Storms => storms::storms(),
        Bench::Functions => measure_functions(),
    }
}

fn audit() -> Result<(), Failure> {
    venv::set_up(&venv::TESTS)?.required()?;
    run(&mut cargo(&["build", "--release", "--bin", "redeliver", "--bin", "scripted-processor"]))?;
    run(&mut cargo(&["run", "--package", "redeliver-tests", "--bin", "bench-audit"]))
}

fn measure_functions() -> Result<(), Failure> {
    venv::set_up(&venv::TESTS)?.required()?;
    bundle(Architecture::HOST)?;
    bundle_floor(Architecture::HOST)?;
    functions::JAVA.build()?;
    functions::GO.build()?;
    run(&mut cargo(&["run", "--bin", "bench-functions"]))
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
    fn a_median_is_not_moved_by_what_is_far_off() {
        assert_eq!(median(vec![3.0, 1000.0, 1.0]), 3.0);
        assert_eq!(bytes_a_second(307_200_000.0), "307 MB/s");
    }
}

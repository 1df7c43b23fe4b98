//! `cargo xtask bench`: figures as ratios, measured in one run.

use clap::ValueEnum;

use crate::bundle::{Architecture, bundle, bundle_floor};
use crate::tools::{Failure, cargo, run};
use crate::venv;

/// What is measured.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Bench {
    /// `redeliver audit` on 10,000 messages, and a straightforward boto3 loop on the same emulator.
    Audit,
    /// The functions' bundles: start, CPU, memory, requests and bytes, beside the least that a function can be and beside Python.
    Functions,
}

/// Measures and prints.
pub(crate) fn bench(what: Bench) -> Result<(), Failure> {
    match what {
        Bench::Audit => audit(),
        Bench::Functions => functions(),
    }
}

fn audit() -> Result<(), Failure> {
    venv::set_up(&venv::TESTS)?.required()?;
    run(&mut cargo(&["build", "--release", "--bin", "redeliver", "--bin", "scripted-processor"]))?;
    run(&mut cargo(&["run", "--package", "redeliver-tests", "--bin", "bench-audit"]))
}

fn functions() -> Result<(), Failure> {
    venv::set_up(&venv::TESTS)?.required()?;
    bundle(Architecture::HOST)?;
    bundle_floor(Architecture::HOST)?;
    run(&mut cargo(&["run", "--bin", "bench-functions"]))
}

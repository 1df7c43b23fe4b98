//! `cargo xtask bench`: figures as ratios, measured in one run.

mod storms;

use clap::ValueEnum;

use crate::tools::{Failure, cargo, run};
use crate::venv;

/// What is measured.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Bench {
    /// `redeliver audit` on 10,000 messages, and a straightforward boto3 loop on the same emulator.
    Audit,
    /// `redeliver simulate` with several policies: what hits a target when it returns after ten minutes. Draws docs/storms.svg.
    Storms,
}

/// Measures and prints.
pub(crate) fn bench(what: Bench) -> Result<(), Failure> {
    match what {
        Bench::Audit => audit(),
        Bench::Storms => storms::storms(),
    }
}

fn audit() -> Result<(), Failure> {
    venv::set_up(&venv::TESTS)?.required()?;
    run(&mut cargo(&["build", "--release", "--bin", "redeliver", "--bin", "scripted-processor"]))?;
    run(&mut cargo(&["run", "--package", "redeliver-tests", "--bin", "bench-audit"]))
}

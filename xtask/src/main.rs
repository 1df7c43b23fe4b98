//! `cargo xtask`: the project's own tasks.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod report;
mod test;
mod tools;
mod venv;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::tools::{Failure, cargo, run};

/// The project's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all tests: format, lints, unit, property, conformance, end to end, documentation, README.
    ///
    /// Sets up what it needs: a Python environment under target/ with pinned packages, one release build. With the
    /// variable CI set, nothing may be skipped but what tests/known-skips.toml lists.
    Test,
    /// Run the end-to-end tests alone; arguments go to the test program, e.g. a part of a test's name.
    E2e {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the conformance suite against Amazon SQS, in your account: creates queues, sends a few hundred messages, and
    /// deletes the queues at the end.
    Conformance {
        /// The profile of your AWS configuration.
        #[arg(long)]
        profile: String,
        /// The region, if not the profile's.
        #[arg(long)]
        region: Option<String>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        Task::Test => test::all(),
        Task::E2e { arguments } => test::end_to_end(&arguments),
        Task::Conformance { profile, region } => conformance(&profile, region.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn conformance(profile: &str, region: Option<&str>) -> Result<(), Failure> {
    let mut command = cargo(&["run", "--bin", "conformance", "--", "--profile", profile]);
    command.args(region.into_iter().flat_map(|region| ["--region", region]));
    run(&mut command)
}

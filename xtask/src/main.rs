//! `cargo xtask`: the project's own tasks.
#![expect(clippy::print_stdout, reason = "a command-line tool")]

mod bench;
mod beside;
mod bundle;
mod containers;
mod copy;
mod dist;
mod docs;
mod faults;
mod functions;
mod fuzz;
mod glibc;
mod guarantees;
mod instructions;
mod judged;
#[cfg(test)]
mod layers;
mod mutants;
mod npm;
mod packages;
mod readme;
mod release;
mod report;
mod sizes;
mod stack;
mod supply_chain;
mod system_packages;
mod test;
mod tools;
mod venv;
mod words;
mod workflows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::{BenchSelection, run_benchmark};
use crate::bundle::{LambdaArchitecture, bundle_functions};
use crate::tools::{TaskFailure, cargo_command, run_command};

/// The project's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Run all tests: format, lints, unit, property, conformance, end to end, documentation, README.
    ///
    /// Sets up what it needs: a Python environment under target/ with pinned packages, the bundles. With the variable CI
    /// set, only what tests/known-skips.toml lists may be skipped.
    Test {
        /// Only what needs no bundle, no emulator and no browser, for the time between two commits.
        #[arg(long)]
        quick: bool,
        /// Only one part, for a machine of its own.
        #[arg(long, value_enum, conflicts_with = "quick")]
        part: Option<test::TestPart>,
    },
    /// Run the tests of the stack in infra/ alone.
    Stack,
    /// Run the end-to-end tests alone; arguments go to the test program, e.g. a part of a test's name.
    E2e {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Fuzz what takes bytes from strangers: every target of tests/fuzz in turn, three minutes in all.
    ///
    /// Example: `cargo xtask fuzz --seconds 600 envelope`
    Fuzz(fuzz::Arguments),
    /// Install AWS's own runtime for Node.js, in which the end-to-end tests run functions, and build those in Java and Go.
    Runtimes,
    /// Build the functions for Lambda, as `target/lambda/FUNCTION/bootstrap`, with a pinned cargo-lambda.
    ///
    /// For arm64, which is the stack's default too: `rustup target add aarch64-unknown-linux-gnu` once.
    Bundle {
        /// Build for x86-64; the stack needs `--context architecture=x86-64` then.
        #[arg(long = "x86-64")]
        x86_64: bool,
    },
    /// Pack what others install into target/dist/, with SHA256SUMS: everything, or only what is named.
    ///
    /// For the construct, docs/api.md is written again, too. Example: `cargo xtask dist functions command-line`
    Dist {
        /// The artefacts; all of them if none is named.
        #[arg(value_enum)]
        artefacts: Vec<dist::Artefact>,
    },
    /// Unpack and install the command line from target/dist/, and run the README's main job, check, audit and the console.
    TryCommandLine,
    /// Make a Homebrew formula and winget manifests in target/dist/ from a release's archives.
    ///
    /// Example: `cargo xtask installers parts OWNER/redeliver`
    Installers {
        /// The folder with the archives of all systems.
        parts: PathBuf,
        /// The repository on GitHub.
        repository: String,
    },
    /// Run the pinned CDK on the stack in infra/: deploy, diff, destroy, bootstrap ...
    ///
    /// Example: `cargo xtask cdk deploy --context target=https://orders.example.com/hook`
    ///
    /// A deployment that would replace or remove a queue is refused, unless `--allow-queue-replacement` is among the arguments.
    /// Since a deployment may resume a paused stack, the command asks first; without a terminal it needs `--allow-resume`.
    /// If the account has too little concurrency, it says what to ask for.
    Cdk {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<String>,
    },
    /// Deploy the stack to an AWS emulator on this machine, print the queues' URLs, and take it all down at the end.
    ///
    /// Example: `cargo xtask deploy-local --target http://127.0.0.1:8000/orders --context policy=examples/policy.json`
    DeployLocal {
        /// Passed on: --help lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the real code in virtual time under seeded faults, watched by an independent ledger.
    ///
    /// Examples: `cargo xtask faults --seeds 1000`, `cargo xtask faults --seconds 300`, `cargo xtask faults --changes 4000000`,
    /// `cargo xtask faults --seed 42` (one seed again, with all its knobs).
    Faults {
        /// Plant known bugs into a copy of the sources instead, one at a time, and demand that each is caught.
        #[arg(long, conflicts_with = "arguments")]
        planted: bool,
        /// Passed on: --seeds, --changes, --seconds, --first-seed, --seed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Change code in small ways, one at a time, and demand that a unit test of its crate fails: cargo-mutants, for people.
    ///
    /// Each change takes a build and a run of the crate's tests: a few hundred in an hour.
    /// Examples: `cargo xtask mutants crates/core/src/decide/due.rs`, `cargo xtask mutants --since origin/main`
    Mutants(mutants::Arguments),
    /// Build the pages of docs/SUMMARY.md as a site, with a search: target/docs/site/index.html.
    ///
    /// The first time it compiles mdBook, which takes a minute or two.
    Docs,
    /// Write docs/guarantees/tests.md: the promises of tests/promises.toml with their tests.
    Guarantees,
    /// Build the public crates from their own tarballs, as crates.io would give them.
    Packages,
    /// Print a release's part of CHANGELOG.md, if its tag and all packages have the same version.
    ReleaseNotes {
        /// As in `v0.1.0`.
        tag: String,
    },
    /// Measure something against its like, in one run, and print the ratio.
    Bench {
        /// The subject.
        #[arg(value_enum)]
        what: BenchSelection,
    },
    /// Deploy to your AWS account under a name of its own, send messages every way, destroy it, and report: docs/smoke.md.
    ///
    /// Example: `cargo xtask smoke --profile sandbox --region eu-west-1`
    Smoke {
        /// Passed on: --help lists them.
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
        XtaskCommand::Test { quick: false, part } => test::run_tests(part),
        XtaskCommand::Test { quick: true, .. } => test::run_quick_tests(),
        XtaskCommand::Stack => test::run_stack_tests(),
        XtaskCommand::E2e { arguments } => test::end_to_end(&arguments),
        XtaskCommand::Fuzz(arguments) => fuzz::run_fuzzers(&arguments),
        XtaskCommand::Runtimes => test::run_runtime_tests(),
        XtaskCommand::Bundle { x86_64: false } => bundle_functions(LambdaArchitecture::Arm64),
        XtaskCommand::Bundle { x86_64: true } => bundle_functions(LambdaArchitecture::X86_64),
        XtaskCommand::Dist { artefacts } => dist::build_artefacts(&artefacts),
        XtaskCommand::TryCommandLine => dist::try_out(&tools::target_dir().join("dist")),
        XtaskCommand::Installers { parts, repository } => dist::installers(&parts, &repository),
        XtaskCommand::Cdk { arguments } => stack::run_cdk(&arguments),
        XtaskCommand::DeployLocal { arguments } => deploy_local(&arguments),
        XtaskCommand::Faults { planted: true, .. } => faults::run_planted(),
        XtaskCommand::Faults { planted: false, arguments } => faults::run_simulator(&arguments),
        XtaskCommand::Mutants(arguments) => mutants::run_mutants(&arguments),
        XtaskCommand::Docs => docs::build_docs(),
        XtaskCommand::Guarantees => guarantees::write_page(),
        XtaskCommand::Packages => packages::build_packages(),
        XtaskCommand::ReleaseNotes { tag } => release::release_notes(&tag),
        XtaskCommand::Bench { what } => run_benchmark(what),
        XtaskCommand::Smoke { arguments } => run_smoke(&arguments),
        XtaskCommand::Conformance { profile, region } => run_conformance(&profile, region.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(TaskFailure(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn deploy_local(arguments: &[String]) -> Result<(), TaskFailure> {
    run_deploying("deploy-local", arguments)
}

/// It runs the operator's own command, too.
fn run_smoke(arguments: &[String]) -> Result<(), TaskFailure> {
    run_command(&mut cargo_command(&["build", "--workspace", "--bin", "redeliver"]))?;
    run_deploying("smoke", arguments)
}

/// A program of the tests that deploys the stack of this machine's architecture.
fn run_deploying(program: &str, arguments: &[String]) -> Result<(), TaskFailure> {
    venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::set_up()?.required()?;
    bundle_functions(LambdaArchitecture::HOST)?;
    let mut command = cargo_command(&["run", "--package", "redeliver-tests", "--bin", program, "--"]);
    run_command(command.args(arguments))
}

fn run_conformance(profile: &str, region: Option<&str>) -> Result<(), TaskFailure> {
    let mut command = cargo_command(&["run", "--bin", "conformance", "--", "--profile", profile]);
    command.args(region.into_iter().flat_map(|region| ["--region", region]));
    run_command(&mut command)
}

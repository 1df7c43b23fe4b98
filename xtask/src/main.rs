//! `cargo xtask`: the project's tasks.
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
mod validated_requests;
mod venv;
mod words;
mod workflows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::{BenchSelection, run_benchmark};
use crate::bundle::{LambdaArchitecture, bundle_functions};
use crate::tools::{TaskFailure, cargo_command, run_command};

/// The project's tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Run all tests: format, lints, unit, property, conformance, end-to-end, documentation, README.
    ///
    /// Sets up its requirements: a Python environment under target/ with pinned packages, and the bundles. With the
    /// variable CI set, only the steps listed in tests/known-skips.toml may be skipped.
    Test {
        /// Run only the tests that need no bundle, no emulator and no browser, as a quick check between commits.
        #[arg(long)]
        quick: bool,
        /// Run only one part, so that the parts can run on separate machines.
        #[arg(long, value_enum, conflicts_with = "quick")]
        part: Option<test::TestPart>,
    },
    /// Run only the tests of the stack in infra/.
    Stack,
    /// Run only the end-to-end tests; arguments are passed to the test program, e.g. part of a test's name.
    E2e {
        /// Arguments for the test program.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Fuzz the parsers of untrusted input: every target in tests/fuzz in turn, for three minutes in total.
    ///
    /// Example: `cargo xtask fuzz --seconds 600 envelope`
    Fuzz(fuzz::Arguments),
    /// Install AWS's Node.js runtime for the functions in the end-to-end tests, and build those in Java and Go.
    Runtimes,
    /// Build the functions for Lambda, as `target/lambda/FUNCTION/bootstrap`, with a pinned cargo-lambda.
    ///
    /// The default is arm64, as in the stack. It needs `rustup target add aarch64-unknown-linux-gnu` once.
    Bundle {
        /// Build for x86-64; the stack then needs `--context architecture=x86-64`.
        #[arg(long = "x86-64")]
        x86_64: bool,
    },
    /// Pack the artifacts of a release into target/dist/, with SHA256SUMS: all of them, or only the named ones.
    ///
    /// For the construct, docs/api.md is also regenerated. Example: `cargo xtask dist functions command-line`
    Dist {
        /// Artifacts to pack; all by default.
        #[arg(value_enum)]
        artifacts: Vec<dist::Artifact>,
    },
    /// Unpack and install the command line from target/dist/, and run the README's main example, check, audit, console.
    TryCommandLine,
    /// Generate a Homebrew formula and winget manifests in target/dist/ from a release's archives.
    ///
    /// Example: `cargo xtask installers parts OWNER/redeliver`
    Installers {
        /// Folder with the archives for all systems.
        parts: PathBuf,
        /// GitHub repository, as OWNER/NAME.
        repository: String,
    },
    /// Run the pinned CDK on the stack in infra/: deploy, diff, destroy, bootstrap ...
    ///
    /// Example: `cargo xtask cdk deploy --context target=https://orders.example.com/hook`
    ///
    /// A deployment that would replace or remove a queue is refused unless the arguments include
    /// `--allow-queue-replacement`. Because a deployment can resume a paused stack, the command asks first; without a
    /// terminal, it requires `--allow-resume`. If the account has too little concurrency, it prints the quota to
    /// request.
    Cdk {
        /// Arguments for the CDK.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<String>,
    },
    /// Deploy the stack to an AWS emulator on this machine, print the queues' URLs, and remove everything at the end.
    ///
    /// Example: `cargo xtask deploy-local --target http://127.0.0.1:8000/orders --context policy=examples/policy.json`
    DeployLocal {
        /// Arguments for the program: --help lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the real code in virtual time under seeded faults, audited by an independent ledger.
    ///
    /// Examples: `cargo xtask faults --seeds 1000`, `cargo xtask faults --seconds 300`,
    /// `cargo xtask faults --changes 4000000`, `cargo xtask faults --seed 42` (replays one seed and prints its knobs).
    Faults {
        /// Plant known bugs in a copy of the sources, one at a time, and require that each is caught.
        #[arg(long, conflicts_with = "arguments")]
        planted: bool,
        /// Arguments for the simulator: --seeds, --changes, --seconds, --first-seed, --seed.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Make small code changes, one at a time, and require that a unit test of the crate fails, with cargo-mutants.
    ///
    /// Each change takes a build and a run of the crate's tests: a few hundred changes per hour.
    /// Examples: `cargo xtask mutants crates/core/src/decide/due.rs`, `cargo xtask mutants --since origin/main`
    Mutants(mutants::Arguments),
    /// Build the pages listed in docs/SUMMARY.md as a searchable site: target/docs/site/index.html.
    ///
    /// The first run compiles mdBook, which takes a minute or two.
    Docs,
    /// Write docs/guarantees/tests.md: the promises in tests/promises.toml with their tests.
    Guarantees,
    /// Build the public crates from their own tarballs, as crates.io would serve them.
    Packages,
    /// Print the section of CHANGELOG.md for a release, if its tag and all packages have the same version.
    ReleaseNotes {
        /// The tag, such as `v0.1.0`.
        tag: String,
    },
    /// Measure something and a comparable alternative in one run, and print the ratio.
    Bench {
        /// Subject of the measurement.
        #[arg(value_enum)]
        what: BenchSelection,
    },
    /// Deploy a separate stack to your AWS account, send messages every way, destroy it, and report: docs/smoke.md.
    ///
    /// Example: `cargo xtask smoke --profile sandbox --region eu-west-1`
    Smoke {
        /// Arguments for the program: --help lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run the conformance suite against Amazon SQS in your account: create queues, send a few hundred messages, and
    /// delete the queues at the end.
    Conformance {
        /// Profile in your AWS configuration.
        #[arg(long)]
        profile: String,
        /// Region; the profile's by default.
        #[arg(long)]
        region: Option<String>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().task {
        XtaskCommand::Test { quick: false, part } => test::run_tests(part),
        XtaskCommand::Test { quick: true, .. } => test::run_quick_tests(),
        XtaskCommand::Stack => test::run_stack_tests(),
        XtaskCommand::E2e { arguments } => test::run_end_to_end_tests(&arguments),
        XtaskCommand::Fuzz(arguments) => fuzz::run_fuzzers(&arguments),
        XtaskCommand::Runtimes => test::build_runtimes(),
        XtaskCommand::Bundle { x86_64: false } => bundle_functions(LambdaArchitecture::Arm64),
        XtaskCommand::Bundle { x86_64: true } => bundle_functions(LambdaArchitecture::X86_64),
        XtaskCommand::Dist { artifacts } => dist::build_artifacts(&artifacts),
        XtaskCommand::TryCommandLine => dist::try_out_packages(&tools::target_dir().join("dist")),
        XtaskCommand::Installers { parts, repository } => dist::installers(&parts, &repository),
        XtaskCommand::Cdk { arguments } => stack::run_cdk(&arguments),
        XtaskCommand::DeployLocal { arguments } => deploy_local(&arguments),
        XtaskCommand::Faults { planted: true, .. } => faults::check_planted_bugs(),
        XtaskCommand::Faults { planted: false, arguments } => faults::run_simulator(&arguments),
        XtaskCommand::Mutants(arguments) => mutants::run_mutants(&arguments),
        XtaskCommand::Docs => docs::build_docs(),
        XtaskCommand::Guarantees => guarantees::write_page(),
        XtaskCommand::Packages => packages::build_packages(),
        XtaskCommand::ReleaseNotes { tag } => release::print_release_notes(&tag),
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
    run_deployment_program("deploy-local", arguments)
}

/// Builds `redeliver`, which the smoke test also runs, and then runs the smoke test.
fn run_smoke(arguments: &[String]) -> Result<(), TaskFailure> {
    run_command(&mut cargo_command(&["build", "--workspace", "--bin", "redeliver"]))?;
    run_deployment_program("smoke", arguments)
}

/// Runs a test program that deploys the stack for this machine's architecture.
fn run_deployment_program(program: &str, arguments: &[String]) -> Result<(), TaskFailure> {
    venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::set_up()?.require_node()?;
    bundle_functions(LambdaArchitecture::HOST)?;
    let mut command = cargo_command(&["run", "--package", "redeliver-tests", "--bin", program, "--"]);
    run_command(command.args(arguments))
}

fn run_conformance(profile: &str, region: Option<&str>) -> Result<(), TaskFailure> {
    let mut command = cargo_command(&["run", "--bin", "conformance", "--", "--profile", profile]);
    command.args(region.into_iter().flat_map(|region| ["--region", region]));
    run_command(&mut command)
}

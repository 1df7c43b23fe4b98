//! `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::beside::BackgroundProcess;
use crate::bundle::{LambdaArchitecture, bundle_functions};
use crate::containers;
use crate::dist;
use crate::docs;
use crate::faults;
use crate::functions;
use crate::fuzz;
use crate::instructions;
use crate::npm::{self, NodeRuntime};
use crate::packages;
use crate::readme;
use crate::report::{StepReport, forget_skipped_tests};
use crate::sizes;
use crate::stack;
use crate::supply_chain;
use crate::system_packages;
use crate::tools::{
    TaskFailure, cargo_command, command_output, env_variable, run_command, target_dir, workspace_root,
};
use crate::validated_requests;
use crate::venv::{self, Python};
use crate::words;
use crate::workflows;

/// Arguments that build the tests and all programs that they run, except the bundles. `cargo test` uses the same
/// features, so nothing is compiled twice.
const TEST_BUILD: [&str; 7] =
    ["build", "--workspace", "--lib", "--bins", "--tests", "--examples", "--test=end_to_end"];
/// The number of queue changes that a simulation with fresh seeds must check. It is a count and not a duration, so that
/// a busy machine does the same amount of work as an idle one. docs/guarantees/tests.md shows this number.
pub(crate) const SIMULATION_CHANGES: u32 = 1_000_000;
/// The number of queue changes with `--quick`.
const QUICK_SIMULATION_CHANGES: u32 = 150_000;

/// A part of the tests that can run on a separate machine. The parts together cover all tests.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestPart {
    /// Format, lints, words, dependencies, packages, workflows, documentation.
    Lints,
    /// Unit, property and documentation tests, the loop in virtual time, the README's commands.
    Tests,
    /// The stack's tests.
    Stack,
    /// The bundles, their sizes and instruction counts, and the end-to-end tests on them.
    EndToEnd,
    /// Fresh seeds and planted bugs for the simulator, and fuzzing.
    Search,
}

/// Runs all tests, or one part. The tests that find the most bugs in the least time come first. Stops at the first
/// failure.
pub(crate) fn run_tests(part: Option<TestPart>) -> Result<(), TaskFailure> {
    run_with_report(|report| run_steps(report, part))?;
    println!("\n{} passed", if part.is_none() { "all tests" } else { "this part of the tests" });
    Ok(())
}

/// Runs the tests that `--quick` selects, which need no bundles and no other tools.
pub(crate) fn run_quick_tests() -> Result<(), TaskFailure> {
    run_with_report(|report| {
        report.run_step("format", check_format)?;
        report.run_step("words", words::check_words)?;
        report.run_step("build of the tests", || run_command(&mut cargo_command(&TEST_BUILD)))?;
        report.run_step("unit and property tests", || run_command(&mut cargo_command(&UNIT_TESTS)))?;
        report.run_step("the loop in virtual time, schemas", || {
            run_command(&mut cargo_command(&["test", "--workspace", "--test", "loop", "--test", "schemas"]))
        })?;
        report.run_step("simulation of fresh seeds", || {
            run_command(&mut faults::fresh_seeds_command(QUICK_SIMULATION_CHANGES))
        })
    })?;
    println!("\nthe quick tests passed; `cargo xtask test` runs all of them");
    Ok(())
}

fn run_with_report(
    steps: impl FnOnce(&mut StepReport) -> Result<(), TaskFailure>,
) -> Result<(), TaskFailure> {
    forget_skipped_tests();
    let mut report = StepReport::begin();
    let done = steps(&mut report);
    report.print_summary();
    done
}

/// Runs only the end-to-end tests.
pub(crate) fn run_end_to_end_tests(arguments: &[String]) -> Result<(), TaskFailure> {
    venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::set_up()?.require_node()?;
    npm::CONSOLE.install()?;
    build_runtimes()?;
    bundle_functions(LambdaArchitecture::HOST)?;
    run_command(&mut cargo_command(&TEST_BUILD))?;
    dist::pack_for_tests()?;
    validated_requests::clear_recorded_requests()?;
    run_command(
        raise_test_threads(&mut cargo_command(&["test", "--workspace", "--test", "end_to_end", "--"]))
            .args(arguments),
    )?;
    validated_requests::check_requests(arguments.is_empty())
}

fn run_steps(report: &mut StepReport, part: Option<TestPart>) -> Result<(), TaskFailure> {
    let is_selected = |wanted: TestPart| part.is_none_or(|part| part == wanted);
    let this_program = copy_this_program()?;
    report.run_step("system packages", system_packages::install_missing)?;
    if is_selected(TestPart::Lints) {
        report.run_step("format", check_format)?;
        report.run_step("words", words::check_words)?;
    }
    // Clippy runs while the Python and Node.js packages are fetched one by one.
    let clippy = is_selected(TestPart::Lints)
        .then(|| BackgroundProcess::start("lints", &clippy_command()))
        .transpose()?;
    let needs_packages = [TestPart::Lints, TestPart::Stack, TestPart::EndToEnd].into_iter().any(is_selected);
    let packages = if needs_packages { TestPackages::set_up(report)? } else { TestPackages::NOT_NEEDED };
    if is_selected(TestPart::Lints) {
        check_dependencies_and_manifests(report, &packages)?;
    }
    let site = is_selected(TestPart::Lints)
        .then(|| BackgroundProcess::start("docs", &task_command(&this_program, &["docs"])))
        .transpose()?;
    let end_to_end = is_selected(TestPart::EndToEnd)
        .then(|| EndToEndBuilds::start(report, &packages, &this_program))
        .transpose()?;
    if let Some(clippy) = clippy {
        report.finish_background_step("lints (in the background)", clippy)?;
        report.run_step("lints of the end-to-end tests", || run_command(&mut end_to_end_clippy_command()))?;
        match fuzz::require_compiler() {
            Ok(()) => report.run_step("lints of the fuzzer", || run_command(&mut fuzzer_clippy_command()))?,
            Err(TaskFailure(remedy)) => report.skip_step("lints of the fuzzer", &remedy)?,
        }
    }
    if [TestPart::Tests, TestPart::EndToEnd, TestPart::Search].into_iter().any(is_selected) {
        report.run_step("build of the tests", || run_command(&mut cargo_command(&TEST_BUILD)))?;
    }
    if is_selected(TestPart::Tests) {
        report
            .run_step("tests without other requirements", || run_command(&mut cargo_command(&PLAIN_TESTS)))?;
        report.run_step("documentation tests", || {
            run_command(&mut cargo_command(&["test", "--workspace", "--doc"]))
        })?;
        report.run_step("README commands", readme::run_commands)?;
    }
    if let Some(site) = site {
        report.finish_background_step("docs as a site (in the background)", site)?;
        check_links(report, &packages.python)?;
        report.run_step("documentation", || {
            run_command(doc_command().env("RUSTDOCFLAGS", "--deny warnings"))
        })?;
    }
    if is_selected(TestPart::Stack) {
        run_stack_test_step(report, &packages)?;
    }
    // Linking uses one processor, so the searches can use the others while the last bundle is linked.
    let mut searches =
        if is_selected(TestPart::Search) { start_simulations(&this_program)? } else { Vec::new() };
    let end_to_end = end_to_end.map(|started| started.finish_bundles(report)).transpose()?;
    if is_selected(TestPart::Search) {
        searches.extend(start_fuzzing(report, &this_program)?);
    }
    if let Some(end_to_end) = end_to_end {
        end_to_end.run_end_to_end_tests(report, &packages)?;
    }
    searches.into_iter().try_for_each(|(name, step)| report.finish_background_step(name, step))
}

/// The Python environment and the Node.js packages that the tests use.
struct TestPackages {
    python: Python,
    node: NodeRuntime,
}

impl TestPackages {
    const NOT_NEEDED: Self = {
        let remedy = "this part of the tests does not need it";
        Self { python: Python::Unavailable(remedy), node: NodeRuntime::Unavailable(remedy) }
    };

    fn set_up(report: &mut StepReport) -> Result<Self, TaskFailure> {
        let python = report.run_step("Python environment of the tests", || venv::set_up(&venv::TESTS))?;
        Ok(Self { python, node: report.run_step("Node.js packages of the stack", npm::set_up)? })
    }

    /// Returns the Python environment, or the remedy if Python or Node.js is unavailable.
    fn require_both(&self) -> Result<&Path, &'static str> {
        match (&self.python, &self.node) {
            (Python::Unavailable(remedy), _) | (_, NodeRuntime::Unavailable(remedy)) => Err(*remedy),
            (Python::Ready(venv), NodeRuntime::Ready) => Ok(venv),
        }
    }
}

/// Checks the dependencies, the packages, the GitHub workflows and issue forms, and the Kubernetes and ECS examples.
fn check_dependencies_and_manifests(
    report: &mut StepReport,
    packages: &TestPackages,
) -> Result<(), TaskFailure> {
    supply_chain::check_supply_chain(report, &packages.python)?;
    match &packages.node {
        NodeRuntime::Ready => report.run_step("stack types", stack::check_types)?,
        NodeRuntime::Unavailable(remedy) => report.skip_step("stack types", remedy)?,
    }
    report.run_step("packages of the public crates, and their Rust version", packages::check_packages)?;
    match packages.require_both() {
        Ok(venv) => report.run_step("workflows", || workflows::check_workflows(venv))?,
        Err(remedy) => report.skip_step("workflows", remedy)?,
    }
    match &packages.python {
        Python::Ready(venv) => report.run_step("container manifests", || containers::check_manifests(venv)),
        Python::Unavailable(remedy) => report.skip_step("container manifests", remedy),
    }
}

fn check_links(report: &mut StepReport, python: &Python) -> Result<(), TaskFailure> {
    match python {
        Python::Unavailable(remedy) => report.skip_step("links in the docs", remedy),
        Python::Ready(venv) => report.run_step("links in the docs", || docs::check_links(venv)),
    }
}

fn check_format() -> Result<(), TaskFailure> {
    run_command(&mut cargo_command(&["fmt", "--all", "--check"]))
}

fn clippy_command() -> Command {
    cargo_command(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
}

/// Returns the Clippy command for the end-to-end tests: `--all-targets` omits targets with `test = false`, and makes
/// Cargo ignore `--test`.
fn end_to_end_clippy_command() -> Command {
    cargo_command(&["clippy", "--workspace", "--test", "end_to_end", "--", "--deny", "warnings"])
}

/// Returns the Clippy command for the fuzzer: `--all-targets` omits a target whose required features are off.
fn fuzzer_clippy_command() -> Command {
    let fuzzer = ["clippy", "--bin", "fuzz", "--features", "redeliver-fuzz/libfuzzer"];
    cargo_command(&[&fuzzer[..], &["--", "--deny", "warnings"]].concat())
}

/// Returns the command that documents all crates. With `--examples`, Cargo selects the same features as for the tests,
/// so it can use the dependencies that were compiled for the lints.
fn doc_command() -> Command {
    cargo_command(&["doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples"])
}

/// The unit tests, except those of redeliver-costs: `--lib` would include its library, which contains modules from
/// crates/aws that are already tested in that crate.
const UNIT_TESTS: [&str; 6] = ["test", "--workspace", "--exclude", "redeliver-costs", "--lib", "--bins"];
/// The tests that `cargo test` runs in a fresh clone.
const PLAIN_TESTS: [&str; 7] =
    ["test", "--workspace", "--exclude", "redeliver-costs", "--lib", "--bins", "--tests"];

fn has_chromium() -> bool {
    command_output(Command::new("chromium").arg("--version")).is_ok()
}

/// Counts instructions in a program that is built with the same dependencies as the bundles.
fn count_instructions(report: &mut StepReport) -> Result<(), TaskFailure> {
    match instructions::require_tools() {
        Ok(()) => report
            .run_step("instruction counts of a retry and of hostile messages", instructions::check_counts),
        Err(TaskFailure(remedy)) => {
            report.skip_step("instruction counts of a retry and of hostile messages", &remedy)
        }
    }
}

/// The background builds of the programs that the end-to-end tests run; `None` if skipped.
struct EndToEndBuilds {
    runtimes: Option<BackgroundProcess>,
    bundles: Option<BackgroundProcess>,
}

impl EndToEndBuilds {
    fn start(
        report: &mut StepReport,
        packages: &TestPackages,
        this_program: &Path,
    ) -> Result<Self, TaskFailure> {
        let runtimes = start_runtimes(report, packages, this_program)?;
        // The bundles take longest to build, so the sooner they start, the less the other steps wait for them.
        Ok(Self { runtimes, bundles: start_bundles(report, &packages.python, this_program)? })
    }

    fn finish_bundles(self, report: &mut StepReport) -> Result<Self, TaskFailure> {
        if let Some(bundles) = self.bundles {
            report.finish_background_step("bundles (in the background)", bundles)?;
            report.run_step("sizes of the bundles", sizes::check_sizes)?;
            count_instructions(report)?;
        }
        Ok(Self { bundles: None, ..self })
    }

    fn run_end_to_end_tests(
        self,
        report: &mut StepReport,
        packages: &TestPackages,
    ) -> Result<(), TaskFailure> {
        if packages.require_both().is_ok() {
            report.run_step("release artifacts", dist::pack_for_tests)?;
        }
        let has_runtimes = self.runtimes.is_some();
        if let Some(runtimes) = self.runtimes {
            report.finish_background_step(
                "AWS's runtimes for Node.js, Java and Go (in the background)",
                runtimes,
            )?;
        }
        run_system_tests(report, packages, has_runtimes)
    }
}

/// Starts the build of the bundles, which the end-to-end tests run as Lambda does. It is the longest build, and Cargo
/// builds nothing else in its folder, so it runs in the background.
fn start_bundles(
    report: &mut StepReport,
    python: &Python,
    this_program: &Path,
) -> Result<Option<BackgroundProcess>, TaskFailure> {
    if let Python::Unavailable(remedy) = python {
        report.skip_step("bundles", remedy)?;
        return Ok(None);
    }
    // Both builds write to the same folder, so the one that can run on this machine comes last.
    let other = LambdaArchitecture::HOST.other();
    match other.require_target() {
        Ok(()) => report.run_step("bundles for the other architecture", || bundle_functions(other))?,
        Err(TaskFailure(remedy)) => report.skip_step(&format!("{} bundles", other.lambda_name()), &remedy)?,
    }
    let host = match LambdaArchitecture::HOST {
        LambdaArchitecture::Arm64 => &["bundle"][..],
        LambdaArchitecture::X86_64 => &["bundle", "--x86-64"],
    };
    BackgroundProcess::start("bundles", &task_command(this_program, host)).map(Some)
}

/// Starts the build of AWS's Node.js runtime, which takes a minute, and of the functions in Java and Go.
fn start_runtimes(
    report: &mut StepReport,
    packages: &TestPackages,
    this_program: &Path,
) -> Result<Option<BackgroundProcess>, TaskFailure> {
    if let Err(remedy) = packages.require_both().and_then(|_| npm::require_compiler()) {
        report.skip_step("functions in Node.js, Java and Go, in AWS's runtimes", remedy)?;
        return Ok(None);
    }
    BackgroundProcess::start("runtimes", &task_command(this_program, &["runtimes"])).map(Some)
}

/// Runs `cargo xtask runtimes`.
///
/// # Errors
/// A tool is missing, or npm, Maven or Go fails.
pub(crate) fn build_runtimes() -> Result<(), TaskFailure> {
    functions::JAVA.build_if_changed()?;
    functions::GO.build_if_changed()?;
    venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::require_compiler().map_err(|remedy| TaskFailure(remedy.to_owned()))?;
    npm::RUNTIME.install()
}

/// Copies this program for the tasks that run in the background, because the build of the tests replaces the original.
fn copy_this_program() -> Result<PathBuf, TaskFailure> {
    let copied = || {
        let folder = target_dir().join("beside");
        fs::create_dir_all(&folder)?;
        // A copy from an earlier run might still be running: a running program can be replaced, but not overwritten.
        let (new, copy) = (folder.join("xtask.new"), folder.join("xtask"));
        fs::copy(std::env::current_exe()?, &new)?;
        fs::rename(new, &copy)?;
        Ok(copy)
    };
    copied().map_err(|error: std::io::Error| TaskFailure(format!("a copy of this program: {error}")))
}

/// Returns the command that runs a task in a separate process of this program.
fn task_command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace_root());
    command
}

/// Runs only the tests of the stack.
pub(crate) fn run_stack_tests() -> Result<(), TaskFailure> {
    let venv = venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::set_up()?.require_node()?;
    stack::check_types()?;
    stack::test_stack(Some(&venv))
}

fn run_stack_test_step(report: &mut StepReport, packages: &TestPackages) -> Result<(), TaskFailure> {
    let venv = match (&packages.python, &packages.node) {
        (_, NodeRuntime::Unavailable(remedy)) => return report.skip_step("tests of the stack", remedy),
        (Python::Unavailable(remedy), NodeRuntime::Ready) => {
            report.skip_step("cfn-lint on the stack", remedy)?;
            None
        }
        (Python::Ready(venv), NodeRuntime::Ready) => Some(venv.as_path()),
    };
    report.run_step("tests of the stack", || stack::test_stack(venv))
}

/// A running search: its name in the report and its process.
type Search = (&'static str, BackgroundProcess);

fn start_simulations(this_program: &Path) -> Result<Vec<Search>, TaskFailure> {
    let planted = BackgroundProcess::start("planted", &task_command(this_program, &["faults", "--planted"]))?;
    let fresh_seeds =
        BackgroundProcess::start("simulation", &faults::fresh_seeds_command(SIMULATION_CHANGES))?;
    Ok(vec![
        ("bugs planted for the simulator (in the background)", planted),
        ("simulation of fresh seeds (in the background)", fresh_seeds),
    ])
}

/// Starts fuzzing. It stops after a fixed time, so it must run while the other steps wait for queues and leave the
/// processors idle.
fn start_fuzzing(report: &mut StepReport, this_program: &Path) -> Result<Option<Search>, TaskFailure> {
    if let Err(TaskFailure(remedy)) = fuzz::require_compiler() {
        report.skip_step("fuzzing", &remedy)?;
        return Ok(None);
    }
    let fuzzing = BackgroundProcess::start("fuzzing", &task_command(this_program, &["fuzz"]))?;
    Ok(Some(("fuzzing (in the background)", fuzzing)))
}

/// An ignored test that writes files instead of testing anything.
const WRITES_DOCUMENTS: &str = "write_wire_documents";

/// Runs the end-to-end tests and all ignored tests. The path of a test names the emulator, browser or language that the
/// test needs, so that the test can be skipped if that is missing.
fn run_system_tests(
    report: &mut StepReport,
    packages: &TestPackages,
    has_runtimes: bool,
) -> Result<(), TaskFailure> {
    let mut skipped = Vec::new();
    if let Python::Unavailable(remedy) = packages.python {
        report
            .skip_step("tests on ministack, moto and aws-lambda-rie, and of functions in Python", remedy)?;
        skipped.extend(["ministack", "moto", "lambda_rie", "own_function", "terminal"]);
    }
    if let NodeRuntime::Unavailable(remedy) = packages.node {
        report.skip_step("tests of a deployment and its permissions", remedy)?;
        skipped.extend(["deployment", "moto"]);
    }
    if !has_runtimes {
        skipped.extend(["::node", "::java", "::go::"]);
    }
    for (name, tests, functions) in
        [("functions in Java", "::java", functions::JAVA), ("functions in Go", "::go::", functions::GO)]
    {
        if let Err(remedy) = functions.require_tools() {
            report.skip_step(name, remedy)?;
            skipped.push(tests);
        }
    }
    if !has_chromium() {
        report.skip_step("pages in a browser", "install Chromium (the command `chromium`)")?;
        skipped.push("chromium");
    }
    match packages.node {
        NodeRuntime::Ready if has_chromium() => {
            report.run_step("browser driver", || npm::CONSOLE.install())?
        }
        _ => skipped.push("console::browser"),
    }
    if let Err(TaskFailure(remedy)) = containers::require_tools() {
        report.skip_step("the container image", &remedy)?;
        skipped.extend(["work::image", "work::manifests"]);
    }
    validated_requests::clear_recorded_requests()?;
    let skips: Vec<_> = skipped.iter().flat_map(|name| ["--skip", name]).collect();
    report.run_step("tests that need Python or a browser", || {
        run_command(
            raise_test_threads(&mut cargo_command(&PLAIN_TESTS))
                .args(["--", "--ignored", "--skip", WRITES_DOCUMENTS])
                .args(&skips),
        )
    })?;
    report.run_step("end-to-end tests", || {
        let mut tests = cargo_command(&["test", "--workspace", "--test", "end_to_end", "--"]);
        run_command(raise_test_threads(&mut tests).args(&skips))
    })?;
    report.run_step("requests validated against AWS's models", || {
        validated_requests::check_requests(packages.require_both().is_ok())
    })
}

/// Allows more tests than processors to run at the same time, because these tests mostly wait for queues.
fn raise_test_threads(command: &mut Command) -> &mut Command {
    command.env("RUST_TEST_THREADS", env_variable("RUST_TEST_THREADS").unwrap_or_else(|| "8".into()))
}

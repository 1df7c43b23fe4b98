//! `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::beside::Beside;
use crate::bundle::{LambdaArchitecture, bundle_functions};
use crate::containers;
use crate::dist;
use crate::docs;
use crate::faults;
use crate::functions;
use crate::fuzz;
use crate::instructions;
use crate::judged;
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
use crate::venv::{self, Python};
use crate::words;
use crate::workflows;

/// The tests, and all programs that they run except the bundles. One build: `cargo test` takes the same features for it.
const TEST_BUILD: [&str; 7] =
    ["build", "--workspace", "--lib", "--bins", "--tests", "--examples", "--test=end_to_end"];
/// Queue changes that fresh seeds must check: the same work on a busy machine. docs/guarantees/tests.md shows it.
pub(crate) const SIMULATION_CHANGES: u32 = 1_000_000;
/// … and in the inner loop.
const QUICK_SIMULATION_CHANGES: u32 = 150_000;

/// A part of the tests, for a machine of its own. All of them together are all tests.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestPart {
    /// Format, lints, words, dependencies, packages, workflows, documentation.
    Lints,
    /// Unit, property and documentation tests, the loop in virtual time, the README's commands.
    Tests,
    /// The stack's tests.
    Stack,
    /// The bundles, their sizes and instructions, and the end-to-end tests on them.
    EndToEnd,
    /// Fresh seeds and planted bugs for the simulator, and fuzzing.
    Search,
}

/// Runs all tests, or one part: those that find most in the least time come first. Stops at the first failure.
pub(crate) fn run_tests(part: Option<TestPart>) -> Result<(), TaskFailure> {
    run_reported(|report| run_steps(report, part))?;
    println!("\n{} passed", if part.is_none() { "all tests" } else { "this part of the tests" });
    Ok(())
}

/// For the inner loop: what needs nothing that is not compiled already.
pub(crate) fn run_quick_tests() -> Result<(), TaskFailure> {
    run_reported(|report| {
        report.run_step("format", check_format)?;
        report.run_step("words", words::check_words)?;
        report.run_step("build of the tests", || run_command(&mut cargo_command(&TEST_BUILD)))?;
        report.run_step("unit and property tests", || run_command(&mut cargo_command(&UNIT_TESTS)))?;
        report.run_step("the loop in virtual time, schemas", || {
            run_command(&mut cargo_command(&["test", "--workspace", "--test", "loop", "--test", "schemas"]))
        })?;
        report.run_step("simulation of fresh seeds", || {
            run_command(&mut faults::fresh_seeds(QUICK_SIMULATION_CHANGES))
        })
    })?;
    println!("\nthe quick tests passed; `cargo xtask test` runs all of them");
    Ok(())
}

fn run_reported(steps: impl FnOnce(&mut StepReport) -> Result<(), TaskFailure>) -> Result<(), TaskFailure> {
    forget_skipped_tests();
    let mut report = StepReport::begin();
    let done = steps(&mut report);
    report.print_summary();
    done
}

/// The end-to-end tests alone.
pub(crate) fn end_to_end(arguments: &[String]) -> Result<(), TaskFailure> {
    venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::set_up()?.required()?;
    npm::CONSOLE.install()?;
    run_runtime_tests()?;
    bundle_functions(LambdaArchitecture::HOST)?;
    run_command(&mut cargo_command(&TEST_BUILD))?;
    dist::for_tests()?;
    judged::forget_requests()?;
    run_command(
        raise_test_threads(&mut cargo_command(&["test", "--workspace", "--test", "end_to_end", "--"]))
            .args(arguments),
    )?;
    judged::check_requests(arguments.is_empty())
}

fn run_steps(report: &mut StepReport, part: Option<TestPart>) -> Result<(), TaskFailure> {
    let wants = |wanted: TestPart| part.is_none_or(|part| part == wanted);
    let this_program = this_program()?;
    report.run_step("packages of the system", system_packages::install_missing)?;
    if wants(TestPart::Lints) {
        report.run_step("format", check_format)?;
        report.run_step("words", words::check_words)?;
    }
    // The packages of Python and Node.js are fetched meanwhile, one by one.
    let clippy = wants(TestPart::Lints).then(|| Beside::start("lints", &clippy_command())).transpose()?;
    let needs_packages = [TestPart::Lints, TestPart::Stack, TestPart::EndToEnd].into_iter().any(wants);
    let packages = if needs_packages { TestPackages::set_up(report)? } else { TestPackages::NOT_NEEDED };
    if wants(TestPart::Lints) {
        check_published(report, &packages)?;
    }
    let site = wants(TestPart::Lints)
        .then(|| Beside::start("docs", &task_command(&this_program, &["docs"])))
        .transpose()?;
    let end_to_end =
        wants(TestPart::EndToEnd).then(|| EndToEnd::start(report, &packages, &this_program)).transpose()?;
    if let Some(clippy) = clippy {
        report.finish_beside("lints (beside the steps before)", clippy)?;
    }
    if [TestPart::Tests, TestPart::EndToEnd, TestPart::Search].into_iter().any(wants) {
        report.run_step("build of the tests", || run_command(&mut cargo_command(&TEST_BUILD)))?;
    }
    if wants(TestPart::Tests) {
        report.run_step("tests that need nothing else", || run_command(&mut cargo_command(&PLAIN_TESTS)))?;
        report.run_step("documentation tests", || {
            run_command(&mut cargo_command(&["test", "--workspace", "--doc"]))
        })?;
        report.run_step("README commands", readme::run_commands)?;
    }
    if let Some(site) = site {
        report.finish_beside("docs as a site (beside the steps before)", site)?;
        check_links(report, &packages.python)?;
        report.run_step("documentation", || {
            run_command(doc_command().env("RUSTDOCFLAGS", "--deny warnings"))
        })?;
    }
    if wants(TestPart::Stack) {
        stack_tests(report, &packages)?;
    }
    // A link takes one processor: when the last bundle is linked, this has the other one.
    let mut searches = if wants(TestPart::Search) { start_search(&this_program)? } else { Vec::new() };
    let end_to_end = end_to_end.map(|started| started.finish_bundles(report)).transpose()?;
    if wants(TestPart::Search) {
        searches.extend(start_fuzzing(report, &this_program)?);
    }
    if let Some(end_to_end) = end_to_end {
        end_to_end.run_end_to_end(report, &packages)?;
    }
    searches.into_iter().try_for_each(|(name, step)| report.finish_beside(name, step))
}

/// The packages of Python and Node.js.
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

    /// The Python environment, or the remedy if either has no packages.
    fn require_both(&self) -> Result<&Path, &'static str> {
        match (&self.python, &self.node) {
            (Python::Unavailable(remedy), _) | (_, NodeRuntime::Unavailable(remedy)) => Err(*remedy),
            (Python::Ready(venv), NodeRuntime::Ready) => Ok(venv),
        }
    }
}

/// Dependencies, packages, the workflows and forms of GitHub, the examples for Kubernetes and ECS.
fn check_published(report: &mut StepReport, packages: &TestPackages) -> Result<(), TaskFailure> {
    supply_chain::check_supply_chain(report, &packages.python)?;
    match &packages.node {
        NodeRuntime::Ready => report.run_step("types of the stack", stack::check_types)?,
        NodeRuntime::Unavailable(remedy) => report.skip_step("types of the stack", remedy)?,
    }
    report.run_step("packages of the public crates, and their Rust version", packages::check_packages)?;
    match packages.require_both() {
        Ok(venv) => report.run_step("workflows", || workflows::check_workflows(venv))?,
        Err(remedy) => report.skip_step("workflows", remedy)?,
    }
    match &packages.python {
        Python::Ready(venv) => {
            report.run_step("manifests of containers", || containers::check_manifests(venv))
        }
        Python::Unavailable(remedy) => report.skip_step("manifests of containers", remedy),
    }
}

fn check_links(report: &mut StepReport, python: &Python) -> Result<(), TaskFailure> {
    match python {
        Python::Unavailable(remedy) => report.skip_step("links of the docs", remedy),
        Python::Ready(venv) => report.run_step("links of the docs", || docs::check_links(venv)),
    }
}

fn check_format() -> Result<(), TaskFailure> {
    run_command(&mut cargo_command(&["fmt", "--all", "--check"]))
}

fn clippy_command() -> Command {
    cargo_command(&["clippy", "--workspace", "--all-targets", "--test=*", "--", "--deny", "warnings"])
}

/// With the examples Cargo takes the features of the tests, whose dependencies the lints have checked already.
fn doc_command() -> Command {
    cargo_command(&["doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples"])
}

/// Without the costs: `--lib` would take their library, whose modules of crates/aws have their tests there.
const UNIT_TESTS: [&str; 6] = ["test", "--workspace", "--exclude", "redeliver-costs", "--lib", "--bins"];
/// As `cargo test` in a fresh clone runs them.
const PLAIN_TESTS: [&str; 7] =
    ["test", "--workspace", "--exclude", "redeliver-costs", "--lib", "--bins", "--tests"];

fn has_chromium() -> bool {
    command_output(Command::new("chromium").arg("--version")).is_ok()
}

/// In what the bundles are made of.
fn count_instructions(report: &mut StepReport) -> Result<(), TaskFailure> {
    match instructions::require_tools() {
        Ok(()) => {
            report.run_step("instructions of a retry and of hostile messages", instructions::check_counts)
        }
        Err(TaskFailure(remedy)) => {
            report.skip_step("instructions of a retry and of hostile messages", &remedy)
        }
    }
}

/// The programs that the end-to-end tests run, while they are built. `None` is skipped.
struct EndToEnd {
    runtimes: Option<Beside>,
    bundles: Option<Beside>,
}

impl EndToEnd {
    fn start(
        report: &mut StepReport,
        packages: &TestPackages,
        this_program: &Path,
    ) -> Result<Self, TaskFailure> {
        let runtimes = start_runtimes(report, packages, this_program)?;
        // The longest of all: whatever waits for it, waits less the sooner it begins.
        Ok(Self { runtimes, bundles: start_bundles(report, &packages.python, this_program)? })
    }

    fn finish_bundles(self, report: &mut StepReport) -> Result<Self, TaskFailure> {
        if let Some(bundles) = self.bundles {
            report.finish_beside("bundles (beside the steps before)", bundles)?;
            report.run_step("sizes of the bundles", sizes::check_sizes)?;
            count_instructions(report)?;
        }
        Ok(Self { bundles: None, ..self })
    }

    fn run_end_to_end(self, report: &mut StepReport, packages: &TestPackages) -> Result<(), TaskFailure> {
        if packages.require_both().is_ok() {
            report.run_step("what others install", dist::for_tests)?;
        }
        let has_runtimes = self.runtimes.is_some();
        if let Some(runtimes) = self.runtimes {
            report.finish_beside(
                "AWS's runtimes for Node.js, Java and Go (beside the steps before)",
                runtimes,
            )?;
        }
        system_tests(report, packages, has_runtimes)
    }
}

/// The end-to-end tests run the bundles, as Lambda does. The longest build, and Cargo builds nothing else in its folder: it
/// runs beside the others.
fn start_bundles(
    report: &mut StepReport,
    python: &Python,
    this_program: &Path,
) -> Result<Option<Beside>, TaskFailure> {
    if let Python::Unavailable(remedy) = python {
        report.skip_step("bundles", remedy)?;
        return Ok(None);
    }
    // Both land in the same place: what can be run here comes last.
    let other = LambdaArchitecture::HOST.other();
    match other.require_target() {
        Ok(()) => report.run_step("bundles for the other architecture", || bundle_functions(other))?,
        Err(TaskFailure(remedy)) => report.skip_step(&format!("{} bundles", other.lambda_name()), &remedy)?,
    }
    let host = match LambdaArchitecture::HOST {
        LambdaArchitecture::Arm64 => &["bundle"][..],
        LambdaArchitecture::X86_64 => &["bundle", "--x86-64"],
    };
    Beside::start("bundles", &task_command(this_program, host)).map(Some)
}

/// AWS's runtime for Node.js is compiled, which takes a minute, and the functions in Java and Go.
fn start_runtimes(
    report: &mut StepReport,
    packages: &TestPackages,
    this_program: &Path,
) -> Result<Option<Beside>, TaskFailure> {
    if let Err(remedy) = packages.require_both().and_then(|_| npm::require_compiler()) {
        report.skip_step("functions in Node.js, Java and Go, in AWS's runtimes", remedy)?;
        return Ok(None);
    }
    Beside::start("runtimes", &task_command(this_program, &["runtimes"])).map(Some)
}

/// `cargo xtask runtimes`.
///
/// # Errors
/// Something is missing, or npm's, Maven's or Go's.
pub(crate) fn run_runtime_tests() -> Result<(), TaskFailure> {
    functions::JAVA.build_if_changed()?;
    functions::GO.build_if_changed()?;
    venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::require_compiler().map_err(|remedy| TaskFailure(remedy.to_owned()))?;
    npm::RUNTIME.install()
}

/// A copy of this program, for the tasks that run beside the steps: the build of the tests puts another file in its place.
fn this_program() -> Result<PathBuf, TaskFailure> {
    let copied = || {
        let folder = target_dir().join("beside");
        fs::create_dir_all(&folder)?;
        // A copy of an earlier run may still be at work, and what runs cannot be written: the new one takes its name.
        let (new, copy) = (folder.join("xtask.new"), folder.join("xtask"));
        fs::copy(std::env::current_exe()?, &new)?;
        fs::rename(new, &copy)?;
        Ok(copy)
    };
    copied().map_err(|error: std::io::Error| TaskFailure(format!("a copy of this program: {error}")))
}

/// A task of a program like this one, as a process of its own.
fn task_command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace_root());
    command
}

/// The tests of the stack alone.
pub(crate) fn run_stack_tests() -> Result<(), TaskFailure> {
    let venv = venv::set_up(&venv::TESTS)?.require_environment()?;
    npm::set_up()?.required()?;
    stack::check_types()?;
    stack::test_stack(Some(&venv))
}

fn stack_tests(report: &mut StepReport, packages: &TestPackages) -> Result<(), TaskFailure> {
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

/// A search at work: its name in the report, and its process.
type Search = (&'static str, Beside);

fn start_search(this_program: &Path) -> Result<Vec<Search>, TaskFailure> {
    let planted = Beside::start("planted", &task_command(this_program, &["faults", "--planted"]))?;
    let fresh_seeds = Beside::start("simulation", &faults::fresh_seeds(SIMULATION_CHANGES))?;
    Ok(vec![
        ("bugs planted for the simulator (beside the steps before)", planted),
        ("simulation of fresh seeds (beside the steps before)", fresh_seeds),
    ])
}

/// It ends by the clock: it must run when the other steps wait for queues and leave it the processors.
fn start_fuzzing(report: &mut StepReport, this_program: &Path) -> Result<Option<Search>, TaskFailure> {
    if let Err(TaskFailure(remedy)) = fuzz::require_compiler() {
        report.skip_step("fuzzing", &remedy)?;
        return Ok(None);
    }
    let fuzzing = Beside::start("fuzzing", &task_command(this_program, &["fuzz"]))?;
    Ok(Some(("fuzzing (beside the steps before)", fuzzing)))
}

/// An ignored test that writes files instead of testing anything.
const WRITES_DOCUMENTS: &str = "write_wire_documents";

/// Runs the end-to-end tests and all ignored tests. A test that needs an emulator, a browser or Python has a name for it in
/// its path, by which it is skipped where that is missing.
fn system_tests(
    report: &mut StepReport,
    packages: &TestPackages,
    has_runtimes: bool,
) -> Result<(), TaskFailure> {
    let mut skipped = Vec::new();
    if let Python::Unavailable(remedy) = packages.python {
        report.skip_step("tests on ministack, moto and aws-lambda-rie, and of functions in Python", remedy)?;
        skipped.extend(["ministack", "moto", "lambda_rie", "own_function", "terminal"]);
    }
    if let NodeRuntime::Unavailable(remedy) = packages.node {
        report.skip_step("tests of a deployment and of its rights", remedy)?;
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
            report.run_step("what drives a browser", || npm::CONSOLE.install())?
        }
        _ => skipped.push("console::browser"),
    }
    if let Err(TaskFailure(remedy)) = containers::require_tools() {
        report.skip_step("the container image", &remedy)?;
        skipped.extend(["work::image", "work::manifests"]);
    }
    judged::forget_requests()?;
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
    report.run_step("requests, judged by AWS's models", || {
        judged::check_requests(packages.require_both().is_ok())
    })
}

/// These tests wait for queues most of the time: more of them than there are processors can run at once.
fn raise_test_threads(command: &mut Command) -> &mut Command {
    command.env("RUST_TEST_THREADS", env_variable("RUST_TEST_THREADS").unwrap_or_else(|| "8".into()))
}

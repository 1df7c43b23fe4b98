//! `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::beside::Beside;
use crate::bundle::{Architecture, bundle};
use crate::containers;
use crate::dist;
use crate::docs;
use crate::faults;
use crate::functions;
use crate::fuzz;
use crate::instructions;
use crate::judged;
use crate::npm::{self, Node};
use crate::packages;
use crate::readme;
use crate::report::{Report, forget_skipped_tests};
use crate::sizes;
use crate::stack;
use crate::supply_chain;
use crate::system_packages;
use crate::tools::{Failure, cargo, output, root, run, target_dir, variable};
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
pub(crate) enum Part {
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
pub(crate) fn test(part: Option<Part>) -> Result<(), Failure> {
    reported(|report| steps(report, part))?;
    println!("\n{} passed", if part.is_none() { "all tests" } else { "this part of the tests" });
    Ok(())
}

/// For the inner loop: what needs nothing that is not compiled already.
pub(crate) fn quick() -> Result<(), Failure> {
    reported(|report| {
        report.step("format", format)?;
        report.step("words", words::check)?;
        report.step("build of the tests", || run(&mut cargo(&TEST_BUILD)))?;
        report.step("unit and property tests", || run(&mut cargo(&UNIT_TESTS)))?;
        report.step("the loop in virtual time, schemas", || {
            run(&mut cargo(&["test", "--workspace", "--test", "loop", "--test", "schemas"]))
        })?;
        report.step("simulation of fresh seeds", || run(&mut faults::fresh_seeds(QUICK_SIMULATION_CHANGES)))
    })?;
    println!("\nthe quick tests passed; `cargo xtask test` runs all of them");
    Ok(())
}

fn reported(steps: impl FnOnce(&mut Report) -> Result<(), Failure>) -> Result<(), Failure> {
    forget_skipped_tests();
    let mut report = Report::begin();
    let done = steps(&mut report);
    report.print();
    done
}

/// The end-to-end tests alone.
pub(crate) fn end_to_end(arguments: &[String]) -> Result<(), Failure> {
    venv::set_up(&venv::TESTS)?.required()?;
    npm::set_up()?.required()?;
    npm::CONSOLE.install()?;
    runtimes()?;
    bundle(Architecture::HOST)?;
    run(&mut cargo(&TEST_BUILD))?;
    dist::for_tests()?;
    judged::forget()?;
    run(patient(&mut cargo(&["test", "--workspace", "--test", "end_to_end", "--"])).args(arguments))?;
    judged::check(arguments.is_empty())
}

fn steps(report: &mut Report, part: Option<Part>) -> Result<(), Failure> {
    let wants = |wanted: Part| part.is_none_or(|part| part == wanted);
    let this_program = this_program()?;
    report.step("packages of the system", system_packages::install_missing)?;
    if wants(Part::Lints) {
        report.step("format", format)?;
        report.step("words", words::check)?;
    }
    // The packages of Python and Node.js are fetched meanwhile, one by one.
    let clippy = wants(Part::Lints).then(|| Beside::start("lints", &clippy())).transpose()?;
    let needs_packages = [Part::Lints, Part::Stack, Part::EndToEnd].into_iter().any(wants);
    let packages = if needs_packages { Packages::set_up(report)? } else { Packages::NOT_NEEDED };
    if wants(Part::Lints) {
        check_what_is_published(report, &packages)?;
    }
    let site =
        wants(Part::Lints).then(|| Beside::start("docs", &task(&this_program, &["docs"]))).transpose()?;
    let end_to_end =
        wants(Part::EndToEnd).then(|| EndToEnd::start(report, &packages, &this_program)).transpose()?;
    if let Some(clippy) = clippy {
        report.finish("lints (beside the steps before)", clippy)?;
    }
    if [Part::Tests, Part::EndToEnd, Part::Search].into_iter().any(wants) {
        report.step("build of the tests", || run(&mut cargo(&TEST_BUILD)))?;
    }
    if wants(Part::Tests) {
        report.step("tests that need nothing else", || run(&mut cargo(&PLAIN_TESTS)))?;
        report.step("documentation tests", || run(&mut cargo(&["test", "--workspace", "--doc"])))?;
        report.step("README commands", readme::commands)?;
    }
    if let Some(site) = site {
        report.finish("docs as a site (beside the steps before)", site)?;
        check_links(report, &packages.python)?;
        report.step("documentation", || run(documentation().env("RUSTDOCFLAGS", "--deny warnings")))?;
    }
    if wants(Part::Stack) {
        stack_tests(report, &packages)?;
    }
    // A link takes one processor: when the last bundle is linked, this has the other one.
    let mut searches = if wants(Part::Search) { start_search(&this_program)? } else { Vec::new() };
    let end_to_end = end_to_end.map(|started| started.finish_bundles(report)).transpose()?;
    if wants(Part::Search) {
        searches.extend(start_fuzzing(report, &this_program)?);
    }
    if let Some(end_to_end) = end_to_end {
        end_to_end.test(report, &packages)?;
    }
    searches.into_iter().try_for_each(|(name, step)| report.finish(name, step))
}

/// The packages of Python and Node.js.
struct Packages {
    python: Python,
    node: Node,
}

impl Packages {
    const NOT_NEEDED: Self = {
        let remedy = "this part of the tests does not need it";
        Self { python: Python::Unavailable(remedy), node: Node::Unavailable(remedy) }
    };

    fn set_up(report: &mut Report) -> Result<Self, Failure> {
        let python = report.step("Python environment of the tests", || venv::set_up(&venv::TESTS))?;
        Ok(Self { python, node: report.step("Node.js packages of the stack", npm::set_up)? })
    }

    /// The Python environment, or the remedy if either has no packages.
    fn both(&self) -> Result<&Path, &'static str> {
        match (&self.python, &self.node) {
            (Python::Unavailable(remedy), _) | (_, Node::Unavailable(remedy)) => Err(*remedy),
            (Python::Ready(venv), Node::Ready) => Ok(venv),
        }
    }
}

/// Dependencies, packages, the workflows and forms of GitHub, the examples for Kubernetes and ECS.
fn check_what_is_published(report: &mut Report, packages: &Packages) -> Result<(), Failure> {
    supply_chain::check(report, &packages.python)?;
    match &packages.node {
        Node::Ready => report.step("types of the stack", stack::check_types)?,
        Node::Unavailable(remedy) => report.skip("types of the stack", remedy)?,
    }
    report.step("packages of the public crates, and their Rust version", packages::check)?;
    match packages.both() {
        Ok(venv) => report.step("workflows", || workflows::check(venv))?,
        Err(remedy) => report.skip("workflows", remedy)?,
    }
    match &packages.python {
        Python::Ready(venv) => report.step("manifests of containers", || containers::check_manifests(venv)),
        Python::Unavailable(remedy) => report.skip("manifests of containers", remedy),
    }
}

fn check_links(report: &mut Report, python: &Python) -> Result<(), Failure> {
    match python {
        Python::Unavailable(remedy) => report.skip("links of the docs", remedy),
        Python::Ready(venv) => report.step("links of the docs", || docs::check_links(venv)),
    }
}

fn format() -> Result<(), Failure> {
    run(&mut cargo(&["fmt", "--all", "--check"]))
}

fn clippy() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--test=*", "--", "--deny", "warnings"])
}

/// With the examples Cargo takes the features of the tests, whose dependencies the lints have checked already.
fn documentation() -> Command {
    cargo(&["doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples"])
}

/// Without the costs: `--lib` would take their library, whose modules of crates/aws have their tests there.
const UNIT_TESTS: [&str; 6] = ["test", "--workspace", "--exclude", "redeliver-costs", "--lib", "--bins"];
/// As `cargo test` in a fresh clone runs them.
const PLAIN_TESTS: [&str; 7] =
    ["test", "--workspace", "--exclude", "redeliver-costs", "--lib", "--bins", "--tests"];

fn has_chromium() -> bool {
    output(Command::new("chromium").arg("--version")).is_ok()
}

/// In what the bundles are made of.
fn count_instructions(report: &mut Report) -> Result<(), Failure> {
    match instructions::tools() {
        Ok(()) => report.step("instructions of a retry and of hostile messages", instructions::check),
        Err(Failure(remedy)) => report.skip("instructions of a retry and of hostile messages", &remedy),
    }
}

/// The programs that the end-to-end tests run, while they are built. `None` is skipped.
struct EndToEnd {
    runtimes: Option<Beside>,
    bundles: Option<Beside>,
}

impl EndToEnd {
    fn start(report: &mut Report, packages: &Packages, this_program: &Path) -> Result<Self, Failure> {
        let runtimes = start_runtimes(report, packages, this_program)?;
        // The longest of all: whatever waits for it, waits less the sooner it begins.
        Ok(Self { runtimes, bundles: start_bundles(report, &packages.python, this_program)? })
    }

    fn finish_bundles(self, report: &mut Report) -> Result<Self, Failure> {
        if let Some(bundles) = self.bundles {
            report.finish("bundles (beside the steps before)", bundles)?;
            report.step("sizes of the bundles", sizes::check)?;
            count_instructions(report)?;
        }
        Ok(Self { bundles: None, ..self })
    }

    fn test(self, report: &mut Report, packages: &Packages) -> Result<(), Failure> {
        if packages.both().is_ok() {
            report.step("what others install", dist::for_tests)?;
        }
        let has_runtimes = self.runtimes.is_some();
        if let Some(runtimes) = self.runtimes {
            report.finish("AWS's runtimes for Node.js, Java and Go (beside the steps before)", runtimes)?;
        }
        system_tests(report, packages, has_runtimes)
    }
}

/// The end-to-end tests run the bundles, as Lambda does. The longest build, and Cargo builds nothing else in its folder: it
/// runs beside the others.
fn start_bundles(
    report: &mut Report,
    python: &Python,
    this_program: &Path,
) -> Result<Option<Beside>, Failure> {
    if let Python::Unavailable(remedy) = python {
        report.skip("bundles", remedy)?;
        return Ok(None);
    }
    // Both land in the same place: what can be run here comes last.
    let other = Architecture::HOST.other();
    match other.installed() {
        Ok(()) => report.step("bundles for the other architecture", || bundle(other))?,
        Err(Failure(remedy)) => report.skip(&format!("{} bundles", other.name()), &remedy)?,
    }
    let host = match Architecture::HOST {
        Architecture::Arm64 => &["bundle"][..],
        Architecture::X86_64 => &["bundle", "--x86-64"],
    };
    Beside::start("bundles", &task(this_program, host)).map(Some)
}

/// AWS's runtime for Node.js is compiled, which takes a minute, and the functions in Java and Go.
fn start_runtimes(
    report: &mut Report,
    packages: &Packages,
    this_program: &Path,
) -> Result<Option<Beside>, Failure> {
    if let Err(remedy) = packages.both().and_then(|_| npm::compiler()) {
        report.skip("functions in Node.js, Java and Go, in AWS's runtimes", remedy)?;
        return Ok(None);
    }
    Beside::start("runtimes", &task(this_program, &["runtimes"])).map(Some)
}

/// `cargo xtask runtimes`.
///
/// # Errors
/// Something is missing, or npm's, Maven's or Go's.
pub(crate) fn runtimes() -> Result<(), Failure> {
    functions::JAVA.build()?;
    functions::GO.build()?;
    venv::set_up(&venv::TESTS)?.required()?;
    npm::compiler().map_err(|remedy| Failure(remedy.to_owned()))?;
    npm::RUNTIME.install()
}

/// A copy of this program, for the tasks that run beside the steps: the build of the tests puts another file in its place.
fn this_program() -> Result<PathBuf, Failure> {
    let copied = || {
        let folder = target_dir().join("beside");
        fs::create_dir_all(&folder)?;
        // A copy of an earlier run may still be at work, and what runs cannot be written: the new one takes its name.
        let (new, copy) = (folder.join("xtask.new"), folder.join("xtask"));
        fs::copy(std::env::current_exe()?, &new)?;
        fs::rename(new, &copy)?;
        Ok(copy)
    };
    copied().map_err(|error: std::io::Error| Failure(format!("a copy of this program: {error}")))
}

/// A task of a program like this one, as a process of its own.
fn task(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// The tests of the stack alone.
pub(crate) fn stack() -> Result<(), Failure> {
    let venv = venv::set_up(&venv::TESTS)?.required()?;
    npm::set_up()?.required()?;
    stack::check_types()?;
    stack::test(Some(&venv))
}

fn stack_tests(report: &mut Report, packages: &Packages) -> Result<(), Failure> {
    let venv = match (&packages.python, &packages.node) {
        (_, Node::Unavailable(remedy)) => return report.skip("tests of the stack", remedy),
        (Python::Unavailable(remedy), Node::Ready) => {
            report.skip("cfn-lint on the stack", remedy)?;
            None
        }
        (Python::Ready(venv), Node::Ready) => Some(venv.as_path()),
    };
    report.step("tests of the stack", || stack::test(venv))
}

/// A search at work: its name in the report, and its process.
type Search = (&'static str, Beside);

fn start_search(this_program: &Path) -> Result<Vec<Search>, Failure> {
    let planted = Beside::start("planted", &task(this_program, &["faults", "--planted"]))?;
    let fresh_seeds = Beside::start("simulation", &faults::fresh_seeds(SIMULATION_CHANGES))?;
    Ok(vec![
        ("bugs planted for the simulator (beside the steps before)", planted),
        ("simulation of fresh seeds (beside the steps before)", fresh_seeds),
    ])
}

/// It ends by the clock: it must run when the other steps wait for queues and leave it the processors.
fn start_fuzzing(report: &mut Report, this_program: &Path) -> Result<Option<Search>, Failure> {
    if let Err(Failure(remedy)) = fuzz::compiler() {
        report.skip("fuzzing", &remedy)?;
        return Ok(None);
    }
    let fuzzing = Beside::start("fuzzing", &task(this_program, &["fuzz"]))?;
    Ok(Some(("fuzzing (beside the steps before)", fuzzing)))
}

/// The end-to-end tests, and those that plain `cargo test` ignores. What needs an emulator has its name in the test's path,
/// so that it can be left out.
fn system_tests(report: &mut Report, packages: &Packages, has_runtimes: bool) -> Result<(), Failure> {
    let (mut ignored, mut skipped) = (Vec::new(), Vec::new());
    match packages.python {
        Python::Ready(_) => ignored.extend(["ministack", "own_function"]),
        Python::Unavailable(remedy) => {
            report.skip("tests on ministack, moto and aws-lambda-rie", remedy)?;
            skipped.extend(["ministack", "moto", "lambda_rie"]);
        }
    }
    if let Node::Unavailable(remedy) = packages.node {
        report.skip("tests of a deployment and of its rights", remedy)?;
        skipped.extend(["deployment", "moto"]);
    }
    if !has_runtimes {
        skipped.extend(["::node", "::java", "::go::"]);
    }
    for (name, tests, functions) in
        [("functions in Java", "::java", functions::JAVA), ("functions in Go", "::go::", functions::GO)]
    {
        if let Err(remedy) = functions.tools() {
            report.skip(name, remedy)?;
            skipped.push(tests);
        }
    }
    if has_chromium() {
        ignored.push("chromium");
    } else {
        report.skip("pages in a browser", "install Chromium (the command `chromium`)")?;
    }
    match packages.node {
        Node::Ready if has_chromium() => report.step("what drives a browser", || npm::CONSOLE.install())?,
        _ => skipped.push("console::browser"),
    }
    if let Err(Failure(remedy)) = containers::tools() {
        report.skip("the container image", &remedy)?;
        skipped.extend(["work::image", "work::manifests"]);
    }
    judged::forget()?;
    let skips: Vec<_> = skipped.iter().flat_map(|name| ["--skip", name]).collect();
    if !ignored.is_empty() {
        report.step("tests that need Python or a browser", || {
            run(patient(&mut cargo(&PLAIN_TESTS)).args(["--", "--ignored"]).args(&ignored).args(&skips))
        })?;
    }
    report.step("end-to-end tests", || {
        let mut tests = cargo(&["test", "--workspace", "--test", "end_to_end", "--"]);
        run(patient(&mut tests).args(&skips))
    })?;
    report.step("requests, judged by AWS's models", || judged::check(packages.both().is_ok()))
}

/// These tests wait for queues most of the time: more of them than there are processors can run at once.
fn patient(command: &mut Command) -> &mut Command {
    command.env("RUST_TEST_THREADS", variable("RUST_TEST_THREADS").unwrap_or_else(|| "8".into()))
}

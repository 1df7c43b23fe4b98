//! `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::beside::Beside;
use crate::bundle::{Architecture, bundle};
use crate::containers;
use crate::dist;
use crate::docs;
use crate::faults;
use crate::fuzz;
use crate::hostile;
use crate::instructions;
use crate::npm::{self, Node};
use crate::packages;
use crate::readme;
use crate::report::{Report, forget_skipped_tests};
use crate::sizes;
use crate::stack;
use crate::supply_chain;
use crate::tools::{Failure, cargo, output, root, run, target_dir, variable};
use crate::venv::{self, Python};
use crate::workflows;

/// The tests, and all programs that they run except the bundles. One build: `cargo test` takes the same features for it.
const TEST_BUILD: [&str; 6] = ["build", "--workspace", "--lib", "--bins", "--tests", "--examples"];
/// Fresh seeds run until so many changes of queues are checked: the same work on a busy machine. docs/guarantees.md has the
/// number.
pub(crate) const SIMULATION_CHANGES: u32 = 1_000_000;
/// … and in the inner loop.
const QUICK_SIMULATION_CHANGES: u32 = 150_000;

/// Everything, in the order in which it says most for least time; stops at the first failure.
pub(crate) fn all() -> Result<(), Failure> {
    reported(steps)?;
    println!("\nall tests passed");
    Ok(())
}

/// For the inner loop: what needs nothing that is not compiled already.
pub(crate) fn quick() -> Result<(), Failure> {
    reported(|report| {
        report.step("format", format)?;
        report.step("build of the tests", || run(&mut cargo(&TEST_BUILD)))?;
        report.step("unit and property tests", || run(unit_tests().args(["--skip", "chromium"])))?;
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
    run(patient(&mut cargo(&["test", "--workspace", "--test", "end_to_end", "--"])).args(arguments))
}

fn steps(report: &mut Report) -> Result<(), Failure> {
    let this_program = this_program()?;
    report.step("format", format)?;
    // The packages of Python and Node.js are fetched meanwhile, one by one.
    let lints = Beside::start("lints", &lints())?;
    let python = report.step("Python environment of the tests", || venv::set_up(&venv::TESTS))?;
    let node = report.step("Node.js packages of the stack", npm::set_up)?;
    supply_chain::check(report, &python)?;
    report.step("packages of the public crates, and their Rust version", packages::check)?;
    check_workflows(report, &python, &node)?;
    check_manifests(report, &python)?;
    let site = Beside::start("docs", &task(&this_program, &["docs"]))?;
    let runtimes = start_runtimes(report, &python, &node, &this_program)?;
    // The longest of all: whatever waits for it, waits less the sooner it begins.
    let bundles = start_bundles(report, &python, &this_program)?;
    report.finish("lints (beside the steps before)", lints)?;
    report.step("build of the tests", || run(&mut cargo(&TEST_BUILD)))?;
    unit_tests_step(report)?;
    report.finish("docs as a site (beside the steps before)", site)?;
    check_links(report, &python)?;
    stack_tests(report, &python, &node)?;
    report.step("documentation tests", || run(&mut cargo(&["test", "--workspace", "--doc"])))?;
    report.step("documentation", || run(documentation().env("RUSTDOCFLAGS", "--deny warnings")))?;
    report.step("README commands", readme::commands)?;
    // A link takes one processor: when the last bundle is linked, it has the other one.
    let planted = Beside::start("planted", &task(&this_program, &["faults", "--planted"]))?;
    if let Some(bundles) = bundles {
        report.finish("bundles (beside the steps before)", bundles)?;
        report.step("sizes of the bundles", sizes::check)?;
    }
    let mut search = Search::start(planted)?;
    let soak = start_soak(report, &python)?;
    instruction_counts(report, &python)?;
    search.start_fuzzing(report, &this_program)?;
    let has = Has { python: &python, node: &node, runtime_of_node: runtimes.is_some() };
    if let (Python::Ready(_), Node::Ready) = (&python, &node) {
        report.step("what others install", dist::for_tests)?;
    }
    if let Some(runtimes) = runtimes {
        report.finish("AWS's runtime for Node.js (beside the steps before)", runtimes)?;
    }
    system_tests(report, &has)?;
    if let Some(soak) = soak {
        report.finish("soak of the real programs (beside the steps before)", soak)?;
    }
    search.finish(report)
}

/// What GitHub runs at each push and each release.
fn check_workflows(report: &mut Report, python: &Python, node: &Node) -> Result<(), Failure> {
    match (python, node) {
        (Python::Unavailable(remedy), _) | (_, Node::Unavailable(remedy)) => report.skip("workflows", remedy),
        (Python::Ready(venv), Node::Ready) => report.step("workflows", || workflows::check(venv)),
    }
}

/// What people give to Kubernetes and ECS.
fn check_manifests(report: &mut Report, python: &Python) -> Result<(), Failure> {
    match python {
        Python::Unavailable(remedy) => report.skip("manifests of containers", remedy),
        Python::Ready(venv) => report.step("manifests of containers", || containers::check_manifests(venv)),
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

fn lints() -> Command {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])
}

/// With the examples Cargo takes the features of the tests, whose dependencies the lints have checked already.
fn documentation() -> Command {
    cargo(&["doc", "--workspace", "--no-deps", "--lib", "--bins", "--examples"])
}

fn unit_tests() -> Command {
    cargo(&["test", "--workspace", "--lib", "--bins", "--"])
}

fn unit_tests_step(report: &mut Report) -> Result<(), Failure> {
    let mut command = unit_tests();
    if !has_chromium() {
        report.skip("pages in a browser", "install Chromium (the command `chromium`)")?;
        command.args(["--skip", "chromium"]);
    }
    report.step("unit and property tests", || run(&mut command))
}

fn has_chromium() -> bool {
    output(Command::new("chromium").arg("--version")).is_ok()
}

/// Time is no test, but instructions are: they are the same in every run. They are counted in what the bundles are made of.
fn instruction_counts(report: &mut Report, python: &Python) -> Result<(), Failure> {
    let remedy = match (python, instructions::tools()) {
        (Python::Ready(_), Ok(())) => {
            report.step("instruction counts of the core", instructions::check)?;
            return report.step("instruction counts of hostile messages", hostile::check);
        }
        (Python::Unavailable(remedy), _) => (*remedy).to_owned(),
        (Python::Ready(_), Err(Failure(remedy))) => remedy,
    };
    report.skip("instruction counts of the core", &remedy)?;
    report.skip("instruction counts of hostile messages", &remedy)
}

/// What Lambda runs is what the end-to-end tests run, so the bundles are the tests' build of the functions, too. The longest
/// build, and Cargo builds nothing else in its folder: it runs beside the others.
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

/// AWS's runtime for Node.js is compiled, which takes a minute.
fn start_runtimes(
    report: &mut Report,
    python: &Python,
    node: &Node,
    this_program: &Path,
) -> Result<Option<Beside>, Failure> {
    let remedy = match (python, node) {
        (Python::Unavailable(remedy), _) | (_, Node::Unavailable(remedy)) => Some(*remedy),
        (Python::Ready(_), Node::Ready) => npm::compiler().err(),
    };
    let Some(remedy) = remedy else {
        return Beside::start("runtimes", &task(this_program, &["runtimes"])).map(Some);
    };
    report.skip("functions in Node.js, in AWS's runtime", remedy)?;
    Ok(None)
}

/// `cargo xtask runtimes`.
///
/// # Errors
/// Something is missing, or npm's.
pub(crate) fn runtimes() -> Result<(), Failure> {
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
    stack::test(Some(&venv))
}

fn stack_tests(report: &mut Report, python: &Python, node: &Node) -> Result<(), Failure> {
    let venv = match (python, node) {
        (_, Node::Unavailable(remedy)) => return report.skip("tests of the stack", remedy),
        (Python::Unavailable(remedy), Node::Ready) => {
            report.skip("cfn-lint on the stack", remedy)?;
            None
        }
        (Python::Ready(venv), Node::Ready) => Some(venv.as_path()),
    };
    report.step("tests of the stack", || stack::test(venv))
}

/// What the machine has.
struct Has<'a> {
    python: &'a Python,
    node: &'a Node,
    /// Whether functions in Node.js can be run as Lambda runs them.
    runtime_of_node: bool,
}

/// What looks for what nobody thought of.
struct Search(Vec<(&'static str, Beside)>);

impl Search {
    fn start(planted: Beside) -> Result<Self, Failure> {
        let fresh_seeds = Beside::start("simulation", &faults::fresh_seeds(SIMULATION_CHANGES))?;
        Ok(Self(vec![
            ("bugs planted for the simulator (beside the steps before)", planted),
            ("simulation of fresh seeds (beside the steps before)", fresh_seeds),
        ]))
    }

    /// It ends by the clock: it must run when the other steps wait for queues and leave it the processors.
    fn start_fuzzing(&mut self, report: &mut Report, this_program: &Path) -> Result<(), Failure> {
        if let Err(Failure(remedy)) = fuzz::compiler() {
            return report.skip("fuzzing", &remedy);
        }
        let fuzzing = Beside::start("fuzzing", &task(this_program, &["fuzz"]))?;
        self.0.push(("fuzzing (beside the steps before)", fuzzing));
        Ok(())
    }

    fn finish(self, report: &mut Report) -> Result<(), Failure> {
        self.0.into_iter().try_for_each(|(name, step)| report.finish(name, step))
    }
}

/// Conformance, end to end, schemas. What needs an emulator has its name in the test's path, so that it can be left out.
fn system_tests(report: &mut Report, has: &Has<'_>) -> Result<(), Failure> {
    let mut command = cargo(&["test", "--workspace", "--test", "*", "--"]);
    if let Python::Unavailable(remedy) = has.python {
        report.skip("tests on ministack, moto and aws-lambda-rie", remedy)?;
        command.args(["--skip", "ministack", "--skip", "moto", "--skip", "lambda_rie"]);
    }
    if let Node::Unavailable(remedy) = has.node {
        report.skip("tests of a deployment and of its rights", remedy)?;
        command.args(["--skip", "deployment", "--skip", "moto"]);
    }
    if !has.runtime_of_node {
        command.args(["--skip", "runtimes::node"]);
    }
    match has.node {
        Node::Ready if has_chromium() => report.step("what drives a browser", || npm::CONSOLE.install())?,
        // Which of the two is missing is told already.
        _ => drop(command.args(["--skip", "console::browser"])),
    }
    if let Err(Failure(remedy)) = containers::tools() {
        report.skip("the container image", &remedy)?;
        command.args(["--skip", "work::image", "--skip", "work::manifests"]);
    }
    report.step("conformance, end-to-end and schema tests", || run(patient(&mut command)))
}

/// The real programs under fire. Its messages are enough for every fault to happen; what it prints is its proof. It waits for
/// queues most of the time.
fn start_soak(report: &mut Report, python: &Python) -> Result<Option<Beside>, Failure> {
    if let Python::Unavailable(remedy) = python {
        report.skip("soak of the real programs on ministack", remedy)?;
        return Ok(None);
    }
    let mut soak = Command::new(target_dir().join("debug/soak"));
    Beside::start_waiting("soak", soak.current_dir(root())).map(Some)
}

/// The soak alone, once everything else that it needs is there.
pub(crate) fn soak(arguments: &[String]) -> Result<(), Failure> {
    run(cargo(&["run", "--bin", "soak", "--"]).args(arguments))
}

/// These tests wait for queues most of the time: more of them than there are processors can run at once.
fn patient(command: &mut Command) -> &mut Command {
    command.env("RUST_TEST_THREADS", variable("RUST_TEST_THREADS").unwrap_or_else(|| "8".into()))
}

//! `cargo xtask faults`: runs the simulator, or checks that it finds planted bugs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::copy::{copy_all, refresh_copy, set_version};
use crate::faults::bugs::{Bug, read_bugs};
use crate::faults::edit::{PlantedFile, plant_bugs};
use crate::tools::{
    TaskFailure, cargo_command, map_in_parallel, read_file, render_command, run_command, target_dir,
    workspace_root, write_file,
};

mod bugs;
mod edit;
mod functions;
mod tokens;

/// The module that selects the active bug.
const SWITCH: &str = "tests/simulation/planted/planted.rs";
/// The parts of the workspace that Cargo needs.
const SOURCES: [&str; 7] = [".cargo", "Cargo.lock", "Cargo.toml", "crates", "schemas", "tests", "xtask"];
/// The name of the copy's program, which cannot be mistaken for the real one.
const PROGRAM: &str = "faults-with-planted-bugs";
/// The number of seeds after which a bug counts as missed. Bugs that are caught at all need far fewer.
const SEEDS_MAX: u64 = 400;

/// Runs the simulator's release build with these arguments.
///
/// # Errors
/// A seed broke a rule, which the program prints.
pub(crate) fn run_simulator(arguments: &[String]) -> Result<(), TaskFailure> {
    run_command(&mut cargo_command(&["build", "--release", "--bin", "faults"]))?;
    run_command(Command::new(target_dir().join("release/faults")).args(arguments))
}

/// Returns the command that runs the tests' build of the simulator with new seeds until this many queue changes have
/// been checked. The seeds depend on the commit, so that a commit passes everywhere or fails everywhere.
pub(crate) fn fresh_seeds_command(changes: u32) -> Command {
    let mut simulator = Command::new(target_dir().join("debug/faults"));
    simulator.args(["--changes", &changes.to_string()]);
    if let Some(seed) = commit_seed() {
        simulator.args(["--first-seed", &seed.to_string()]);
    }
    simulator
}

/// Returns the first 48 bits of the hash of the committed files, or `None` without git.
fn commit_seed() -> Option<u64> {
    let output =
        Command::new("git").args(["rev-parse", "HEAD^{tree}"]).current_dir(workspace_root()).output().ok()?;
    u64::from_str_radix(str::from_utf8(&output.stdout).ok()?.get(..12)?, 16).ok()
}

/// Plants every bug in a copy of the sources, and checks that the simulator catches each.
///
/// # Errors
/// A bug is not caught, or cannot be planted because its code has changed, or the simulator fails without any bug.
pub(crate) fn check_planted_bugs() -> Result<(), TaskFailure> {
    let bugs = read_bugs(workspace_root())?;
    let planted = target_dir().join("planted");
    refresh_copy(&planted, workspace_root(), SOURCES, |copy| plant_in_copy(copy, &bugs))?;
    let mut build = cargo_command(&["build", "--workspace", "--bin", PROGRAM]);
    run_command(build.current_dir(&planted).env("CARGO_TARGET_DIR", target_dir()))?;
    run_with_each_bug(&bugs)
}

/// Edits the copied sources: plants the bugs, adds the switch, and renames the program.
fn plant_in_copy(copy: &Path, bugs: &[Bug]) -> Result<(), TaskFailure> {
    for PlantedFile { path, text } in plant_bugs(copy, bugs)? {
        write_file(&copy.join(path), &text)?;
    }
    copy_all(&workspace_root().join(SWITCH), &copy.join("crates/core/src/planted.rs"))?;
    let append = |path: PathBuf, end: &str| write_file(&path, &(read_file(&path)? + end));
    append(copy.join("crates/core/src/lib.rs"), "\npub mod planted;\n")?;
    for name in bugs.iter().map(|bug| &bug.package).collect::<BTreeSet<_>>() {
        // A bug that returns early leaves unreachable code behind it.
        let library = copy.join("crates").join(name).join("src/lib.rs");
        write_file(&library, &format!("#![allow(unused)]\n{}", read_file(&library)?))?;
    }
    let manifest = copy.join("tests/simulation/Cargo.toml");
    let text = read_file(&manifest)?;
    let renamed = text.replace("name = \"faults\"", &format!("name = \"{PROGRAM}\""));
    if renamed == text {
        return Err(TaskFailure(format!("{}: no program is called faults", manifest.display())));
    }
    write_file(&manifest, &renamed)?;
    set_version(copy, "planted")
}

/// Runs the simulator with each bug active in turn.
fn run_with_each_bug(bugs: &[Bug]) -> Result<(), TaskFailure> {
    let mut missed = Vec::new();
    // A failure that occurs without any bug would be attributed to every bug.
    let mut seeds: BTreeSet<u64> = (1..=20).collect();
    let caught = map_in_parallel(bugs, find_failing_seed);
    for (Bug { name, what, seed: likely, .. }, caught) in bugs.iter().zip(caught) {
        match caught? {
            Some(CaughtBug { seed, rule }) => {
                seeds.insert(seed);
                let instead =
                    if seed == *likely { String::new() } else { format!(" (no longer by {likely})") };
                println!("caught by seed {seed:>3}{instead}: {name}: {what}");
                println!("    {}", rule.chars().take(140).collect::<String>());
            }
            None => missed.push(name.as_str()),
        }
    }
    let seeds: Vec<_> = seeds.into_iter().collect();
    for found in map_in_parallel(&seeds, |seed| run_seeds("", *seed, 1)) {
        if let Some(CaughtBug { seed, rule }) = found? {
            return Err(TaskFailure(format!(
                "without any active bug, the simulator fails with seed {seed}: {rule}"
            )));
        }
    }
    if missed.is_empty() {
        println!("all {} planted bugs were caught", bugs.len());
        return Ok(());
    }
    Err(TaskFailure(format!("not caught in {SEEDS_MAX} seeds: {}", missed.join(", "))))
}

/// The seed that caught a bug, and the broken rule.
struct CaughtBug {
    seed: u64,
    rule: String,
}

/// Finds a seed that breaks a rule: tries the likely seed first, and then all seeds from 1 up.
fn find_failing_seed(Bug { name, seed, .. }: &Bug) -> Result<Option<CaughtBug>, TaskFailure> {
    match run_seeds(name, *seed, 1)? {
        None => run_seeds(name, 1, SEEDS_MAX),
        caught => Ok(caught),
    }
}

/// Returns the first of these seeds that breaks a rule while this bug is active. An empty name activates no bug.
fn run_seeds(bug: &str, first: u64, seeds: u64) -> Result<Option<CaughtBug>, TaskFailure> {
    let mut simulator = Command::new(target_dir().join("debug").join(PROGRAM));
    simulator.args([
        "--messages-max",
        "100",
        "--first-seed",
        &first.to_string(),
        "--seeds",
        &seeds.to_string(),
    ]);
    let output = simulator.env("PLANTED_BUG", bug).output();
    let output = output
        .map_err(|error| TaskFailure(format!("{} does not start: {error}", render_command(&simulator))))?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let caught = said.lines().rev().find_map(|line| {
        let (seed, rule) = line.strip_prefix("seed ")?.split_once(": ")?;
        Some(CaughtBug { seed: seed.parse().ok()?, rule: rule.to_owned() })
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    caught
        .map(Some)
        .ok_or_else(|| TaskFailure(format!("{bug}: the simulator ended without a seed: {said}{errors}")))
}

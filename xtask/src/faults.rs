//! `cargo xtask faults`: the simulator, and the proof that it finds bugs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::tools::{Failure, cargo, read, root, run, shown, side_by_side, target_dir, write};

/// Where bugs are described, and what tells them to be awake.
const BUGS: &str = "tests/simulation/planted/bugs.toml";
const SWITCH: &str = "tests/simulation/planted/planted.rs";
/// All that Cargo needs of the workspace.
const SOURCES: [&str; 7] = [".cargo", "Cargo.lock", "Cargo.toml", "crates", "schemas", "tests", "xtask"];
/// The copy's program, so that nobody takes it for the real one.
const PROGRAM: &str = "faults-with-planted-bugs";
/// Seeds that a bug may survive. Where it is caught at all, it is caught by far fewer.
const SEEDS_MAX: u64 = 400;

/// Runs seeds through the release build of the simulator.
///
/// # Errors
/// A seed that broke a rule; the program's output says which.
pub(crate) fn faults(arguments: &[String]) -> Result<(), Failure> {
    run(&mut cargo(&["build", "--release", "--bin", "faults"]))?;
    run(Command::new(target_dir().join("release/faults")).args(arguments))
}

/// Runs fresh seeds until this number of queue changes is checked, in the tests' own build of the simulator.
pub(crate) fn fresh_seeds(changes: u32) -> Command {
    let mut simulator = Command::new(target_dir().join("debug/faults"));
    simulator.args(["--changes", &changes.to_string()]);
    simulator
}

#[derive(Deserialize)]
struct Bugs {
    bug: Vec<Bug>,
}

#[derive(Deserialize)]
struct Bug {
    name: String,
    /// The seed that has caught it before: tried first, to save time.
    #[serde(default = "first_seed")]
    seed: u64,
    what: String,
    file: String,
    before: String,
    after: String,
}

const fn first_seed() -> u64 {
    1
}

/// Plants every bug in a copy of the sources, and demands that the simulator catches each.
///
/// # Errors
/// A bug that is not caught, or that cannot be planted since its place has changed; or the simulator finds fault without one.
pub(crate) fn planted() -> Result<(), Failure> {
    let text = read(&root().join(BUGS))?;
    let Bugs { bug: bugs } = toml::from_str(&text).map_err(|error| Failure(format!("{BUGS}: {error}")))?;
    let (planted, copy) = (target_dir().join("planted"), target_dir().join("planted.new"));
    removed(&copy)?;
    for source in SOURCES {
        copy_all(&root().join(source), &copy.join(source))?;
    }
    for Bug { file, before, after, .. } in &bugs {
        replace(&copy.join(file), before, after)?;
    }
    copy_all(&root().join(SWITCH), &copy.join("crates/core/src/planted.rs"))?;
    let library = copy.join("crates/core/src/lib.rs");
    write(&library, &(read(&library)? + "\npub mod planted;\n"))?;
    replace(
        &copy.join("tests/simulation/Cargo.toml"),
        "name = \"faults\"",
        &format!("name = \"{PROGRAM}\""),
    )?;
    // Another version: else Cargo would take what is built here for the real crates.
    let manifest = copy.join("Cargo.toml");
    let version = concat!("version = \"", env!("CARGO_PKG_VERSION"));
    write(&manifest, &read(&manifest)?.replace(&format!("{version}\""), &format!("{version}-planted\"")))?;
    keep_times(&planted, &copy)?;
    removed(&planted)?;
    fs::rename(&copy, &planted).map_err(|error| Failure(format!("{}: {error}", planted.display())))?;
    let mut build = cargo(&["build", "--workspace", "--bin", PROGRAM]);
    run(build.current_dir(&planted).env("CARGO_TARGET_DIR", target_dir()))?;
    survey(&bugs)
}

/// Runs the simulator with each bug awake.
fn survey(bugs: &[Bug]) -> Result<(), Failure> {
    let mut missed = Vec::new();
    // What is found without a bug would be found with any.
    let mut seeds: BTreeSet<u64> = (1..=20).collect();
    let caught = side_by_side(bugs, seek);
    for (Bug { name, what, seed: likely, .. }, caught) in bugs.iter().zip(caught) {
        match caught? {
            Some(Caught { seed, rule }) => {
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
    for found in side_by_side(&seeds, |seed| run_seeds("", *seed, 1)) {
        if let Some(Caught { seed, rule }) = found? {
            return Err(Failure(format!(
                "without any bug awake, the simulator finds fault with seed {seed}: {rule}"
            )));
        }
    }
    if missed.is_empty() {
        println!("{} planted bugs, all of them caught", bugs.len());
        return Ok(());
    }
    Err(Failure(format!("not caught within {SEEDS_MAX} seeds: {}", missed.join(", "))))
}

/// The seed that caught a bug, and the rule that it broke.
struct Caught {
    seed: u64,
    rule: String,
}

/// A seed that breaks a rule: the likely one, else the first from 1 on.
fn seek(Bug { name, seed, .. }: &Bug) -> Result<Option<Caught>, Failure> {
    match run_seeds(name, *seed, 1)? {
        None => run_seeds(name, 1, SEEDS_MAX),
        caught => Ok(caught),
    }
}

/// The first of these seeds that breaks a rule, with this bug awake; none is if its name is empty.
fn run_seeds(bug: &str, first: u64, seeds: u64) -> Result<Option<Caught>, Failure> {
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
    let output = output.map_err(|error| Failure(format!("{} does not start: {error}", shown(&simulator))))?;
    if output.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let caught = said.lines().rev().find_map(|line| {
        let (seed, rule) = line.strip_prefix("seed ")?.split_once(": ")?;
        Some(Caught { seed: seed.parse().ok()?, rule: rule.to_owned() })
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    caught
        .map(Some)
        .ok_or_else(|| Failure(format!("{bug}: the simulator ended without a seed: {said}{errors}")))
}

fn replace(path: &Path, before: &str, after: &str) -> Result<(), Failure> {
    let text = read(path)?;
    let count = text.matches(before).count();
    if count != 1 {
        return Err(Failure(format!(
            "{BUGS}: this stands {count} times in {}, not once: {before}",
            path.display()
        )));
    }
    write(path, &text.replacen(before, after, 1))
}

fn copy_all(from: &Path, to: &PathBuf) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure(format!("copying {}: {error}", from.display()));
    if !from.is_dir() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::copy(from, to).map_err(failed)?;
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Gives what is as it was the time that it had, so that Cargo does not compile it again.
fn keep_times(before: &Path, now: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", now.display()));
    if now.is_dir() {
        for entry in fs::read_dir(now).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            keep_times(&before.join(entry.file_name()), &entry.path())?;
        }
    } else if fs::read(before).is_ok_and(|bytes| fs::read(now).is_ok_and(|same| same == bytes)) {
        let time = fs::metadata(before).and_then(|metadata| metadata.modified()).map_err(failed)?;
        let file = File::options().write(true).open(now).map_err(failed)?;
        file.set_modified(time).map_err(failed)?;
    }
    Ok(())
}

fn removed(folder: &Path) -> Result<(), Failure> {
    let is_there = folder.exists();
    let gone = if is_there { fs::remove_dir_all(folder) } else { Ok(()) };
    gone.map_err(|error| Failure(format!("{}: {error}", folder.display())))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn only_what_has_changed_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let [before, now] = ["before", "now"].map(|name| folder.path().join(name));
        let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (place, name, text) in [
            (&before, "same", "1"),
            (&before, "changed", "1"),
            (&now, "same", "1"),
            (&now, "changed", "2"),
            (&now, "added", "1"),
        ] {
            let file = place.join("crates").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            write(&file, text).unwrap();
            if place == &before {
                File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
            }
        }
        keep_times(&before, &now).unwrap();
        let is_old = |name| fs::metadata(now.join("crates").join(name)).unwrap().modified().unwrap() == old;
        assert_eq!(["same", "changed", "added"].map(is_old), [true, false, false]);
    }
}

//! `cargo xtask mutants`: small changes of the code, one at a time, that the unit tests of its crate must notice.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::copy::{renew, set_version};
use crate::tools::{Failure, cargo, output, root, run, shown, target_dir, write};

/// The newest, from its own crate.
const CARGO_MUTANTS: &str = "27.1.0";
/// A test that takes longer never ends: the slowest crate needs half of this on a busy machine.
const TEST_SECONDS_MIN: &str = "60";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Sources, e.g. crates/core/src/decide/due.rs.
    #[arg(required_unless_present = "since")]
    files: Vec<String>,
    /// Only code that is not as it was in this commit.
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    /// Say what would be changed, and run nothing.
    #[arg(long)]
    list: bool,
}

/// Runs cargo-mutants on a copy of the sources.
///
/// # Errors
/// A change that no test notices; or cargo-mutants cannot be installed.
pub(crate) fn mutants(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(missing) = arguments.files.iter().find(|file| !root().join(file).is_file()) {
        return Err(Failure(format!("{missing} does not exist below {}", root().display())));
    }
    let program = cargo_mutants()?;
    let folder = target_dir().join("mutants");
    let copy = folder.join("sources");
    renew(&copy, root(), sources()?, |copy| set_version(copy, "mutants"))?;
    let mut mutants = Command::new(program);
    mutants.args(["mutants", "--in-place", "--minimum-test-timeout", TEST_SECONDS_MIN]);
    mutants.arg("--output").arg(&folder);
    mutants.args(arguments.files.iter().map(|file| format!("--file={file}")));
    if let Some(commit) = &arguments.since {
        mutants.arg("--in-diff").arg(changes_since(commit, &folder)?);
    }
    if arguments.list {
        mutants.arg("--list");
    }
    // Without the examples in the documentation: each is a program to link.
    mutants.args(["--", "--tests"]);
    // Where the dependencies are compiled already.
    mutants.current_dir(copy).env("CARGO_TARGET_DIR", target_dir());
    println!("$ {}", shown(&mutants));
    let status =
        mutants.status().map_err(|error| Failure(format!("cargo-mutants does not start: {error}")))?;
    // "Exit codes", the cargo-mutants book. A test that never ends has noticed the change, too.
    match status.code() {
        Some(0 | 3) => Ok(()),
        Some(2) => Err(Failure(format!(
            "no unit test notices the changes in {}: write tests for those that a user would notice",
            folder.join("mutants.out/missed.txt").display()
        ))),
        _ => Err(Failure(format!("cargo-mutants failed: {status}"))),
    }
}

/// All files that the tests may read, with changes that are not committed.
fn sources() -> Result<Vec<String>, Failure> {
    let files = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let files = output(&mut git(&files))?;
    Ok(files.lines().filter(|file| root().join(file).is_file()).map(str::to_owned).collect())
}

/// A file with what is changed since a commit in our crates.
fn changes_since(commit: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let changes = folder.join("since.diff");
    write(&changes, &output(&mut git(&["diff", commit, "--", "crates/*.rs"]))?)?;
    Ok(changes)
}

fn git(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(root());
    git
}

/// The program under `target/tools`, compiled if it is not there yet.
fn cargo_mutants() -> Result<PathBuf, Failure> {
    let tools = target_dir().join("tools");
    let program = tools.join("bin/cargo-mutants");
    if output(Command::new(&program).args(["mutants", "--version"]))
        .is_ok_and(|version| version.trim() == format!("cargo-mutants {CARGO_MUTANTS}"))
    {
        return Ok(program);
    }
    let mut install = cargo(&["install", "--debug", "--locked", "--quiet", "--force", "--root"]);
    install.arg(&tools).arg(format!("cargo-mutants@{CARGO_MUTANTS}"));
    run(install.env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_DEV_DEBUG", "none"))?;
    Ok(program)
}

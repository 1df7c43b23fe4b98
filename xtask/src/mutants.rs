//! `cargo xtask mutants`: makes small code changes, one at a time, that the unit tests of the crate must catch.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::copy::{refresh_copy, set_version};
use crate::tools::{
    TaskFailure, cargo_command, command_output, render_command, run_command, target_dir, workspace_root,
    write_file,
};

/// The pinned version: the newest on crates.io.
const CARGO_MUTANTS: &str = "27.1.0";
/// The minimum test timeout. On a busy machine, the slowest crate's tests take half of this; tests that take longer
/// hang.
const TEST_SECONDS_MIN: &str = "60";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Source files, e.g. crates/core/src/decide/due.rs.
    #[arg(required_unless_present = "since")]
    files: Vec<String>,
    /// Change only code that differs from this commit.
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    /// List the changes without running any tests.
    #[arg(long)]
    list: bool,
}

/// Runs cargo-mutants on a copy of the sources.
///
/// # Errors
/// A change is not caught by any test, or cargo-mutants cannot be installed.
pub(crate) fn run_mutants(arguments: &Arguments) -> Result<(), TaskFailure> {
    if let Some(missing) = arguments.files.iter().find(|file| !workspace_root().join(file).is_file()) {
        return Err(TaskFailure(format!("{missing} does not exist below {}", workspace_root().display())));
    }
    let program = ensure_cargo_mutants()?;
    let folder = target_dir().join("mutants");
    let copy = folder.join("sources");
    refresh_copy(&copy, workspace_root(), list_sources()?, |copy| set_version(copy, "mutants"))?;
    let mut mutants = Command::new(program);
    mutants.args(["mutants", "--in-place", "--minimum-test-timeout", TEST_SECONDS_MIN]);
    mutants.arg("--output").arg(&folder);
    mutants.args(arguments.files.iter().map(|file| format!("--file={file}")));
    if let Some(commit) = &arguments.since {
        mutants.arg("--in-diff").arg(write_diff_since(commit, &folder)?);
    }
    if arguments.list {
        mutants.arg("--list");
    }
    // Without doc tests, because each is a separate program to link.
    mutants.args(["--", "--tests"]);
    // The target directory already contains the compiled dependencies.
    mutants.current_dir(copy).env("CARGO_TARGET_DIR", target_dir());
    println!("$ {}", render_command(&mutants));
    let status =
        mutants.status().map_err(|error| TaskFailure(format!("cargo-mutants does not start: {error}")))?;
    // "Exit codes" in the cargo-mutants book. A test that times out also counts as catching the change.
    match status.code() {
        Some(0 | 3) => Ok(()),
        Some(2) => Err(TaskFailure(format!(
            "no unit test catches the changes in {}: write tests for those that a user would notice",
            folder.join("mutants.out/missed.txt").display()
        ))),
        _ => Err(TaskFailure(format!("cargo-mutants failed: {status}"))),
    }
}

/// Lists all files that the tests might read, including uncommitted changes.
fn list_sources() -> Result<Vec<String>, TaskFailure> {
    let files = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let files = command_output(&mut git_command(&files))?;
    Ok(files.lines().filter(|file| workspace_root().join(file).is_file()).map(str::to_owned).collect())
}

/// Writes a diff of the crates against a commit to a file, and returns the file's path.
fn write_diff_since(commit: &str, folder: &Path) -> Result<PathBuf, TaskFailure> {
    let changes = folder.join("since.diff");
    write_file(&changes, &command_output(&mut git_command(&["diff", commit, "--", "crates/*.rs"]))?)?;
    Ok(changes)
}

fn git_command(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(workspace_root());
    git
}

/// Returns the program under `target/tools`, and compiles it first if it is missing.
fn ensure_cargo_mutants() -> Result<PathBuf, TaskFailure> {
    let tools = target_dir().join("tools");
    let program = tools.join("bin/cargo-mutants");
    if command_output(Command::new(&program).args(["mutants", "--version"]))
        .is_ok_and(|version| version.trim() == format!("cargo-mutants {CARGO_MUTANTS}"))
    {
        return Ok(program);
    }
    let mut install = cargo_command(&["install", "--debug", "--locked", "--quiet", "--force", "--root"]);
    install.arg(&tools).arg(format!("cargo-mutants@{CARGO_MUTANTS}"));
    run_command(install.env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_DEV_DEBUG", "none"))?;
    Ok(program)
}

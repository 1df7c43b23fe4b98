//! `cargo xtask fuzz`: runs libFuzzer on every target in tests/fuzz, whose documentation describes the targets.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tools::{
    TaskFailure, cargo_command, command_output, env_variable, run_command, target_dir, workspace_root,
};

/// The total wall-clock time for all targets. In a run of all tests, the end-to-end tests run at the same time; they
/// take longer, and mostly wait.
const SECONDS: u64 = 180;
/// The wall-clock limit for one input. Even on a busy machine, an input that takes longer would never finish.
const HANG: &str = "-timeout=300";
/// The number of lines of libFuzzer's output that an error shows: a panic's message and the path of the input.
const LINES_SHOWN: usize = 40;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The only target to run; by default, all targets run in turn.
    target: Option<String>,
    /// Total time for all targets.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Run the target only on this input: the file that a crash left behind.
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with_all = ["seconds", "keep"])]
    replay: Option<PathBuf>,
    /// Add inputs from earlier runs that reach new code to tests/fuzz/corpus, without fuzzing.
    #[arg(long, conflicts_with = "seconds")]
    keep: bool,
}

/// Checks that libFuzzer, which is written in C++, can be built on this machine.
///
/// # Errors
/// A tool is missing: the error says what to install.
pub(crate) fn require_compiler() -> Result<(), TaskFailure> {
    let compiler = env_variable("CXX").unwrap_or_else(|| "c++".into());
    let found = command_output(Command::new(compiler).arg("--version"));
    found
        .map(drop)
        .map_err(|_| TaskFailure("install a C++ compiler (the command `c++`, or name one in CXX)".to_owned()))
}

pub(crate) fn run_fuzzers(arguments: &Arguments) -> Result<(), TaskFailure> {
    let mut targets = list_targets()?;
    if let Some(wanted) = &arguments.target {
        if !targets.contains(wanted) {
            return Err(TaskFailure(format!(
                "there is no target {wanted}; choose one of {}",
                targets.join(", ")
            )));
        }
        targets.retain(|target| target == wanted);
    }
    require_compiler()?;
    let fuzzer = build_fuzzer()?;
    if let (Some(input), [target]) = (&arguments.replay, &targets[..]) {
        return run_command(fuzzer_command(&fuzzer, target).arg(workspace_root().join(input)));
    }
    if arguments.keep {
        return targets.iter().try_for_each(|target| merge_corpus(&fuzzer, target));
    }
    let seconds = (arguments.seconds / targets.len() as u64).max(1);
    targets.iter().try_for_each(|target| fuzz_target(&fuzzer, target, seconds))
}

/// Returns the targets, named like their corpora. A test in tests/fuzz checks that each target has a corpus.
fn list_targets() -> Result<Vec<String>, TaskFailure> {
    let failure = |error| TaskFailure(format!("tests/fuzz/corpus: {error}"));
    let mut names = Vec::new();
    for entry in fs::read_dir(corpora_folder()).map_err(failure)? {
        names.push(entry.map_err(failure)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Builds the fuzzer. Only the workspace's own crates are compiled differently from the tests' build, so no other crate
/// is compiled again.
fn build_fuzzer() -> Result<PathBuf, TaskFailure> {
    let mut build = cargo_command(&["build", "--bin", "fuzz", "--features", "redeliver-fuzz/libfuzzer"]);
    run_command(build.env("RUSTC_WORKSPACE_WRAPPER", workspace_root().join("tests/fuzz/coverage.sh")))?;
    Ok(target_dir().join("debug/fuzz"))
}

fn fuzz_target(fuzzer: &Path, target: &str, seconds: u64) -> Result<(), TaskFailure> {
    let crashes = target_folder("crashes", target)?;
    let log = target_dir().join("fuzz").join(format!("{target}.log"));
    let failure = |error: std::io::Error| TaskFailure(format!("{}: {error}", log.display()));
    let file = File::create(&log).map_err(failure)?;
    let mut command = fuzzer_command(fuzzer, target);
    command.args([HANG, "-rss_limit_mb=1024", &format!("-max_total_time={seconds}")]);
    command.arg(format!("-dict={}", workspace_root().join("tests/fuzz/words.dict").display()));
    command.arg(format!("-artifact_prefix={}/", crashes.display()));
    // New inputs go to the first directory.
    command.arg(target_folder("corpus", target)?).arg(corpora_folder().join(target)).args(shared_inputs());
    let done = run_command(command.stdout(Stdio::null()).stderr(file));
    let printed = String::from_utf8_lossy(&fs::read(&log).map_err(failure)?).into_owned();
    let lines: Vec<_> = printed.lines().collect();
    match done {
        Ok(()) => {
            println!("{target}: {}", lines.last().unwrap_or(&""));
            Ok(())
        }
        Err(TaskFailure(message)) => Err(TaskFailure(format!(
            "{message}\n{}\n\nto replay the written input: cargo xtask fuzz {target} --replay FILE",
            lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
        ))),
    }
}

/// Merges the inputs found by earlier runs into the corpus.
fn merge_corpus(fuzzer: &Path, target: &str) -> Result<(), TaskFailure> {
    let mut command = fuzzer_command(fuzzer, target);
    // Large inputs rarely reach more code, and the limit keeps the repository small.
    command
        .args(["-set_cover_merge=1", "-use_counters=0", "-max_len=512"])
        .arg(corpora_folder().join(target))
        .arg(target_folder("corpus", target)?);
    run_command(command.stderr(Stdio::null()))
}

fn fuzzer_command(fuzzer: &Path, target: &str) -> Command {
    let mut command = Command::new(fuzzer);
    command.arg(format!("--target={target}")).current_dir(workspace_root());
    command
}

fn corpora_folder() -> PathBuf {
    workspace_root().join("tests/fuzz/corpus")
}

/// Creates and returns a target's folder for the findings from local runs.
fn target_folder(kind: &str, target: &str) -> Result<PathBuf, TaskFailure> {
    let directory = target_dir().join("fuzz").join(kind).join(target);
    fs::create_dir_all(&directory)
        .map_err(|error| TaskFailure(format!("{}: {error}", directory.display())))?;
    Ok(directory)
}

/// Returns the initial inputs that all targets share.
fn shared_inputs() -> [PathBuf; 3] {
    ["tests/fuzz/json-test-suite", "schemas/examples/valid", "schemas/examples/invalid"]
        .map(|path| workspace_root().join(path))
}

//! `cargo xtask fuzz`: libFuzzer on every target of tests/fuzz, whose documentation says what they are.

mod coverage;
mod outcome;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fuzz::outcome::Outcome;
use crate::tools::{Failure, cargo, now, output, processor_time, root, run, target_dir, variable};
pub(crate) use coverage::compile;

/// By the clock, for all targets together. In a run of all tests the end-to-end tests take longer, and mostly wait.
const SECONDS: u64 = 180;
/// An input that takes so long, run alone, is a finding: in processor time.
const INPUT_SECONDS_MAX: u64 = 10;
/// By the clock, which runs on while a busy machine does something else: an input that takes longer is taken for one that
/// never ends.
const HANG_SECONDS: u64 = 300;

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only this one; all of them in turn without.
    target: Option<String>,
    /// For all targets together.
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Run the target on this input alone: what a crash has left.
    #[arg(long, value_name = "FILE", requires = "target", conflicts_with_all = ["seconds", "keep"])]
    replay: Option<PathBuf>,
    /// Add to tests/fuzz/corpus what earlier runs have found and what reaches code that the corpus does not, and fuzz nothing.
    #[arg(long, conflicts_with = "seconds")]
    keep: bool,
}

/// Whether the engine can be built here: it is C++.
///
/// # Errors
/// What to install.
pub(crate) fn compiler() -> Result<(), Failure> {
    let compiler = variable("CXX").unwrap_or_else(|| "c++".into());
    let found = output(Command::new(compiler).arg("--version"));
    found
        .map(drop)
        .map_err(|_| Failure("install a C++ compiler (the command `c++`, or name one in CXX)".to_owned()))
}

/// The task.
pub(crate) fn fuzz(arguments: &Arguments) -> Result<(), Failure> {
    let mut targets = targets()?;
    if let Some(wanted) = &arguments.target {
        if !targets.contains(wanted) {
            return Err(Failure(format!("there is no target {wanted}; there are {}", targets.join(", "))));
        }
        targets.retain(|target| target == wanted);
    }
    compiler()?;
    let fuzzer = build()?;
    if let (Some(input), [target]) = (&arguments.replay, &targets[..]) {
        return run(fuzzer_on(&fuzzer, target).arg(root().join(input)));
    }
    if arguments.keep {
        return targets.iter().try_for_each(|target| keep(&fuzzer, target));
    }
    fuzz_all(&fuzzer, &targets, arguments.seconds)
}

/// The names of the targets: those of their corpora, and a test of tests/fuzz sees to it that none is missing.
fn targets() -> Result<Vec<String>, Failure> {
    let failure = |error| Failure(format!("tests/fuzz/corpus: {error}"));
    let mut names = Vec::new();
    for entry in fs::read_dir(corpora()).map_err(failure)? {
        names.push(entry.map_err(failure)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The ordinary build of the tests but for our own crates. All workspace members are selected, as they are there: the same
/// features, so that nothing else is built twice.
fn build() -> Result<PathBuf, Failure> {
    let mut command = cargo(&["build", "--bin", "fuzz", "--features", "redeliver-fuzz/libfuzzer"]);
    coverage::switch_on(&mut command)?;
    run(&mut command)?;
    Ok(target_dir().join("debug/fuzz"))
}

fn fuzz_all(fuzzer: &Path, targets: &[String], seconds: u64) -> Result<(), Failure> {
    let mut crashed = Vec::new();
    println!("{:<12} {:>10} {:>9} {:>7} {:>7}", "target", "executions", "coverage", "corpus", "new");
    let mut left = seconds;
    for (index, target) in targets.iter().enumerate() {
        let share = left / (targets.len() - index) as u64;
        left -= share;
        let outcome = fuzz_one(fuzzer, target, share.max(1))?;
        println!("{target:<12} {outcome}");
        crashed.extend(outcome.crash);
    }
    if crashed.is_empty() { Ok(()) } else { Err(Failure(crashed.join("\n"))) }
}

fn fuzz_one(fuzzer: &Path, target: &str, seconds: u64) -> Result<Outcome, Failure> {
    let found = found(target)?;
    let crashes = target_dir().join("fuzz/crashes").join(target);
    fs::create_dir_all(&crashes).map_err(|error| Failure(format!("{}: {error}", crashes.display())))?;
    let log = target_dir().join("fuzz").join(format!("{target}.log"));
    let file = File::create(&log).map_err(|error| Failure(format!("{}: {error}", log.display())))?;
    let before = count(&found);

    let mut command = fuzzer_on(fuzzer, target);
    command.args(times(seconds));
    command.args(["-rss_limit_mb=1024", "-print_final_stats=1"]);
    command.arg(format!("-dict={}", root().join("tests/fuzz/words.dict").display()));
    command.arg(format!("-artifact_prefix={}/", crashes.display()));
    // New inputs go to the first directory.
    command.arg(&found).arg(corpora().join(target)).args(shared_inputs());
    let status = command.stdout(Stdio::null()).stderr(file).status();
    let status = status.map_err(|error| Failure(format!("{} does not start: {error}", fuzzer.display())))?;

    let bytes = fs::read(&log).map_err(|error| Failure(format!("{}: {error}", log.display())))?;
    let said = String::from_utf8_lossy(&bytes);
    let mut outcome = Outcome::read(&said);
    outcome.new = count(&found).saturating_sub(before);
    outcome.crash = match status.success() {
        true => too_slow(fuzzer, target, &said)?,
        false => Some(outcome::crash(target, &said, &log)),
    };
    Ok(outcome)
}

/// Inputs that took long by the clock are run once more, alone: their processor time is the same on a busy machine.
/// libFuzzer names an input only if it is slower than all before it, by a tenth: a stall may hide one until the next run.
fn too_slow(fuzzer: &Path, target: &str, said: &str) -> Result<Option<String>, Failure> {
    for input in outcome::slow_inputs(said) {
        let (start, before) = (now(), processor_time());
        output(fuzzer_on(fuzzer, target).arg(input))?;
        let of_processor = processor_time().saturating_sub(before);
        // Only Linux tells it.
        let seconds = if cfg!(target_os = "linux") { of_processor } else { start.elapsed() }.as_secs();
        if seconds >= INPUT_SECONDS_MAX {
            return Ok(Some(outcome::slow(target, input, seconds)));
        }
    }
    Ok(None)
}

/// Merges what was found into the corpus.
fn keep(fuzzer: &Path, target: &str) -> Result<(), Failure> {
    let mut command = fuzzer_on(fuzzer, target);
    // Large inputs are rarely the telling ones, and the repository stays small.
    command
        .args(["-set_cover_merge=1", "-use_counters=0", "-max_len=512"])
        .arg(corpora().join(target))
        .arg(found(target)?);
    run(command.stderr(Stdio::null()))
}

fn fuzzer_on(fuzzer: &Path, target: &str) -> Command {
    let mut command = Command::new(fuzzer);
    command.arg(format!("--target={target}")).current_dir(root());
    command
}

fn corpora() -> PathBuf {
    root().join("tests/fuzz/corpus")
}

/// What this machine's runs have found.
fn found(target: &str) -> Result<PathBuf, Failure> {
    let directory = target_dir().join("fuzz/corpus").join(target);
    fs::create_dir_all(&directory).map_err(|error| Failure(format!("{}: {error}", directory.display())))?;
    Ok(directory)
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Inputs that every target begins with.
fn shared_inputs() -> [PathBuf; 3] {
    ["tests/fuzz/json-test-suite", "schemas/examples/valid", "schemas/examples/invalid"]
        .map(|path| root().join(path))
}

/// How long it runs, and what it makes of an input that takes long.
fn times(seconds: u64) -> [String; 3] {
    [
        format!("-max_total_time={seconds}"),
        format!("-timeout={HANG_SECONDS}"),
        format!("-report_slow_units={INPUT_SECONDS_MAX}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_input_is_told_long_before_one_is_taken_for_endless() {
        assert_eq!(times(7), ["-max_total_time=7", "-timeout=300", "-report_slow_units=10"]);
    }
}

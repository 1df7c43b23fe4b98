//! The steps of a run, with their times and skips.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::beside::BackgroundProcess;
use crate::tools::{TaskFailure, is_ci, now, processor_time, target_dir, workspace_root};

/// The steps of a run so far.
pub(crate) struct StepReport {
    started: Instant,
    steps: Vec<ReportedStep>,
    skipped: Vec<(String, String)>,
}

struct ReportedStep {
    name: &'static str,
    time: Duration,
    /// The processor time of the step's finished processes, which does not depend on the machine's load.
    processor_time: Duration,
    succeeded: bool,
}

#[derive(Deserialize)]
struct KnownSkips {
    skip: Vec<KnownSkip>,
}

#[derive(Deserialize)]
struct KnownSkip {
    name: String,
}

impl StepReport {
    /// Creates a report and starts measuring its total time.
    pub(crate) fn begin() -> Self {
        Self { started: now(), steps: Vec::new(), skipped: Vec::new() }
    }

    /// Runs a step and records its time.
    pub(crate) fn run_step<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<T, TaskFailure>,
    ) -> Result<T, TaskFailure> {
        println!("\n=== {name}");
        let (start, processor_start) = (now(), processor_time());
        let done = work();
        let processor_time = processor_time().saturating_sub(processor_start);
        self.steps.push(ReportedStep {
            name,
            time: start.elapsed(),
            processor_time,
            succeeded: done.is_ok(),
        });
        done.map_err(|TaskFailure(message)| TaskFailure(format!("{name}: {message}")))
    }

    /// Waits for a step that ran in the background.
    pub(crate) fn finish_background_step(
        &mut self,
        name: &'static str,
        beside: BackgroundProcess,
    ) -> Result<(), TaskFailure> {
        println!("\n=== {name}");
        let (start, processor_start) = (now(), processor_time());
        let done = beside.finish();
        let time = done.as_ref().map_or_else(|_| start.elapsed(), |time| *time);
        let processor_time = processor_time().saturating_sub(processor_start);
        self.steps.push(ReportedStep { name, time, processor_time, succeeded: done.is_ok() });
        done.map(drop).map_err(|TaskFailure(message)| TaskFailure(format!("{name}: {message}")))
    }

    /// Records a skipped step. With `CI` set, that is a failure unless `tests/known-skips.toml` lists the step.
    pub(crate) fn skip_step(&mut self, name: &str, reason: &str) -> Result<(), TaskFailure> {
        println!("\n=== SKIPPED {name}: {reason}");
        self.skipped.push((name.to_owned(), reason.to_owned()));
        if is_ci() && !known_skips()?.contains(name) {
            return Err(TaskFailure(format!("{name} must not be skipped with CI set: {reason}")));
        }
        Ok(())
    }

    /// Prints the steps with their times, and what this run and the tests themselves skipped. Tests fail on skips that
    /// `tests/known-skips.toml` does not list.
    pub(crate) fn print_summary(&self) {
        println!("\n=== steps, with elapsed and processor time");
        for ReportedStep { name, time, processor_time, succeeded } in &self.steps {
            let verdict = if *succeeded { "ok    " } else { "FAILED" };
            let (time, processor_time) = (time.as_secs_f64(), processor_time.as_secs_f64());
            println!("{time:>7.1} s {processor_time:>7.1} s  {verdict} {name}");
        }
        let (time, processor_time) = (self.started.elapsed().as_secs_f64(), processor_time().as_secs_f64());
        println!("{time:>7.1} s {processor_time:>7.1} s  total");

        let by_tests = fs::read_to_string(skipped_tests_path()).unwrap_or_default();
        let by_tests: BTreeSet<&str> = by_tests.lines().collect();
        println!(
            "\n=== skipped{}",
            if self.skipped.is_empty() && by_tests.is_empty() { ": nothing" } else { "" }
        );
        for (name, reason) in &self.skipped {
            println!("{name}: {reason}");
        }
        for line in by_tests {
            println!("{line}");
        }
    }
}

/// Removes the record of skips from an earlier run's tests.
pub(crate) fn forget_skipped_tests() {
    let _might_not_exist = fs::remove_file(skipped_tests_path());
}

/// Returns the file to which the tests write a line for each skipped rule.
fn skipped_tests_path() -> std::path::PathBuf {
    target_dir().join("skipped-tests.txt")
}

fn known_skips() -> Result<BTreeSet<String>, TaskFailure> {
    let failure = |error: &dyn std::fmt::Display| TaskFailure(format!("tests/known-skips.toml: {error}"));
    let text = fs::read_to_string(workspace_root().join("tests/known-skips.toml"))
        .map_err(|error| failure(&error))?;
    let known: KnownSkips = toml::from_str(&text).map_err(|error| failure(&error))?;
    Ok(known.skip.into_iter().map(|skip| skip.name).collect())
}

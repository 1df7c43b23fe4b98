//! What libFuzzer says of a run.

use std::fmt;
use std::path::Path;

/// Lines of its output that a report shows.
const LINES_SHOWN: usize = 12;

/// One target's run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    executions: u64,
    /// Places in our code that were reached.
    coverage: u64,
    /// Inputs that reach them.
    corpus: u64,
    /// Inputs that this run has found.
    pub(super) new: usize,
    /// What happened, and what replays it.
    pub(super) crash: Option<String>,
}

impl Outcome {
    /// Reads the output: status lines (`#4711 NEW cov: 12 ft: 34 corp: 5/6b …`), and the statistics at its end.
    pub(super) fn read(output: &str) -> Self {
        let executions = output.lines().rev().find_map(|line| {
            let number = line.strip_prefix("stat::number_of_executed_units:")?;
            number.trim().parse().ok()
        });
        let last = |name: &str| {
            let mut values = output.lines().rev().filter(|line| line.starts_with('#')).filter_map(|line| {
                let mut words = line.split_whitespace().skip_while(|word| *word != name).skip(1);
                words.next()?.split('/').next()?.parse().ok()
            });
            values.next().unwrap_or(0)
        };
        Self {
            executions: executions.unwrap_or(0),
            coverage: last("cov:"),
            corpus: last("corp:"),
            new: 0,
            crash: None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { executions, coverage, corpus, new, crash } = self;
        let crash = if crash.is_some() { "  CRASHED" } else { "" };
        write!(f, "{executions:>10} {coverage:>9} {corpus:>7} {new:>7}{crash}")
    }
}

/// The input's file, the command that replays it, and what was said.
pub(super) fn crash(target: &str, output: &str, log: &Path) -> String {
    let said =
        output.lines().skip_while(|line| !line.contains("panicked at") && !line.contains("ERROR: libFuzzer"));
    let said = said.take_while(|line| *line != "stack backtrace:").take(LINES_SHOWN);
    let said: String = said.map(|line| format!("\n  {line:.300}")).collect();
    match written(output).find(|input| !is_slow(input)) {
        Some(input) => format!("{target} fails on {input}:{said}\n  {}", replay(target, input)),
        None => format!("{target} ended without an input; see {}:{said}", log.display()),
    }
}

/// The inputs of which it says that they took long.
pub(super) fn slow_inputs(output: &str) -> impl Iterator<Item = &str> {
    written(output).filter(|input| is_slow(input))
}

/// What to say of an input that took so many seconds of processor time.
pub(super) fn slow(target: &str, input: &str, seconds: u64) -> String {
    format!("{target} takes {seconds} s of processor time for {input}\n  {}", replay(target, input))
}

/// The files into which it has written inputs.
fn written(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.split_once("Test unit written to ")).map(|(_, path)| path)
}

fn is_slow(input: &str) -> bool {
    Path::new(input).file_name().is_some_and(|name| name.to_string_lossy().starts_with("slow-unit-"))
}

fn replay(target: &str, input: &str) -> String {
    format!("replay it with: cargo xtask fuzz {target} --replay {input}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "#2\tINITED cov: 32 ft: 33 corp: 1/1b exec/s: 0 rss: 27Mb\n#220\tNEW    cov: 33 ft: 40 corp: 2/7b lim: 6\n";

    #[test]
    fn a_run_is_told_by_its_last_status_and_its_statistics() {
        let output = format!("{STATUS}stat::number_of_executed_units: 4711\n");
        let expected = Outcome { executions: 4711, coverage: 33, corpus: 2, ..Outcome::default() };
        assert_eq!(Outcome::read(&output), expected);
        assert_eq!(Outcome::read(""), Outcome::default());
    }

    #[test]
    fn a_slow_input_is_no_crash_yet_and_does_not_hide_one() {
        let output = "artifact_prefix='/t/'; Test unit written to /t/slow-unit-1\n\
            ERROR: libFuzzer: deadly signal\nartifact_prefix='/t/'; Test unit written to /t/crash-1\n";
        assert_eq!(slow_inputs(output).collect::<Vec<_>>(), ["/t/slow-unit-1"]);
        let told = crash("edit", output, Path::new("/t/edit.log"));
        assert!(told.starts_with("edit fails on /t/crash-1:\n  ERROR: libFuzzer: deadly signal"), "{told}");
        let expected = "edit takes 11 s of processor time for /t/slow-unit-1\n  replay it with: cargo xtask fuzz edit --replay /t/slow-unit-1";
        assert_eq!(slow("edit", "/t/slow-unit-1", 11), expected);
    }

    #[test]
    fn a_crash_names_the_input_and_the_command_that_replays_it() {
        let output = format!(
            "{STATUS}thread panicked at a.rs:1:2:\nwrong\nartifact_prefix='/t/'; Test unit written to /t/crash-1\n"
        );
        let told = crash("edit", &output, Path::new("/t/edit.log"));
        assert!(
            told.starts_with("edit fails on /t/crash-1:\n  thread panicked at a.rs:1:2:\n  wrong\n"),
            "{told}"
        );
        assert!(told.ends_with("\n  replay it with: cargo xtask fuzz edit --replay /t/crash-1"), "{told}");
        let told = crash("edit", "ERROR: libFuzzer: out-of-memory", Path::new("/t/edit.log"));
        assert_eq!(told, "edit ended without an input; see /t/edit.log:\n  ERROR: libFuzzer: out-of-memory");
    }
}

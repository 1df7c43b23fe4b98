//! `cargo xtask test`.

use std::fs;
use std::process::Command;

use crate::report::{Report, forget_skipped_tests};
use crate::tools::{Failure, cargo, root, run, target_dir, variable};
use crate::venv::{self, Emulators};

/// The programs that the tests run. All workspace members are selected, as they are by the README's `cargo run --release`:
/// the same features, so nothing is built twice.
const RELEASE_BUILD: [&str; 12] = [
    "build",
    "--release",
    "--bin",
    "message-processor",
    "--bin",
    "failed-message-processor",
    "--bin",
    "final-dlq-annotator",
    "--bin",
    "redeliver",
    "--bin",
    "scripted-processor",
];

/// Everything, in the order in which it says most for least time; stops at the first failure.
pub(crate) fn all() -> Result<(), Failure> {
    let mut report = Report::default();
    forget_skipped_tests();
    let done = steps(&mut report);
    report.print();
    done?;
    println!("\nall tests passed");
    Ok(())
}

/// The end-to-end tests alone.
pub(crate) fn end_to_end(arguments: &[String]) -> Result<(), Failure> {
    if let Emulators::Unavailable(remedy) = venv::set_up()? {
        return Err(Failure(remedy.to_owned()));
    }
    run(&mut cargo(&RELEASE_BUILD))?;
    run(patient(&mut cargo(&["test", "--workspace", "--test", "end_to_end", "--"])).args(arguments))
}

fn steps(report: &mut Report) -> Result<(), Failure> {
    report.step("format", || run(&mut cargo(&["fmt", "--all", "--check"])))?;
    let emulators = report.step("Python environment of the emulators", venv::set_up)?;
    report.step("lints", || {
        run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))
    })?;
    report.step("release build of the programs", || run(&mut cargo(&RELEASE_BUILD)))?;
    report.step("build of the tests", || run(&mut cargo(&["test", "--workspace", "--no-run"])))?;
    report
        .step("unit and property tests", || run(&mut cargo(&["test", "--workspace", "--lib", "--bins"])))?;
    system_tests(report, &emulators)?;
    report.step("documentation tests", || run(&mut cargo(&["test", "--workspace", "--doc"])))?;
    report.step("documentation", || {
        run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))
    })?;
    report.step("README commands", readme_commands)
}

/// Conformance, end to end, schemas. What needs an emulator has its name in the test's path, so that it can be left out.
fn system_tests(report: &mut Report, emulators: &Emulators) -> Result<(), Failure> {
    let mut command = cargo(&["test", "--workspace", "--test", "*", "--"]);
    if let Emulators::Unavailable(remedy) = emulators {
        report.skip("tests on ministack and aws-lambda-rie", remedy)?;
        command.args(["--skip", "ministack", "--skip", "lambda_rie"]);
    }
    report.step("conformance, end-to-end and schema tests", || run(patient(&mut command)))
}

/// These tests wait for queues most of the time: more of them than there are processors can run at once.
fn patient(command: &mut Command) -> &mut Command {
    command.env("RUST_TEST_THREADS", variable("RUST_TEST_THREADS").unwrap_or_else(|| "8".into()))
}

/// Runs each `cargo run` line of the README's `sh` blocks as a reader would.
fn readme_commands() -> Result<(), Failure> {
    let readme = fs::read_to_string(root().join("README.md"))
        .map_err(|error| Failure(format!("README.md: {error}")))?;
    let commands = shell_commands(&readme, "cargo run ");
    if commands.is_empty() {
        return Err(Failure("README.md has no `cargo run` line in an `sh` block".to_owned()));
    }
    for command in commands {
        run(Command::new("sh")
            .args(["-c", command])
            .current_dir(root())
            .env("CARGO_TARGET_DIR", target_dir()))?;
    }
    Ok(())
}

/// The lines of a Markdown text's `sh` blocks that start with `prefix`.
fn shell_commands<'a>(markdown: &'a str, prefix: &str) -> Vec<&'a str> {
    let mut commands = Vec::new();
    let mut in_shell_block = false;
    for line in markdown.lines() {
        match line.strip_prefix("```") {
            Some(language) => in_shell_block = !in_shell_block && language == "sh",
            None if in_shell_block && line.starts_with(prefix) => commands.push(line),
            None => {}
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::shell_commands;

    #[test]
    fn only_shell_blocks_hold_commands() {
        let markdown = "cargo run 0\n```sh\ncargo run 1\necho\ncargo run 2\n```\ncargo run 3\n```text\ncargo run 4\n```\n";
        assert_eq!(shell_commands(markdown, "cargo run "), ["cargo run 1", "cargo run 2"]);
    }
}

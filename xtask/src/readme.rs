//! Runs the README's commands as a reader would.

use std::fs;
use std::process::Command;

use crate::tools::{TaskFailure, run_command, target_dir, workspace_root};

/// The file that the README's command creates. `.gitignore` also lists it.
const DEAD_LETTERS: &str = "dead.jsonl";

/// Runs each `cargo run` line of the README's `sh` blocks as a reader would.
pub(crate) fn run_commands() -> Result<(), TaskFailure> {
    let readme = fs::read_to_string(workspace_root().join("README.md"))
        .map_err(|error| TaskFailure(format!("README.md: {error}")))?;
    let commands = shell_commands(&readme, "cargo run ");
    if commands.is_empty() {
        return Err(TaskFailure("README.md has no `cargo run` line in an `sh` block".to_owned()));
    }
    // Removes the file from an earlier run, because the command line never overwrites files.
    let _might_not_exist = fs::remove_file(workspace_root().join(DEAD_LETTERS));
    for command in commands {
        run_command(
            Command::new("sh")
                .args(["-c", command])
                .current_dir(workspace_root())
                .env("CARGO_TARGET_DIR", target_dir()),
        )?;
    }
    fs::remove_file(workspace_root().join(DEAD_LETTERS))
        .map_err(|error| TaskFailure(format!("{DEAD_LETTERS}: {error}")))
}

/// Returns the lines that start with `prefix` in the `sh` blocks of a Markdown text.
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
    fn only_commands_in_shell_blocks_are_returned() {
        let markdown = "cargo run 0\n```sh\ncargo run 1\necho\ncargo run 2\n```\ncargo run 3\n```text\ncargo run 4\n```\n";
        assert_eq!(shell_commands(markdown, "cargo run "), ["cargo run 1", "cargo run 2"]);
    }
}

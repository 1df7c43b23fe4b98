//! Checks for the container image and its examples.

use std::path::Path;
use std::process::Command;

use crate::tools::{TaskFailure, command_output, run_command, workspace_root};

/// Checks `examples/kubernetes.yaml` against Kubernetes' own schemas, and `examples/ecs.yaml` against CloudFormation's.
///
/// # Errors
/// A tool reports a finding.
pub(crate) fn check_manifests(venv: &Path) -> Result<(), TaskFailure> {
    let example = |name: &str| workspace_root().join("examples").join(name);
    let mut kubernetes = Command::new(venv.join("bin/kubernetes-validate"));
    run_command(kubernetes.arg("--strict").arg(example("kubernetes.yaml")))?;
    run_command(Command::new(venv.join("bin/cfn-lint")).arg("--template").arg(example("ecs.yaml")))
}

/// Checks that the image can be built and unpacked on this machine.
///
/// # Errors
/// A tool is missing: the error says what to install.
pub(crate) fn require_tools() -> Result<(), TaskFailure> {
    let remedy =
        "on Debian or Ubuntu, install umoci and ca-certificates: the image is built from their files";
    let there = |program: &str| command_output(Command::new(program).arg("--version"));
    there("dpkg-query").and(there("umoci")).map(drop).map_err(|_| TaskFailure(remedy.to_owned()))
}

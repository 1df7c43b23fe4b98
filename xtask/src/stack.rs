//! The stack's tools: Node.js, npm's packages, the CDK, its tests.

mod left_behind;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tools::{Failure, output, root, run, shown, target_dir};

/// Whether Node.js can be had.
pub(crate) enum Node {
    /// It is there, and the packages of `infra/package-lock.json` are installed.
    Ready,
    /// It is not; what to install.
    Unavailable(&'static str),
}

impl Node {
    /// # Errors
    /// What to install.
    pub(crate) fn required(self) -> Result<(), Failure> {
        match self {
            Self::Ready => Ok(()),
            Self::Unavailable(remedy) => Err(Failure(remedy.to_owned())),
        }
    }
}

const NODE_MAJOR_MIN: u32 = 20;

/// Installs the packages, if they are not installed.
pub(crate) fn set_up() -> Result<Node, Failure> {
    let version = output(Command::new("node").arg("--version")).unwrap_or_default();
    if major(&version).is_none_or(|major| major < NODE_MAJOR_MIN) {
        return Ok(Node::Unavailable("install Node.js 20 or later, with npm"));
    }
    let lock = infra().join("package-lock.json");
    let pins = fs::read_to_string(&lock).map_err(|error| Failure(format!("{}: {error}", lock.display())))?;
    // Written last, so that a half-made installation is made again.
    let stamp = infra().join("node_modules/installed-package-lock.json");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        println!("infra/node_modules is up to date");
        return Ok(Node::Ready);
    }
    // No package needs its install script; none is run.
    run(in_infra("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))?;
    fs::write(&stamp, pins).map_err(|error| Failure(format!("{}: {error}", stamp.display())))?;
    Ok(Node::Ready)
}

/// `cargo xtask cdk`: the pinned CDK with the stack of `infra/`. A deployment that would leave queues behind is refused.
pub(crate) fn cdk(arguments: &[String]) -> Result<(), Failure> {
    set_up()?.required()?;
    let (allowed, arguments): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == left_behind::ALLOW);
    if let Some(diff) = left_behind::diff_arguments(&arguments).filter(|_| allowed.is_empty()) {
        left_behind::refuse(&told_by(&mut cdk_with(&diff)?)?)?;
    }
    run(&mut cdk_with(&arguments)?)
}

/// Runs a command that may ask for a token; what it writes to standard error.
fn told_by(command: &mut Command) -> Result<String, Failure> {
    let line = shown(command);
    println!("$ {line}");
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::piped());
    let ran = command.output().map_err(|error| Failure(format!("{line} does not start: {error}")))?;
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    if ran.status.success() {
        Ok(told)
    } else {
        Err(Failure(format!("{line} failed: {}\n{told}", ran.status)))
    }
}

fn cdk_with(arguments: &[String]) -> Result<Command, Failure> {
    let here = std::env::current_dir().map_err(|error| Failure(format!("the current directory: {error}")))?;
    let mut cdk = in_infra("node");
    // npm's newest `aws-cdk` was published by accident and does not work: nobody is to be told to take it.
    cdk.arg("node_modules/aws-cdk/bin/cdk").args(arguments).env("CDK_DISABLE_VERSION_CHECK", "true");
    if arguments.first().is_some_and(|command| command == "bootstrap") {
        // It needs no stack, and ours would ask for its target.
        cdk.args(["--app", ""]);
    }
    // What paths among the context values are relative to.
    cdk.env("INIT_CWD", here);
    Ok(cdk)
}

/// Type checks and tests of the stack, and CloudFormation's rules on its templates.
pub(crate) fn test(venv: Option<&Path>) -> Result<(), Failure> {
    run(in_infra("node").args(["node_modules/typescript/bin/tsc", "--project", "."]))?;
    run(in_infra("node").args(["--import", "tsx", "test/run.ts"]))?;
    let Some(venv) = venv else { return Ok(()) };
    let templates = target_dir().join("templates");
    let _of_an_earlier_run = fs::remove_dir_all(&templates);
    run(in_infra("node").args(["--import", "tsx", "test/write-templates.ts"]).arg(&templates))?;
    let mut lint = Command::new(venv.join("bin/cfn-lint"));
    lint.arg("--template").args(files_of(&templates, ".json")?).arg(root().join("examples/queues.yaml"));
    // Dependencies that a reference implies already: the CDK writes both.
    run(lint.args(["--ignore-checks", "W3005"]))
}

fn files_of(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, Failure> {
    let failure = |error: &dyn std::fmt::Display| Failure(format!("{}: {error}", directory.display()));
    let entries = fs::read_dir(directory).map_err(|error| failure(&error))?;
    let files: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.map_err(|error| failure(&error))?;
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    if files.is_empty() { Err(failure(&format_args!("no {ending} file"))) } else { Ok(files) }
}

fn in_infra(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(infra());
    command
}

fn infra() -> PathBuf {
    root().join("infra")
}

/// The first number of `v20.1.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn a_version_starts_with_its_major_number() {
        assert_eq!(major("v20.19.2\n"), Some(20));
        assert_eq!(major(""), None);
    }
}

//! Runs the CDK on the stack, and the stack's tests.

mod left_behind;
mod preflight;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::npm::{self, STACK};
use crate::tools::{TaskFailure, render_command, run_command, target_dir, workspace_root};

/// Runs `cargo xtask cdk`: the pinned CDK on the stack in `infra/`. Refuses a deployment that would leave queues
/// behind, and asks before a deployment that could resume a paused stack.
pub(crate) fn run_cdk(arguments: &[String]) -> Result<(), TaskFailure> {
    npm::set_up()?.require_node()?;
    let (flags, arguments): (Vec<_>, Vec<_>) = arguments
        .iter()
        .cloned()
        .partition(|argument| [left_behind::ALLOW, preflight::ALLOW].contains(&argument.as_str()));
    let is_allowed = |flag| flags.iter().any(|given| given == flag);
    if let Some(mut diff) = left_behind::diff_arguments(&arguments) {
        let assembly = preflight::new_assembly();
        diff.extend(["--output".to_owned(), assembly.display().to_string()]);
        let reported = capture_stderr(&mut cdk_command(&diff)?);
        if !is_allowed(left_behind::ALLOW) {
            left_behind::refuse_replacements(&reported?)?;
        }
        preflight::check_stacks(&assembly, &arguments, is_allowed(preflight::ALLOW))?;
    }
    run_command(&mut cdk_command(&arguments)?)
}

/// Runs a command that might prompt for a token. Returns its standard error.
fn capture_stderr(command: &mut Command) -> Result<String, TaskFailure> {
    let line = render_command(command);
    println!("$ {line}");
    command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::piped());
    let ran = command.output().map_err(|error| TaskFailure(format!("{line} does not start: {error}")))?;
    let reported = String::from_utf8_lossy(&ran.stderr).into_owned();
    if ran.status.success() {
        Ok(reported)
    } else {
        Err(TaskFailure(format!("{line} failed: {}\n{reported}", ran.status)))
    }
}

fn cdk_command(arguments: &[String]) -> Result<Command, TaskFailure> {
    let here =
        std::env::current_dir().map_err(|error| TaskFailure(format!("the current directory: {error}")))?;
    let mut cdk = STACK.command("node");
    // npm's newest `aws-cdk` was published by accident and does not work, so the CDK must not recommend it.
    cdk.arg("node_modules/aws-cdk/bin/cdk").args(arguments).env("CDK_DISABLE_VERSION_CHECK", "true");
    if arguments.first().is_some_and(|command| command == "bootstrap") {
        // `bootstrap` needs no stack, and our app would require a target.
        cdk.args(["--app", ""]);
    }
    // Paths in context values are relative to this folder.
    cdk.env("INIT_CWD", here);
    Ok(cdk)
}

/// Type-checks the stack and its tests.
pub(crate) fn check_types() -> Result<(), TaskFailure> {
    run_command(STACK.command("node").args(["node_modules/typescript/bin/tsc", "--project", "."]))
}

/// Tests the stack, and checks its templates against CloudFormation's rules.
pub(crate) fn test_stack(venv: Option<&Path>) -> Result<(), TaskFailure> {
    run_command(STACK.command("node").args(["--import", "tsx", "test/run.ts"]))?;
    let templates = target_dir().join("templates");
    let _might_not_exist = fs::remove_dir_all(&templates);
    run_command(STACK.command("node").args(["--import", "tsx", "test/write-templates.ts"]).arg(&templates))?;
    let Some(venv) = venv else { return Ok(()) };
    let mut lint = Command::new(venv.join("bin/cfn-lint"));
    lint.arg("--template")
        .args(files_with_suffix(&templates, ".json")?)
        .arg(workspace_root().join("examples/queues.yaml"));
    // Ignores explicit dependencies that a reference already implies: the CDK writes both.
    run_command(lint.args(["--ignore-checks", "W3005"]))?;
    ["parameters.yaml", "own-function.yaml", "ordered.yaml"]
        .iter()
        .try_for_each(|name| lint_template(venv, &templates, name))
}

/// Checks a template with parameters, without ignoring any rule.
fn lint_template(venv: &Path, templates: &Path, name: &str) -> Result<(), TaskFailure> {
    let template = templates.join(name);
    run_command(
        Command::new(venv.join("bin/cfn-lint"))
            .args(["--regions", "ALL_REGIONS", "--template"])
            .arg(&template),
    )?;
    let mut sam = Command::new(venv.join("bin/sam"));
    sam.args(["validate", "--lint", "--template"]).arg(&template);
    // SAM stores files in the home directory and checks PyPI for a newer version, which a test must not do.
    sam.env("HOME", templates).env("SAM_CLI_TELEMETRY", "0").env("HTTPS_PROXY", "http://127.0.0.1:9");
    run_command(&mut sam)
}

fn files_with_suffix(directory: &Path, ending: &str) -> Result<Vec<PathBuf>, TaskFailure> {
    let failure = |error: &dyn std::fmt::Display| TaskFailure(format!("{}: {error}", directory.display()));
    let entries = fs::read_dir(directory).map_err(|error| failure(&error))?;
    let files: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.map_err(|error| failure(&error))?;
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    if files.is_empty() { Err(failure(&format_args!("no {ending} file"))) } else { Ok(files) }
}

//! Unpacks and runs the packed command line as a new user would: the README's main example, a check, an audit and the
//! console.

use std::fs;
use std::io::{BufRead as _, BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use flate2::read::GzDecoder;

use super::command_line::VERSION;
use super::system::TargetSystem;
use super::{file_failure, read_file};
use crate::bundle::LambdaArchitecture;
use crate::tools::{TaskFailure, command_output, render_command, run_command, target_dir, workspace_root};

/// The arguments in the README's main example, after the message file.
const MAIN_JOB: [&str; 6] = ["--fail-rate", "0.8", "--fail-permanently", "0.1", "--final-dlq", "dead.jsonl"];
/// A dead letter's code in the result of that example.
const CODE: &str = "RETRY_ATTEMPT_EXCEEDED";
/// The maximum number of page requests. The first pages show that the console is still reading.
const PAGES_MAX: usize = 1000;

/// Tries out the archive and the wheel for this machine from the folder `packed`.
///
/// # Errors
/// A program does not run, or its output differs from the README.
pub(crate) fn try_out_packages(packed: &Path) -> Result<(), TaskFailure> {
    let folder = target_dir().join("trial");
    let _might_not_exist = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| file_failure(&folder, &error))?;
    for (name, program) in
        [("archive", unpack_archive(packed, &folder)?), ("wheel", install_wheel(packed, &folder)?)]
    {
        try_program(&program, &folder.join(format!("with-the-{name}")))?;
        println!("the {name} works");
    }
    Ok(())
}

fn unpack_archive(packed: &Path, folder: &Path) -> Result<PathBuf, TaskFailure> {
    let archive = packed.join(TargetSystem::HOST.archive_name(LambdaArchitecture::HOST));
    let bytes = read_file(&archive)?;
    let unpacked = match TargetSystem::HOST {
        TargetSystem::Windows => zip::ZipArchive::new(Cursor::new(bytes))
            .and_then(|mut zip| zip.extract(folder))
            .map_err(|error| error.to_string()),
        TargetSystem::Linux | TargetSystem::Macos => {
            tar::Archive::new(GzDecoder::new(&bytes[..])).unpack(folder).map_err(|error| error.to_string())
        }
    };
    unpacked.map_err(|error| file_failure(&archive, &error))?;
    Ok(folder
        .join(TargetSystem::HOST.archive_folder(LambdaArchitecture::HOST))
        .join(TargetSystem::HOST.program_file()))
}

fn install_wheel(packed: &Path, folder: &Path) -> Result<PathBuf, TaskFailure> {
    let entries = fs::read_dir(packed).map_err(|error| file_failure(packed, &error))?;
    let is_wheel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("redeliver_cli-") && name.ends_with(".whl")
    };
    let wheel = entries.flatten().map(|entry| entry.path()).find(is_wheel);
    let wheel = wheel.ok_or_else(|| file_failure(packed, &"there is no wheel of the command line"))?;
    let venv = folder.join("venv");
    let (python, programs) = match TargetSystem::HOST {
        TargetSystem::Windows => ("python", venv.join("Scripts")),
        TargetSystem::Linux | TargetSystem::Macos => ("python3", venv.join("bin")),
    };
    run_command(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(programs.join("python"));
    run_command(
        pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"])
            .arg(&wheel),
    )?;
    Ok(programs.join(TargetSystem::HOST.program_file()))
}

fn try_program(program: &Path, folder: &Path) -> Result<(), TaskFailure> {
    fs::create_dir_all(folder).map_err(|error| file_failure(folder, &error))?;
    let messages = workspace_root().join("examples/messages.jsonl");
    let redeliver = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command
    };
    require_text(&command_output(&mut redeliver(&["--version"]))?, &format!("redeliver {VERSION} (commit "))?;
    let mut job = redeliver(&["local"]);
    let report = command_output(job.arg(&messages).args(MAIN_JOB))?;
    require_text(&crate::tools::read_file(&workspace_root().join("README.md"))?, &report)?;
    let check = run_and_check_exit_code(redeliver(&["check"]).arg(&messages), 3)?;
    require_text(&check, "messages.jsonl:19: INVALID_MESSAGE_SCHEMA /metadata is missing")?;
    let filter = format!(".error_type == \"{CODE}\"");
    let audit = run_and_check_exit_code(&mut redeliver(&["audit", "dead.jsonl", "--where", &filter]), 3)?;
    require_text(&audit, "2 dead letters in dead.jsonl")?;
    try_console(&mut redeliver(&["console", "dead.jsonl"]))
}

/// Fetches the page at the console's link with curl, which all supported systems include.
fn try_console(command: &mut Command) -> Result<(), TaskFailure> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut console =
        TrialConsole(child.map_err(|error| file_failure(Path::new(command.get_program()), &error))?);
    let mut link = String::new();
    if let Some(stdout) = console.0.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut link)
            .map_err(|error| TaskFailure(format!("the console: {error}")))?;
    }
    let mut page = String::new();
    for _ in 0..PAGES_MAX {
        let mut curl = Command::new("curl");
        // An empty cookie file makes curl keep cookies.
        curl.args(["--silent", "--show-error", "--fail", "--location", "--max-time", "60", "--cookie", ""]);
        page = command_output(curl.arg(link.trim()))?;
        if page.contains(CODE) {
            return Ok(());
        }
    }
    require_text(&page, CODE)
}

/// A running console. Dropping the value kills it.
struct TrialConsole(Child);

impl Drop for TrialConsole {
    fn drop(&mut self) {
        let _ignored = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Runs a program that must exit with this code, and returns its standard output.
fn run_and_check_exit_code(command: &mut Command, code: i32) -> Result<String, TaskFailure> {
    let Output { status, stdout, stderr } = command
        .output()
        .map_err(|error| TaskFailure(format!("{} does not start: {error}", render_command(command))))?;
    if status.code() == Some(code) {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    Err(TaskFailure(format!("{} ended with {status} instead of {code}\n{stderr}", render_command(command))))
}

fn require_text(text: &str, expected: &str) -> Result<(), TaskFailure> {
    if text.contains(expected) {
        return Ok(());
    }
    Err(TaskFailure(format!("expected:\n{expected}\nin:\n{text}")))
}

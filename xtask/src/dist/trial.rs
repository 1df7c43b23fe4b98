//! The packed command line, unpacked and run as a stranger would: the README's main job, a check, an audit, the console.

use std::fs;
use std::io::{BufRead as _, BufReader, Cursor};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use flate2::read::GzDecoder;

use super::command_line::VERSION;
use super::system::System;
use super::{failed, read};
use crate::bundle::Architecture;
use crate::tools::{Failure, output, root, run, shown, target_dir};

/// The arguments of the README's main job, after the file of messages.
const MAIN_JOB: [&str; 6] = ["--fail-rate", "0.8", "--fail-permanently", "0.1", "--final-dlq", "dead.jsonl"];
/// A dead letter's code in that job's result.
const CODE: &str = "RETRY_ATTEMPT_EXCEEDED";
/// The first pages say that the console is still reading.
const PAGES_MAX: usize = 1000;

/// Tries the archive and the wheel for this machine in `packed`.
///
/// # Errors
/// If a program does not run, or prints something other than the README says.
pub(crate) fn try_out(packed: &Path) -> Result<(), Failure> {
    let folder = target_dir().join("trial");
    let _of_an_earlier_run = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    for (name, program) in [("archive", unpacked(packed, &folder)?), ("wheel", installed(packed, &folder)?)] {
        try_program(&program, &folder.join(format!("with-the-{name}")))?;
        println!("the {name} works");
    }
    Ok(())
}

fn unpacked(packed: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let archive = packed.join(System::HOST.archive(Architecture::HOST));
    let bytes = read(&archive)?;
    let unpacked = match System::HOST {
        System::Windows => zip::ZipArchive::new(Cursor::new(bytes))
            .and_then(|mut zip| zip.extract(folder))
            .map_err(|error| error.to_string()),
        System::Linux | System::Macos => {
            tar::Archive::new(GzDecoder::new(&bytes[..])).unpack(folder).map_err(|error| error.to_string())
        }
    };
    unpacked.map_err(|error| failed(&archive, &error))?;
    Ok(folder.join(System::HOST.folder(Architecture::HOST)).join(System::HOST.program()))
}

fn installed(packed: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(packed).map_err(|error| failed(packed, &error))?;
    let is_wheel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("redeliver_cli-") && name.ends_with(".whl")
    };
    let wheel = entries.flatten().map(|entry| entry.path()).find(is_wheel);
    let wheel = wheel.ok_or_else(|| failed(packed, &"it has no wheel of the command line"))?;
    let venv = folder.join("venv");
    let (python, programs) = match System::HOST {
        System::Windows => ("python", venv.join("Scripts")),
        System::Linux | System::Macos => ("python3", venv.join("bin")),
    };
    run(Command::new(python).args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(programs.join("python"));
    run(pip
        .args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"])
        .arg(&wheel))?;
    Ok(programs.join(System::HOST.program()))
}

fn try_program(program: &Path, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let messages = root().join("examples/messages.jsonl");
    let redeliver = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command
    };
    prints(&output(&mut redeliver(&["--version"]))?, &format!("redeliver {VERSION} (commit "))?;
    let mut job = redeliver(&["local"]);
    let report = output(job.arg(&messages).args(MAIN_JOB))?;
    prints(&crate::tools::read(&root().join("README.md"))?, &report)?;
    let check = said(redeliver(&["check"]).arg(&messages), 3)?;
    prints(&check, "messages.jsonl:19: INVALID_MESSAGE_SCHEMA /metadata is missing")?;
    let filter = format!(".error_type == \"{CODE}\"");
    let audit = said(&mut redeliver(&["audit", "dead.jsonl", "--where", &filter]), 3)?;
    prints(&audit, "2 dead letters in dead.jsonl")?;
    try_console(&mut redeliver(&["console", "dead.jsonl"]))
}

/// Reads the first page behind the console's link with curl, which each of the systems has.
fn try_console(command: &mut Command) -> Result<(), Failure> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut console = Console(child.map_err(|error| failed(Path::new(command.get_program()), &error))?);
    let mut link = String::new();
    if let Some(stdout) = console.0.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut link)
            .map_err(|error| Failure(format!("the console: {error}")))?;
    }
    let mut page = String::new();
    for _ in 0..PAGES_MAX {
        let mut curl = Command::new("curl");
        // An empty file of cookies: they are kept.
        curl.args(["--silent", "--show-error", "--fail", "--location", "--max-time", "60", "--cookie", ""]);
        page = output(curl.arg(link.trim()))?;
        if page.contains(CODE) {
            return Ok(());
        }
    }
    prints(&page, CODE)
}

/// A console that ends with this value.
struct Console(Child);

impl Drop for Console {
    fn drop(&mut self) {
        let _has_ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The standard output of a program that ends with this code.
fn said(command: &mut Command, code: i32) -> Result<String, Failure> {
    let Output { status, stdout, stderr } =
        command.output().map_err(|error| Failure(format!("{} does not start: {error}", shown(command))))?;
    if status.code() == Some(code) {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    Err(Failure(format!("{} ended with {status} instead of {code}\n{stderr}", shown(command))))
}

fn prints(text: &str, expected: &str) -> Result<(), Failure> {
    if text.contains(expected) {
        return Ok(());
    }
    Err(Failure(format!("expected:\n{expected}\nin:\n{text}")))
}

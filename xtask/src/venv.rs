//! The Python environment of the emulators: made once, and again when its pins change.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tools::{Failure, root, run, target_dir};

/// Whether the emulators can be run.
pub(crate) enum Emulators {
    /// They are installed.
    Ready,
    /// Python cannot be had on this machine; what to install.
    Unavailable(&'static str),
}

/// Installs `tests/requirements.txt` under `target/venv`.
pub(crate) fn set_up() -> Result<Emulators, Failure> {
    let venv = target_dir().join("venv");
    let requirements = root().join("tests/requirements.txt");
    let pins = fs::read_to_string(&requirements)
        .map_err(|error| Failure(format!("tests/requirements.txt: {error}")))?;
    // Written last, so that a half-made environment is made again.
    let stamp = venv.join("installed-requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        println!("{} is up to date", venv.display());
        return Ok(Emulators::Ready);
    }
    if !python(&["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]) {
        return Ok(Emulators::Unavailable("install Python 3.10 or later (python3)"));
    }
    if !python(&["-c", "import ensurepip, venv"]) {
        return Ok(Emulators::Unavailable("install Python's venv module (on Debian: python3-venv)"));
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    run(pip(&venv).arg("--requirement").arg(&requirements))?;
    fs::write(&stamp, pins).map_err(|error| Failure(format!("{}: {error}", stamp.display())))?;
    Ok(Emulators::Ready)
}

fn python(arguments: &[&str]) -> bool {
    let quiet = Command::new("python3").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn pip(venv: &Path) -> Command {
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
    pip
}

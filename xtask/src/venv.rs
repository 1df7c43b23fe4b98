//! Python environments under `target/`. They are recreated only when their pins change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tools::{TaskFailure, run_command, target_dir, workspace_root};

/// A Python environment and its requirements.
pub(crate) struct Venv {
    directory: &'static str,
    requirements: &'static str,
    /// True if packages are verified by their hashes, because the environment builds released artifacts.
    requires_hashes: bool,
}

/// The emulators and tools used by the tests.
pub(crate) const TESTS: Venv =
    Venv { directory: "venv", requirements: "tests/requirements.txt", requires_hashes: false };
/// The tools that build bundles.
pub(crate) const BUNDLE: Venv =
    Venv { directory: "bundle-venv", requirements: "infra/requirements.txt", requires_hashes: true };

/// The tools that build and test the construct's wheel.
pub(crate) const CONSTRUCT: Venv = Venv {
    directory: "construct-venv",
    requirements: "infra/package/requirements.txt",
    requires_hashes: true,
};

/// Python on this machine.
pub(crate) enum Python {
    /// Python is available, and the packages are installed in this directory.
    Ready(PathBuf),
    /// Python is not available; says what to install.
    Unavailable(&'static str),
}

impl Python {
    /// Returns the environment's directory.
    ///
    /// # Errors
    /// Python is not available: the error says what to install.
    pub(crate) fn require_environment(self) -> Result<PathBuf, TaskFailure> {
        match self {
            Self::Ready(directory) => Ok(directory),
            Self::Unavailable(remedy) => Err(TaskFailure(remedy.to_owned())),
        }
    }
}

/// Installs the requirements of an environment.
pub(crate) fn set_up(venv: &Venv) -> Result<Python, TaskFailure> {
    let directory = target_dir().join(venv.directory);
    let requirements = workspace_root().join(venv.requirements);
    let pins = fs::read_to_string(&requirements)
        .map_err(|error| TaskFailure(format!("{}: {error}", venv.requirements)))?;
    // Written last, so that an incomplete environment is recreated.
    let stamp = directory.join("installed-requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        println!("{} is up to date", directory.display());
        return Ok(Python::Ready(directory));
    }
    if !python_succeeds(&["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]) {
        return Ok(Python::Unavailable("install Python 3.10 or later (python3)"));
    }
    if !python_succeeds(&["-c", "import ensurepip, venv"]) {
        return Ok(Python::Unavailable("install Python's venv module (on Debian: python3-venv)"));
    }
    run_command(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
    let mut install = pip_command(&directory);
    install.args(venv.requires_hashes.then_some("--require-hashes"));
    run_command(install.arg("--requirement").arg(&requirements))?;
    fs::write(&stamp, pins).map_err(|error| TaskFailure(format!("{}: {error}", stamp.display())))?;
    Ok(Python::Ready(directory))
}

fn python_succeeds(arguments: &[&str]) -> bool {
    let quiet = Command::new("python3").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn pip_command(venv: &Path) -> Command {
    let mut pip = Command::new(venv.join("bin/python"));
    // Python compiles modules on import. Compiling all of them now would take as long as downloading them.
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]);
    pip
}

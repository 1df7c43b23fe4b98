//! The libraries for users' own functions, tested by their own tools.

use std::path::Path;
use std::process::Command;

use crate::npm::{self, LIBRARY};
use crate::tools::{Failure, root, run, target_dir};
use crate::venv;

/// `libraries/node`: its types, its tests, and both of its builds.
///
/// # Errors
/// A test has failed.
pub(crate) fn node() -> Result<(), Failure> {
    LIBRARY.install()?;
    run(LIBRARY.command("npm").arg("test"))
}

/// What functions import.
///
/// # Errors
/// It does not compile.
pub(crate) fn build() -> Result<(), Failure> {
    LIBRARY.install()?;
    run(LIBRARY.command("npm").args(["run", "build"]))
}

/// `libraries/python`: its format, its lints, its types and its tests, in the environment of its own that `venv` is.
///
/// # Errors
/// A test has failed.
pub(crate) fn python(venv: &Path) -> Result<(), Failure> {
    for arguments in
        [&["ruff", "format", "--check"][..], &["ruff", "check"], &["mypy"], &["pytest", "--quiet"]]
    {
        run(in_python(venv).args(["-B", "-m"]).args(arguments))?;
    }
    Ok(())
}

/// `cargo xtask libraries`.
///
/// # Errors
/// A test has failed, or Node.js or Python is missing.
pub(crate) fn all() -> Result<(), Failure> {
    npm::set_up()?.required()?;
    node()?;
    python(&venv::set_up(&venv::LIBRARY)?.required()?)
}

/// Its tools keep nothing beside the sources.
fn in_python(venv: &Path) -> Command {
    let mut command = Command::new(venv.join("bin/python"));
    command
        .current_dir(root().join("libraries/python"))
        .env("RUFF_CACHE_DIR", target_dir().join("ruff-cache"))
        .env("MYPY_CACHE_DIR", target_dir().join("mypy-cache"));
    command
}

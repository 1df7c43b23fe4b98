//! The libraries for users' own functions, tested by their own tools.

use crate::npm::{self, LIBRARY};
use crate::tools::{Failure, run};

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

/// `cargo xtask libraries`.
///
/// # Errors
/// A test has failed, or Node.js is missing.
pub(crate) fn all() -> Result<(), Failure> {
    npm::set_up()?.required()?;
    node()
}

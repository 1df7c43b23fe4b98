//! The libraries for users' own functions, tested by their own tools.

use std::process::Command;

use crate::stack::Node;
use crate::tools::{Failure, root, run};

/// `libraries/node`: its types, its tests, and both of its builds.
///
/// # Errors
/// A test has failed.
pub(crate) fn node() -> Result<(), Failure> {
    // No package needs its install script; none is run.
    run(in_node("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]))?;
    run(in_node("npm").arg("test"))
}

/// `cargo xtask libraries`.
///
/// # Errors
/// A test has failed, or Node.js is missing.
pub(crate) fn all(installed: Node) -> Result<(), Failure> {
    installed.required()?;
    node()
}

fn in_node(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root().join("libraries/node"));
    command
}

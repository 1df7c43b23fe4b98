//! `cargo xtask bench storms`: what hits a target when it returns after ten minutes in which 100,000 messages failed.

use std::process::Command;

use crate::tools::{Failure, cargo, root, run, target_dir};

/// Files of `examples/storms`; the first is the one that the others are compared with.
const POLICIES: [&str; 6] =
    ["uniform", "exponential", "fixed", "uniform-paced", "exponential-paced", "fixed-paced"];
const STORM: [&str; 4] = ["--messages", "100000", "--outage", "10m"];
/// Half as much again as came in while the target was down.
const CAPACITY: [&str; 2] = ["--capacity", "250"];
/// As a nightly job sends them.
const AT_ONCE: [&str; 2] = ["--over", "10s"];
/// The picture that docs/performance.md shows.
const PICTURE: &str = "docs/storms.svg";

/// Runs `redeliver simulate` with all policies: against a target that takes whatever comes, against one that does not, and with
/// all messages at once.
pub(crate) fn storms() -> Result<(), Failure> {
    run(&mut cargo(&["build", "--release", "--bin", "redeliver"]))?;
    run(simulate().args(["--plot", PICTURE]))?;
    run(simulate().args(CAPACITY))?;
    run(simulate().args(AT_ONCE))
}

fn simulate() -> Command {
    let mut files = POLICIES.map(|name| format!("examples/storms/{name}.json")).into_iter();
    let mut command = Command::new(target_dir().join("release/redeliver"));
    command.current_dir(root()).args(["simulate", "--policy"]).args(files.next()).args(STORM);
    for file in files {
        command.args(["--compare", &file]);
    }
    command
}

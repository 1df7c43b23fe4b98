//! `cargo xtask bench storms`: simulates the load on a target that returns after an outage during which 100,000
//! messages arrived, for several backoffs without a circuit breaker, and for the default policy with and without one.

use std::process::Command;

use crate::tools::{TaskFailure, cargo_command, run_command, target_dir, workspace_root};

/// Policies in `examples/storms`, without a circuit breaker. The others are compared with the first.
const POLICIES: [&str; 3] = ["uniform", "exponential", "fixed"];
const MESSAGES: [&str; 2] = ["--messages", "100000"];
const TEN_MINUTES: [&str; 2] = ["--outage", "10m"];
/// One and a half times the rate at which messages arrived during the outage.
const CAPACITY: [&str; 2] = ["--capacity", "250"];
/// All messages arrive within seconds, as from a nightly job.
const AT_ONCE: [&str; 2] = ["--over", "10s"];
/// About a tenth of the rate at which ten concurrent invocations call the target.
const A_TENTH: [&str; 2] = ["--capacity", "25"];
/// The pictures in docs/performance.md.
const PICTURE_OF_STORMS: &str = "docs/storms.svg";
const PICTURE_OF_OUTAGE: &str = "docs/outage.svg";

/// Runs `redeliver simulate` with all policies: against a target with unlimited capacity, against a limited one, and
/// with all messages at once. Then simulates the default policy.
pub(crate) fn bench_storms() -> Result<(), TaskFailure> {
    run_command(&mut cargo_command(&["build", "--release", "--bin", "redeliver"]))?;
    run_command(compare_backoffs_command().args(["--plot", PICTURE_OF_STORMS]))?;
    run_command(compare_backoffs_command().args(CAPACITY))?;
    run_command(compare_backoffs_command().args(AT_ONCE))?;
    run_command(&mut default_policy_command("10m"))?;
    run_command(default_policy_command("1h").args(["--plot", PICTURE_OF_OUTAGE]))?;
    run_command(&mut default_policy_command("12h"))?;
    run_command(default_policy_command("10m").args(AT_ONCE))?;
    run_command(default_policy_command("10m").args(A_TENTH))
}

fn compare_backoffs_command() -> Command {
    let mut files = POLICIES.map(|name| format!("examples/storms/{name}.json")).into_iter();
    let mut command = simulate_command();
    command.arg("--policy").args(files.next()).args(TEN_MINUTES);
    for file in files {
        command.args(["--compare", &file]);
    }
    command
}

/// Simulates the default policy with ten concurrent invocations.
fn default_policy_command(outage: &str) -> Command {
    let mut command = simulate_command();
    command.args(["--outage", outage]);
    command
}

fn simulate_command() -> Command {
    let mut command = Command::new(target_dir().join("release/redeliver"));
    command.current_dir(workspace_root()).arg("simulate").args(MESSAGES);
    command
}

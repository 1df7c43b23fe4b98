//! What is linked into a program: crates, with their versions and licences.

use std::path::PathBuf;

use serde::Deserialize;

use crate::bundle::Architecture;
use crate::tools::{Failure, cargo, output};

/// A crate in a program.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: String,
    /// SPDX.
    #[serde(rename = "license")]
    pub(super) licence: Option<String>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    pub(super) manifest_path: PathBuf,
    /// Where it comes from; nowhere, if it is ours.
    pub(super) source: Option<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Component>,
}

/// Other people's crates in the programs of these packages of ours, by name; without what only runs while they are compiled.
///
/// # Errors
/// Cargo's.
pub(super) fn of(
    packages: &[impl AsRef<str>],
    architecture: Architecture,
) -> Result<Vec<Component>, Failure> {
    let mut tree = cargo(&["tree", "--locked", "--prefix", "none", "--format", "{p}"]);
    tree.args(packages.iter().flat_map(|package| ["--package", package.as_ref()]));
    tree.args(["--edges", "normal,no-proc-macro", "--target", architecture.target()]);
    let tree = output(&mut tree)?;
    let mut metadata = cargo(&["metadata", "--locked", "--format-version", "1"]);
    let metadata = output(metadata.args(["--filter-platform", architecture.target()]))?;
    let Metadata { packages } =
        serde_json::from_str(&metadata).map_err(|error| Failure(format!("cargo metadata: {error}")))?;
    Ok(linked(packages, &tree))
}

/// The crates of others that the tree names (`serde v1.0.229`).
fn linked(mut packages: Vec<Component>, tree: &str) -> Vec<Component> {
    let named = |component: &Component| {
        let Component { name, version, .. } = component;
        let mut lines = tree.lines().map(|line| line.split(' ').take(2));
        let version = format!("v{version}");
        lines.any(|line| line.eq([name.as_str(), version.as_str()]))
    };
    packages.retain(|component| component.source.is_some() && named(component));
    packages.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    packages
}

#[cfg(test)]
pub(super) fn component(name: &str, version: &str, licence: &str) -> Component {
    Component {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: Some(licence.to_owned()),
        authors: vec!["A. Writer <a@example.com>".to_owned()],
        manifest_path: PathBuf::from("/nowhere/Cargo.toml"),
        source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_of_others_in_the_version_that_is_linked_are_inside() {
        let ours = Component { source: None, ..component("ours", "0.1.0", "MIT") };
        let packages = vec![
            component("b", "2.0.0", "MIT"),
            component("b", "1.0.0", "MIT"),
            component("a", "1.0.0", "MIT"),
            ours,
        ];
        let linked = linked(packages, "ours v0.1.0 (/p)\nb v1.0.0\na v1.0.0 (*)\n");
        let names: Vec<_> =
            linked.iter().map(|linked| (linked.name.as_str(), linked.version.as_str())).collect();
        assert_eq!(names, [("a", "1.0.0"), ("b", "1.0.0")]);
    }
}

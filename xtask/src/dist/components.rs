//! The crates and npm packages in a program or a package, with their versions and licenses.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::tools::{TaskFailure, cargo_command, command_output};

/// A crate or an npm package.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: String,
    /// The SPDX expression.
    #[serde(rename = "license")]
    pub(super) license: Option<String>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    pub(super) manifest_path: PathBuf,
    /// The source as reported by Cargo; `None` for the workspace's own crates.
    pub(super) source: Option<String>,
    #[serde(skip)]
    pub(super) registry: Registry,
}

/// The registry of a component, named as in package URLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Registry {
    #[default]
    Cargo,
    Npm,
}

impl Component {
    /// Returns the component's package URL ("Package URL specification").
    pub(super) fn package_url(&self) -> String {
        let Self { name, version, registry, .. } = self;
        let kind = match registry {
            Registry::Cargo => "cargo",
            Registry::Npm => "npm",
        };
        format!("pkg:{kind}/{}@{}", name.replace('@', "%40"), version.replace('+', "%2B"))
    }

    /// Reads an npm package from its `package.json`.
    pub(super) fn from_npm(path: &Path, manifest: &Value) -> Self {
        let text = |name: &str| manifest[name].as_str().map(str::to_owned);
        let author = text("author").or_else(|| manifest["author"]["name"].as_str().map(str::to_owned));
        Self {
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            license: text("license"),
            authors: author.into_iter().collect(),
            manifest_path: path.to_owned(),
            source: None,
            registry: Registry::Npm,
        }
    }
}

#[derive(Deserialize)]
struct ComponentMetadata {
    packages: Vec<Component>,
}

/// Returns the third-party crates linked into these packages' programs for a target, sorted by name. Excludes crates
/// that run only at compile time.
///
/// # Errors
/// Cargo fails.
pub(super) fn collect_components(
    packages: &[impl AsRef<str>],
    target: &str,
) -> Result<Vec<Component>, TaskFailure> {
    let mut tree = cargo_command(&["tree", "--locked", "--prefix", "none", "--format", "{p}"]);
    tree.args(packages.iter().flat_map(|package| ["--package", package.as_ref()]));
    tree.args(["--edges", "normal,no-proc-macro", "--target", target]);
    let tree = command_output(&mut tree)?;
    let mut metadata = cargo_command(&["metadata", "--locked", "--format-version", "1"]);
    let metadata = command_output(metadata.args(["--filter-platform", target]))?;
    let ComponentMetadata { packages } =
        serde_json::from_str(&metadata).map_err(|error| TaskFailure(format!("cargo metadata: {error}")))?;
    Ok(select_linked_crates(packages, &tree))
}

/// Returns the third-party crates that the tree lists (as `serde v1.0.229`).
fn select_linked_crates(mut packages: Vec<Component>, tree: &str) -> Vec<Component> {
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
pub(super) fn component(name: &str, version: &str, license: &str) -> Component {
    Component {
        name: name.to_owned(),
        version: version.to_owned(),
        license: Some(license.to_owned()),
        authors: vec!["A. Writer <a@example.com>".to_owned()],
        manifest_path: PathBuf::from("/nowhere/Cargo.toml"),
        source: Some("registry+https://github.com/rust-lang/crates.io-index".to_owned()),
        registry: Registry::Cargo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_npm_package_has_its_own_url_and_author() {
        let manifest = serde_json::json!({
            "name": "@fastify/uri", "version": "3.1.9", "license": "BSD-3-Clause", "author": { "name": "A. Writer" }
        });
        let component = Component::from_npm(Path::new("package.json"), &manifest);
        assert_eq!(component.package_url(), "pkg:npm/%40fastify/uri@3.1.9");
        assert_eq!(
            (component.license.as_deref(), &*component.authors),
            (Some("BSD-3-Clause"), &["A. Writer".to_owned()][..])
        );
    }

    #[test]
    fn only_linked_versions_of_third_party_crates_are_selected() {
        let ours = Component { source: None, ..component("ours", "0.1.0", "MIT") };
        let packages = vec![
            component("b", "2.0.0", "MIT"),
            component("b", "1.0.0", "MIT"),
            component("a", "1.0.0", "MIT"),
            ours,
        ];
        let linked = select_linked_crates(packages, "ours v0.1.0 (/p)\nb v1.0.0\na v1.0.0 (*)\n");
        let names: Vec<_> =
            linked.iter().map(|linked| (linked.name.as_str(), linked.version.as_str())).collect();
        assert_eq!(names, [("a", "1.0.0"), ("b", "1.0.0")]);
    }
}

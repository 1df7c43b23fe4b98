//! `cargo xtask packages`: builds the public crates from their own tarballs.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::tools::{TaskFailure, cargo_command, command_output, run_command};

/// The crates that a handler in Rust needs. No other crates are published.
const PUBLIC: [&str; 5] = [
    "redeliver-aws",
    "redeliver-core",
    "redeliver-json-schema",
    "redeliver-message-processor",
    "redeliver-platform",
];

/// Builds each public crate from its own tarball, as crates.io would serve it. This takes five minutes of processor
/// time, because a user's build has different features from the workspace's.
///
/// # Errors
/// A file or a version is missing.
pub(crate) fn build_packages() -> Result<(), TaskFailure> {
    run_command(&mut package_command())
}

/// Creates the tarballs without building them, and checks the `rust-version` of all dependencies.
///
/// # Errors
/// The wrong crates are public, a version is missing, or a dependency requires a newer Rust than Cargo.toml declares.
pub(crate) fn check_packages() -> Result<(), TaskFailure> {
    let metadata = command_output(&mut cargo_command(&["metadata", "--locked", "--format-version", "1"]))?;
    let metadata: PackageMetadata =
        serde_json::from_str(&metadata).map_err(|error| TaskFailure(format!("cargo metadata: {error}")))?;
    metadata.check_dependencies()?;
    run_command(package_command().arg("--no-verify"))
}

fn package_command() -> std::process::Command {
    // `--allow-dirty`: the tests cover uncommitted changes.
    let mut package = cargo_command(&["package", "--locked", "--allow-dirty", "--quiet"]);
    package.args(PUBLIC.map(|name| format!("--package={name}")));
    package
}

#[derive(Deserialize)]
struct PackageMetadata {
    packages: Vec<CargoPackage>,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct CargoPackage {
    id: String,
    name: String,
    version: String,
    rust_version: Option<String>,
    /// The registries to which the crate may be published: none with `publish = false`, any if absent.
    publish: Option<Vec<String>>,
}

impl PackageMetadata {
    fn check_dependencies(&self) -> Result<(), TaskFailure> {
        let members = self.packages.iter().filter(|package| self.workspace_members.contains(&package.id));
        let members: BTreeMap<_, _> = members.map(|package| (package.name.as_str(), package)).collect();
        let public: Vec<_> =
            members.iter().filter(|(_, package)| package.publish.is_none()).map(|(name, _)| *name).collect();
        if public != PUBLIC {
            return Err(TaskFailure(format!(
                "the public crates are {}, but should be {}",
                public.join(", "),
                PUBLIC.join(", ")
            )));
        }
        let ours = parse_version(env!("CARGO_PKG_RUST_VERSION"));
        let newer = |package: &&CargoPackage| {
            package.rust_version.as_deref().is_some_and(|theirs| parse_version(theirs) > ours)
        };
        match self.packages.iter().find(newer) {
            None => Ok(()),
            Some(CargoPackage { name, version, rust_version, .. }) => Err(TaskFailure(format!(
                "{name} {version} needs Rust {}, but Cargo.toml says {}",
                rust_version.as_deref().unwrap_or_default(),
                env!("CARGO_PKG_RUST_VERSION")
            ))),
        }
    }
}

/// Parses a version. `1.94` means `1.94.0`.
fn parse_version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(public: &[&str], dependency: &str) -> PackageMetadata {
        let member = |name: &&str| serde_json::json!({"id": name, "name": name, "version": "0.1.0"});
        let mut packages: Vec<_> = public.iter().map(member).collect();
        packages.push(serde_json::json!({"id": "own", "name": "xtask", "version": "0.1.0", "publish": []}));
        packages.push(
            serde_json::json!({"id": "x", "name": "x", "version": "2.0.0", "rust_version": dependency}),
        );
        let members: Vec<_> = public.iter().copied().chain(["own"]).collect();
        let value = serde_json::json!({"packages": packages, "workspace_members": members});
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn no_dependency_needs_a_newer_rust_than_declared() {
        let error = metadata(&PUBLIC, "1.999").check_dependencies().unwrap_err().0;
        assert_eq!(
            error,
            format!("x 2.0.0 needs Rust 1.999, but Cargo.toml says {}", env!("CARGO_PKG_RUST_VERSION"))
        );
        metadata(&PUBLIC, env!("CARGO_PKG_RUST_VERSION")).check_dependencies().unwrap();
        metadata(&PUBLIC, "1.9").check_dependencies().unwrap();
    }

    #[test]
    fn only_listed_packages_are_published() {
        let error = metadata(&["redeliver"], "1.85").check_dependencies().unwrap_err().0;
        assert_eq!(error, format!("the public crates are redeliver, but should be {}", PUBLIC.join(", ")));
    }
}

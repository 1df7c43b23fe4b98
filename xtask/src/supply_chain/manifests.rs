//! The `Cargo.toml` files, with the comments beside their dependencies.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::{Failure, root};

/// A line of a `[…dependencies]` section.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// E.g. `serde`.
    pub(crate) name: String,
    /// What it is set to.
    pub(crate) value: String,
    /// Why it is there; empty where nothing is said.
    pub(crate) reason: String,
    /// `dependencies`, `dev-dependencies` …
    pub(crate) section: String,
}

/// The members' names and manifests, sorted.
///
/// # Errors
/// If one cannot be read.
pub(crate) fn members() -> Result<Vec<(String, String)>, Failure> {
    let workspace: toml::Table = parsed(&read(&root().join("Cargo.toml"))?)?;
    let patterns = workspace["workspace"]["members"].as_array().cloned().unwrap_or_default();
    let mut members = Vec::new();
    for pattern in patterns.iter().filter_map(toml::Value::as_str) {
        for directory in directories(pattern)? {
            let manifest = read(&directory.join("Cargo.toml"))?;
            let name = parsed(&manifest)?["package"]["name"].as_str().unwrap_or_default().to_owned();
            members.push((name, manifest));
        }
    }
    members.sort();
    Ok(members)
}

/// The dependencies of a manifest in their order, each with the comment on its line.
pub(crate) fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_end_matches(']').to_owned();
        } else if section.ends_with("dependencies")
            && let Some((name, rest)) = line.split_once(" = ")
            && !line.starts_with('#')
        {
            let (value, reason) = rest.split_once(" # ").unwrap_or((rest, ""));
            let [name, value, reason] = [name, value, reason].map(|text| text.trim().to_owned());
            found.push(Dependency { name, value, reason, section: section.clone() });
        }
    }
    found
}

fn directories(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let Some(parent) = pattern.strip_suffix("/*") else {
        return Ok(vec![root().join(pattern)]);
    };
    let failure = |error: std::io::Error| Failure(format!("{parent}: {error}"));
    let mut directories = Vec::new();
    for entry in fs::read_dir(root().join(parent)).map_err(failure)? {
        let path = entry.map_err(failure)?.path();
        if path.join("Cargo.toml").exists() {
            directories.push(path);
        }
    }
    Ok(directories)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

fn parsed(text: &str) -> Result<toml::Table, Failure> {
    toml::from_str(text).map_err(|error| Failure(error.to_string()))
}

#[cfg(test)]
mod tests;

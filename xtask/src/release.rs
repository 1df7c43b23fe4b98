//! `cargo xtask release-notes`: prints the notes for a release, if its tag, all versions and CHANGELOG.md agree.

use std::fs;

use serde::Deserialize;

use crate::tools::{TaskFailure, workspace_root};

/// The version that all others must equal: Cargo.toml's `workspace.package.version`.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Files that contain the same version.
const PACKAGES: [&str; 3] = ["infra/package.json", "infra/package-lock.json", "infra/package/package.json"];

/// Prints the release notes for a tag.
///
/// # Errors
/// The tag does not match the version, a package has a different version, or CHANGELOG.md has no dated section for it.
pub(crate) fn print_release_notes(tag: &str) -> Result<(), TaskFailure> {
    if tag.strip_prefix('v') != Some(VERSION) {
        return Err(TaskFailure(format!("the tag is {tag}, but Cargo.toml's version requires v{VERSION}")));
    }
    check_versions()?;
    println!("{}", changelog_section(&read_file("CHANGELOG.md")?, VERSION)?);
    Ok(())
}

/// Checks that all packages have the same version.
///
/// # Errors
/// A package has a different version.
pub(crate) fn check_versions() -> Result<(), TaskFailure> {
    for path in PACKAGES {
        let manifest: ReleasedPackage =
            serde_json::from_str(&read_file(path)?).map_err(|error| file_failure(path, &error))?;
        check_package_version(path, &manifest.version)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct ReleasedPackage {
    version: String,
}

fn check_package_version(path: &str, version: &str) -> Result<(), TaskFailure> {
    if version == VERSION {
        return Ok(());
    }
    Err(TaskFailure(format!(
        "{path} has version {version}, but Cargo.toml has {VERSION}: all are released together"
    )))
}

/// Returns the section of CHANGELOG.md for a version: the text under `## 0.1.0 (2026-12-01)`.
fn changelog_section<'a>(changelog: &'a str, version: &str) -> Result<&'a str, TaskFailure> {
    let title = format!("\n## {version} (");
    let Some((_, section)) = changelog.split_once(&title) else {
        return Err(TaskFailure(format!("CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`")));
    };
    let (date, rest) = section.split_once(")\n").unwrap_or((section, ""));
    let is_date = date.len() == 10 && date.chars().all(|char| char.is_ascii_digit() || char == '-');
    if !is_date {
        return Err(TaskFailure(format!(
            "CHANGELOG.md says {version} ({date}): write the day, as YYYY-MM-DD"
        )));
    }
    let notes = rest.split("\n## ").next().unwrap_or_default().trim();
    if notes.is_empty() {
        Err(TaskFailure(format!("CHANGELOG.md says nothing about {version}")))
    } else {
        Ok(notes)
    }
}

fn read_file(path: &str) -> Result<String, TaskFailure> {
    fs::read_to_string(workspace_root().join(path)).map_err(|error| file_failure(path, &error))
}

fn file_failure(path: &str, error: &dyn std::fmt::Display) -> TaskFailure {
    TaskFailure(format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## 0.2.0 (2027-01-31)\n\n- new\n\n## 0.1.0 (not yet released)\n\n- first\n\n\
                             ## 0.0.1 (2026-01-01)\n";

    #[test]
    fn release_notes_are_the_versions_changelog_section() {
        assert_eq!(changelog_section(CHANGELOG, "0.2.0").unwrap(), "- new");
    }

    #[test]
    fn a_release_needs_a_date_and_notes() {
        let error = |version| changelog_section(CHANGELOG, version).unwrap_err().0;
        assert_eq!(
            error("0.1.0"),
            "CHANGELOG.md says 0.1.0 (not yet released): write the day, as YYYY-MM-DD"
        );
        assert_eq!(error("0.0.1"), "CHANGELOG.md says nothing about 0.0.1");
        assert_eq!(error("2.0"), "CHANGELOG.md has no section `## 2.0 (YYYY-MM-DD)`");
    }

    #[test]
    fn the_tag_must_match_the_version() {
        let TaskFailure(message) = print_release_notes("v9.9.9").unwrap_err();
        assert_eq!(message, format!("the tag is v9.9.9, but Cargo.toml's version requires v{VERSION}"));
    }

    #[test]
    fn all_packages_have_the_same_version() {
        check_versions().unwrap();
    }
}

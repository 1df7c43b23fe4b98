//! Skipped tests: only those that `tests/known-skips.toml` lists may be left out.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use serde::Deserialize;

use crate::settings;

/// The file that collects what a run left out, one line each; `cargo xtask test` prints it at the end.
#[must_use]
pub fn skips_file() -> PathBuf {
    settings::target_dir().join("skipped-tests.txt")
}

/// Notes that the rule `name` is left out here. The caller then does leave it out.
///
/// # Panics
/// If `tests/known-skips.toml` does not list `name`: nothing is left out unseen.
pub fn skip(name: &str) {
    let known = read_known();
    let skip = known.iter().find(|skip| skip.name == name);
    let Skip { name, reason } =
        skip.unwrap_or_else(|| panic!("`{name}` is skipped but tests/known-skips.toml does not list it"));
    let line = format!("{name}: {}\n", reason.trim());
    eprint!("skipped {line}");
    // One short append is written whole, so tests that run at the same time do not mix their lines.
    let file = OpenOptions::new().create(true).append(true).open(skips_file());
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the target directory is writable");
}

/// The names of all that may be left out.
#[must_use]
pub fn known_names() -> Vec<String> {
    read_known().into_iter().map(|skip| skip.name).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkipList {
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    name: String,
    reason: String,
}

fn read_known() -> Vec<Skip> {
    let known: SkipList = toml::from_str(include_str!("../known-skips.toml"))
        .expect("tests/known-skips.toml has [[skip]] tables of name and reason");
    known.skip
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_known_skip_has_a_name_of_its_own_and_a_reason() {
        let mut names = BTreeSet::new();
        for skip in read_known() {
            assert!(!skip.reason.trim().is_empty(), "{} has no reason", skip.name);
            assert!(names.insert(skip.name.clone()), "{} is listed twice", skip.name);
        }
    }

    #[test]
    #[should_panic(expected = "does not list it")]
    fn unlisted_skip_panics() {
        skip("no-such-rule");
    }
}

//! Skipped tests. Only those listed in `tests/known-skips.toml` may be skipped.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use serde::Deserialize;

use crate::settings;

/// Returns the file that collects the skips in a run, one per line. `cargo xtask test` prints it at the end.
#[must_use]
pub fn skips_file() -> PathBuf {
    settings::target_dir().join("skipped-tests.txt")
}

/// Records a skip of the rule `name`. The caller must do the skipping itself.
///
/// # Panics
/// If `tests/known-skips.toml` does not list `name`: a skip is always visible.
pub fn record_skip(name: &str) {
    let known = read_skip_list();
    let skip = known.iter().find(|skip| skip.name == name);
    let Skip { name, reason } =
        skip.unwrap_or_else(|| panic!("`{name}` is skipped but tests/known-skips.toml does not list it"));
    let line = format!("{name}: {}\n", reason.trim());
    eprint!("skipped {line}");
    // A short append is atomic, so concurrent tests do not mix their lines.
    let file = OpenOptions::new().create(true).append(true).open(skips_file());
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the target directory is writable");
}

/// Returns the names of all known skips.
#[must_use]
pub fn known_names() -> Vec<String> {
    read_skip_list().into_iter().map(|skip| skip.name).collect()
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

fn read_skip_list() -> Vec<Skip> {
    let known: SkipList = toml::from_str(include_str!("../known-skips.toml"))
        .expect("tests/known-skips.toml has [[skip]] tables with a name and a reason");
    known.skip
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_known_skip_has_a_unique_name_and_a_reason() {
        let mut names = BTreeSet::new();
        for skip in read_skip_list() {
            assert!(!skip.reason.trim().is_empty(), "{} has no reason", skip.name);
            assert!(names.insert(skip.name.clone()), "{} is listed twice", skip.name);
        }
    }

    #[test]
    #[should_panic(expected = "does not list it")]
    fn unlisted_skip_panics() {
        record_skip("no-such-rule");
    }
}

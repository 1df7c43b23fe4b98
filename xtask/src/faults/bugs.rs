//! The bugs that the simulator must find: `tests/simulation/planted/bugs.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::tools::{TaskFailure, read_file};

/// The list's path, relative to the workspace's root.
pub(super) const BUGS: &str = "tests/simulation/planted/bugs.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bugs {
    pub(super) bug: Vec<Bug>,
}

/// An entry. The file documents its members.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bug {
    pub(super) name: String,
    #[serde(default = "first_seed")]
    pub(super) seed: u64,
    pub(super) what: String,
    #[serde(rename = "crate")]
    pub(super) package: String,
    pub(super) function: String,
    pub(super) first: Option<String>,
    #[serde(default)]
    pub(super) argument: BTreeMap<String, String>,
    pub(super) result: Option<String>,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

const fn first_seed() -> u64 {
    1
}

/// Reads the list from the workspace in this folder.
///
/// # Errors
/// The list is malformed, an entry changes nothing, or two entries have the same name.
pub(super) fn read_bugs(root: &Path) -> Result<Vec<Bug>, TaskFailure> {
    parse_bugs(&read_file(&root.join(BUGS))?).map_err(|why| TaskFailure(format!("{BUGS}: {why}")))
}

fn parse_bugs(text: &str) -> Result<Vec<Bug>, String> {
    let Bugs { bug: bugs } = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut names = BTreeSet::new();
    for bug in &bugs {
        let wrong = if bug.before.is_some() != bug.after.is_some() {
            "`before` and `after` belong together: write both"
        } else if bug.first.is_none()
            && bug.argument.is_empty()
            && bug.result.is_none()
            && bug.before.is_none()
        {
            "it changes nothing: write `first`, `argument`, `result`, or `before` and `after`"
        } else if !names.insert(&bug.name) {
            "another entry has this name: choose a different one"
        } else {
            continue;
        };
        return Err(format!("{}: {wrong}", bug.name));
    }
    Ok(bugs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUG: &str = "[[bug]]\nname = 'a'\nwhat = ''\ncrate = 'core'\nfunction = 'f'\n";

    #[test]
    fn planted_bug_entries_have_effects_and_unique_names() {
        let error = |rest: &str| parse_bugs(&format!("{BUG}{rest}")).err();
        assert_eq!(error("result = '1'"), None);
        assert_eq!(error("before = '1'").unwrap(), "a: `before` and `after` belong together: write both");
        let nothing = "a: it changes nothing: write `first`, `argument`, `result`, or `before` and `after`";
        assert_eq!(error("").unwrap(), nothing);
        let twice = format!("result = '1'\n{BUG}result = '2'");
        assert_eq!(error(&twice).unwrap(), "a: another entry has this name: choose a different one");
        assert!(error("file = 'src/lib.rs'").unwrap().contains("unknown field `file`"));
    }
}

//! docs/guarantees/tests.md names tests, which must exist, and how much they check.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::test::SIMULATION_CHANGES;
use crate::tools::root;

/// The tests that the page names: words in backticks of the last column of its tables.
fn named(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let last = rows.filter_map(|row| row.trim_end_matches('|').rsplit_once(" | ")).map(|(_, last)| last);
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|word| {
            word.contains('_')
                && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
        .collect()
}

/// Macros that make a test of each of their lines: its name, or its name and what is tested.
const LISTS: [&str; 2] = ["in_language!(", "variants! {"];

/// Every test in the Rust sources below a directory: a function with an attribute that says so in the lines before it, or
/// one that `in_language!` or `variants!` lists.
fn tests(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap();
            let (mut is_test, mut is_listed) = (false, false);
            for line in source.lines().map(str::trim) {
                is_listed = LISTS.contains(&line) || (is_listed && line != ");" && line != "}");
                let listed = line.strip_suffix(',').filter(|_| is_listed);
                found.extend(listed.map(|line| line.split(':').next().unwrap_or(line).to_owned()));
                is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
                if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                    found.extend(rest.split_once('(').map(|(name, _)| name.to_owned()));
                    is_test = false;
                }
            }
        }
    }
}

#[test]
fn every_test_that_a_promise_names_exists() {
    let page = fs::read_to_string(root().join("docs/guarantees/tests.md")).unwrap();
    let mut found = BTreeSet::new();
    tests(&root().join("crates"), &mut found);
    tests(&root().join("tests"), &mut found);
    tests(&root().join("xtask"), &mut found);
    let named = named(&page);
    assert!(named.len() > 50, "the page names tests: {}", named.len());
    let missing: Vec<_> = named.iter().filter(|name| !found.contains(**name)).collect();
    assert_eq!(missing, [&""; 0]);
}

#[test]
fn as_much_is_simulated_as_the_page_says() {
    let page = fs::read_to_string(root().join("docs/guarantees/tests.md")).unwrap();
    let said = format!("until {SIMULATION_CHANGES} changes are checked");
    assert!(page.replace(',', "").contains(&said), "{said}");
}

#[test]
fn as_many_bugs_are_planted_as_the_page_says() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let bugs: toml::Table = toml::from_str(&read("tests/simulation/planted/bugs.toml")).unwrap();
    let said = format!("the simulator must catch each of {}.", bugs["bug"].as_array().unwrap().len());
    assert!(read("docs/guarantees/tests.md").contains(&said), "{said}");
}

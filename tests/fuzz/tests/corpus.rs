//! Checks every target's properties on all kept inputs, without a fuzzer.
#![expect(clippy::unwrap_used, reason = "clippy treats only #[test] functions as tests, not their helpers")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use redeliver_fuzz::TARGETS;

fn corpus_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn list_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    files
}

/// Checks the target on each file, and reports the name of a failing file.
fn run_corpus(target: &redeliver_fuzz::FuzzTarget, directory: &Path) {
    for file in list_files(directory) {
        let bytes = fs::read(&file).unwrap();
        let done = std::panic::catch_unwind(|| (target.check)(&bytes));
        assert!(done.is_ok(), "{} fails on {}", target.name, file.display());
    }
}

#[test]
fn every_target_has_a_corpus_and_passes_on_it() {
    let directories = fs::read_dir(corpus_path("corpus")).unwrap();
    let corpora: BTreeSet<_> =
        directories.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let names: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(corpora, names, "cargo xtask fuzz runs the targets that have a corpus");
    for target in &TARGETS {
        run_corpus(target, &corpus_path("corpus").join(target.name));
    }
}

#[test]
fn every_target_passes_on_the_json_test_suite_and_schema_examples() {
    for target in &TARGETS {
        run_corpus(target, &corpus_path("json-test-suite"));
        run_corpus(target, &corpus_path("../../schemas/examples/valid"));
        run_corpus(target, &corpus_path("../../schemas/examples/invalid"));
    }
}

#[test]
fn the_corpus_stays_small() {
    let kept = TARGETS.iter().flat_map(|target| list_files(&corpus_path("corpus").join(target.name)));
    let bytes: u64 = kept.map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes < 400_000, "{bytes} bytes");
}

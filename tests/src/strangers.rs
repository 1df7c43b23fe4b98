//! The means of a user without this repository and its tools: a release's files, and an empty folder.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::settings::target_dir;

/// A new, empty folder outside of the repository, with this in its name; gone at the end.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn new_folder(name: &str) -> TempDir {
    let folder = tempfile::Builder::new().prefix(&format!("redeliver-{name}-")).tempdir();
    folder.expect("the temporary folder is writable")
}

/// Copies a file, or a folder with all that is in it.
///
/// # Panics
/// If one of the files cannot be read or written.
pub fn copy_files(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        return;
    }
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    for entry in fs::read_dir(from).expect("it is a folder").flatten() {
        copy_files(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Where the files are.
#[must_use]
pub fn release_folder() -> PathBuf {
    target_dir().join("dist-for-tests")
}

/// One of the files, by the two ends of its name.
///
/// # Panics
/// If it has not been packed, or if there are several.
#[must_use]
pub fn packed_file(start: &str, end: &str) -> PathBuf {
    let files = fs::read_dir(release_folder()).expect("it is packed: run `cargo xtask e2e`, which does it");
    let named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    };
    let mut found: Vec<_> = files.flatten().map(|file| file.path()).filter(|path| named(path)).collect();
    assert_eq!(found.len(), 1, "{start}…{end}: {found:?}");
    found.remove(0)
}

/// Each code block of a page: its language and its text.
pub fn code_blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').expect("a block has lines"))
}

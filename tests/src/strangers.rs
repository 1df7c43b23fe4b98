//! The environment of a user without this repository: the release files, and an empty folder.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::settings::target_dir;

/// Creates a new, empty folder outside the repository, with `name` in its name. It is deleted on drop.
///
/// # Panics
/// If the folder cannot be created.
#[must_use]
pub fn new_folder(name: &str) -> TempDir {
    let folder = tempfile::Builder::new().prefix(&format!("redeliver-{name}-")).tempdir();
    folder.expect("the temporary folder is writable")
}

/// Copies a file, or a folder with its contents.
///
/// # Panics
/// If a file cannot be read or written.
pub fn copy_files(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        return;
    }
    fs::create_dir_all(to).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    for entry in fs::read_dir(from).expect("a folder can be listed").flatten() {
        copy_files(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Returns the folder with the release files.
#[must_use]
pub fn release_folder() -> PathBuf {
    target_dir().join("dist-for-tests")
}

/// Returns the release file whose name starts with `start` and ends with `end`.
///
/// # Panics
/// If the file has not been packed, or if several match.
#[must_use]
pub fn packed_file(start: &str, end: &str) -> PathBuf {
    let files = fs::read_dir(release_folder()).expect("the release is packed: run `cargo xtask e2e`");
    let named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    };
    let mut found: Vec<_> = files.flatten().map(|file| file.path()).filter(|path| named(path)).collect();
    assert_eq!(found.len(), 1, "{start}…{end}: {found:?}");
    found.remove(0)
}

/// Returns the code blocks of a page, each with its language and its contents.
pub fn code_blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').expect("a block has lines"))
}

//! Editable copies of the sources. Unchanged files keep their modification times, so Cargo does not recompile them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::tools::{TaskFailure, read_file, write_file};

/// Replaces the copy in this folder with these files and folders of `from`, changed by `edit`. A file with the same
/// content as in the last copy keeps its modification time.
///
/// # Errors
/// A file cannot be read or written, or `edit` fails.
pub(crate) fn refresh_copy(
    copy: &Path,
    from: &Path,
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    edit: impl FnOnce(&Path) -> Result<(), TaskFailure>,
) -> Result<(), TaskFailure> {
    let newer = copy.with_extension("new");
    remove_folder(&newer)?;
    for path in paths {
        copy_all(&from.join(&path), &newer.join(&path))?;
    }
    edit(&newer)?;
    restore_modification_times(copy, &newer)?;
    remove_folder(copy)?;
    fs::rename(&newer, copy).map_err(|error| TaskFailure(format!("{}: {error}", copy.display())))
}

/// Gives the workspace's crates in the copy a different version. Otherwise, Cargo would mistake their builds for the
/// real ones.
///
/// # Errors
/// The manifest cannot be read or written.
pub(crate) fn set_version(copy: &Path, suffix: &str) -> Result<(), TaskFailure> {
    let manifest = copy.join("Cargo.toml");
    let version = concat!("version = \"", env!("CARGO_PKG_VERSION"));
    let text = read_file(&manifest)?.replace(&format!("{version}\""), &format!("{version}-{suffix}\""));
    write_file(&manifest, &text)
}

/// Copies a file, or a folder with all its contents.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn copy_all(from: &Path, to: &PathBuf) -> Result<(), TaskFailure> {
    let failed = |error: std::io::Error| TaskFailure(format!("copying {}: {error}", from.display()));
    if !from.is_dir() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::copy(from, to).map_err(failed)?;
        return Ok(());
    }
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Restores the modification times of files whose content has not changed, so that Cargo does not recompile them.
fn restore_modification_times(before: &Path, now: &Path) -> Result<(), TaskFailure> {
    let failed = |error: std::io::Error| TaskFailure(format!("{}: {error}", now.display()));
    if now.is_dir() {
        for entry in fs::read_dir(now).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            restore_modification_times(&before.join(entry.file_name()), &entry.path())?;
        }
    } else if fs::read(before).is_ok_and(|bytes| fs::read(now).is_ok_and(|same| same == bytes)) {
        let time = fs::metadata(before).and_then(|metadata| metadata.modified()).map_err(failed)?;
        let file = File::options().write(true).open(now).map_err(failed)?;
        file.set_modified(time).map_err(failed)?;
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<(), TaskFailure> {
    let is_there = folder.exists();
    let gone = if is_there { fs::remove_dir_all(folder) } else { Ok(()) };
    gone.map_err(|error| TaskFailure(format!("{}: {error}", folder.display())))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn only_changed_files_get_new_modification_times() {
        let folder = tempfile::tempdir().unwrap();
        let [before, now] = ["before", "now"].map(|name| folder.path().join(name));
        let old = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        for (place, name, text) in [
            (&before, "same", "1"),
            (&before, "changed", "1"),
            (&now, "same", "1"),
            (&now, "changed", "2"),
            (&now, "added", "1"),
        ] {
            let file = place.join("crates").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            write_file(&file, text).unwrap();
            if place == &before {
                File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
            }
        }
        restore_modification_times(&before, &now).unwrap();
        let is_old = |name| fs::metadata(now.join("crates").join(name)).unwrap().modified().unwrap() == old;
        assert_eq!(["same", "changed", "added"].map(is_old), [true, false, false]);
    }
}

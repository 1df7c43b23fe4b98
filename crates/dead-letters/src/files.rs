//! Opens all files that redeliver writes or trusts. New files are private and overwrite nothing, except through
//! [`replace_file`] and [`publish_file`]. A trusted file must belong to the user and be writable only by them.
//!
//! A file is opened once, and the checks apply to the open file, so a file that replaces it in the meantime is not
//! used.
#![expect(clippy::disallowed_methods, reason = "the only module that writes files")]

mod trust;

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use redeliver_platform::files::{ALL_USERS, OWNER_ONLY, set_mode, sync_directory};
use thiserror::Error;
use uuid::Uuid;

pub use redeliver_platform::files::make_private;
use trust::{check_stream, check_trusted, open_trusted};

/// A file that cannot be used.
#[derive(Debug, Error)]
#[error("{}: {reason}", .path.display())]
pub struct FileError {
    path: PathBuf,
    reason: String,
}

impl FileError {
    pub fn new(path: &Path, reason: impl Display) -> Self {
        Self { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// The reason for not overwriting a file.
pub const ALREADY_EXISTS: &str = "it already exists; name another file, so that nothing is overwritten";

/// The reason for rejecting a name that the next command would read as standard input.
const NOT_STDOUT: &str = "is not supported as standard output; name a file";

/// The maximum size, in bytes, of a file that is read completely into memory.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
const TOO_LARGE: &str = "it is larger than the limit of 256 MiB: name another file";

/// Creates a file that only its owner can read and write (mode 600), since messages are written to it.
///
/// # Errors
/// If the file already exists, since it may be the only copy of its content.
pub fn create_new(path: &Path) -> io::Result<File> {
    create_with_mode(path, OWNER_ONLY)
}

/// Creates a file, or opens `/dev/stdout`, a device, or one of the user's pipes for writing.
///
/// # Errors
/// If the file already exists, or is another user's pipe, since that user could read the output.
pub fn create_output(path: &Path) -> io::Result<File> {
    if !is_stream(path)? {
        return create_new(path);
    }
    let file = OpenOptions::new().write(true).open(path)?;
    check_stream(&file.metadata()?, is_inherited(path))?;
    Ok(file)
}

/// Opens a file whose content is trusted, such as a journal, for reading and appending. With `create`, a missing file
/// is created, with private permissions.
///
/// # Errors
/// If the file does not exist (without `create`), cannot be opened, or may have been written by another user.
pub fn open_own_file(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if create {
        match open_trusted(path, options.clone().create_new(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.inspect_err(|_| remove_empty_file(path)),
        }
    }
    open_trusted(path, &mut options)
}

/// Removes a new file that could not be made private because the file system does not support owners and modes.
fn remove_empty_file(path: &Path) {
    let is_empty = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
    if is_empty {
        let _best_effort = fs::remove_file(path);
    }
}

/// Returns true for a regular file that belongs to the user, even if other users can write to it.
#[must_use]
pub fn is_owned_by_user(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| {
        metadata.is_file() && redeliver_platform::files::is_owned_by_current_user(&metadata)
    })
}

/// Reads a file that [`replace_file`] wrote and whose content is trusted.
///
/// # Errors
/// If the file cannot be read, may have been written by another user, or is larger than 256 MiB.
pub fn read_own_file(path: &Path) -> io::Result<String> {
    let file = open_trusted(path, OpenOptions::new().read(true))?;
    let mut text = String::new();
    let bytes = file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if bytes as u64 > BYTES_MAX { Err(io::Error::other(TOO_LARGE)) } else { Ok(text) }
}

/// Replaces a file atomically with a private one. A reader sees either the old file or the new one, even after a crash.
///
/// # Errors
/// If the file cannot be written, or the content exceeds 256 MiB and so could not be read back. In that case, either
/// the old or the new file is intact.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<(), FileError> {
    if content.len() as u64 > BYTES_MAX {
        return Err(FileError::new(path, TOO_LARGE));
    }
    write_atomically(path, content, |new| check_trusted(create_new(new)?))
}

/// Replaces a file atomically like [`replace_file`], but readable by all users: for a manual page or an image, never
/// for messages.
///
/// # Errors
/// If the file cannot be written. In that case, either the old or the new file is intact.
pub fn publish_file(path: &Path, content: &[u8]) -> Result<(), FileError> {
    write_atomically(path, content, |new| create_with_mode(new, ALL_USERS))
}

fn write_atomically(
    path: &Path,
    content: &[u8],
    created: impl Fn(&Path) -> io::Result<File>,
) -> Result<(), FileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", Uuid::new_v4().simple()));
    let new = path.with_file_name(name);
    let write = || {
        let mut file = created(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_parent_directory(path)
    };
    write().map_err(|error| {
        let _best_effort = fs::remove_file(&new);
        FileError::new(path, error)
    })
}

/// Checks in advance that a new file can be created at this path, so that a command does no work whose result it could
/// not save.
///
/// # Errors
/// If the file already exists, its directory does not, or its name is `-`.
pub fn check_new_file(path: &Path) -> Result<(), FileError> {
    if path == Path::new("-") {
        return Err(FileError::new(path, NOT_STDOUT));
    }
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(FileError::new(path, "it is a directory; name a file in it"))
        }
        Ok(_) => Err(FileError::new(path, ALREADY_EXISTS)),
        Err(_) => check_directory(path),
    }
}

/// Checks in advance that [`create_output`] can open the file.
///
/// # Errors
/// As for [`create_output`]; also if the directory does not exist.
pub fn check_output(path: &Path) -> Result<(), FileError> {
    match is_stream(path) {
        Ok(true) => Ok(()),
        Ok(false) => check_new_file(path),
        Err(error) => Err(FileError::new(path, error)),
    }
}

/// Checks that the directory of a file exists.
///
/// # Errors
/// If the directory does not exist.
pub fn check_directory(path: &Path) -> Result<(), FileError> {
    if parent_directory(path).is_dir() {
        return Ok(());
    }
    Err(FileError::new(path, "its directory does not exist; create it first, or name another file"))
}

/// Syncs the directory of a new file. Until then, a crash can lose the directory entry.
///
/// # Errors
/// If the directory cannot be opened or synchronized.
pub fn sync_parent_directory(path: &Path) -> io::Result<()> {
    sync_directory(parent_directory(path))
}

/// Returns the directory of a file.
#[must_use]
pub fn parent_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

fn create_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    if path == Path::new("-") {
        return Err(io::Error::other(NOT_STDOUT));
    }
    let mut options = OpenOptions::new();
    set_mode(&mut options, mode).write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(io::ErrorKind::AlreadyExists, ALREADY_EXISTS),
        _ => error,
    })
}

/// Returns true for a pipe or a device, which is opened rather than created.
fn is_stream(path: &Path) -> io::Result<bool> {
    let is_inherited = is_inherited(path);
    // Other links are not followed, since they may belong to another user.
    let metadata = if is_inherited { path.metadata() } else { path.symlink_metadata() };
    match metadata {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() && !metadata.is_symlink() => {
            check_stream(&metadata, is_inherited).map(|()| true)
        }
        _ => Ok(false),
    }
}

/// Returns true for a file descriptor inherited at startup, such as `-o /dev/stdout` or a shell's `>(…)`.
fn is_inherited(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"].iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests;

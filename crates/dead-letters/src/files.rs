//! Files that hold messages: for their owner's eyes only, and never over another one.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

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

/// Of a file that is not overwritten.
pub const IS_THERE: &str = "it is there already; name another file, so that nothing is overwritten";

/// A new file, for its owner's eyes only, since messages are written to it.
///
/// # Errors
/// If there is such a file already: it may be somebody's only copy.
pub fn create_new(path: &Path) -> io::Result<File> {
    let opened = for_its_owner(OpenOptions::new().write(true)).create_new(true).open(path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(io::ErrorKind::AlreadyExists, IS_THERE),
        _ => error,
    })
}

/// A file that is made so is for its owner's eyes only.
pub fn for_its_owner(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// A new file's name is on the disk only when its directory is.
///
/// # Errors
/// If the directory cannot be opened, or the disk refuses.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory_of(path))?.sync_all() } else { Ok(()) }
}

/// Where a file is, or is to be.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

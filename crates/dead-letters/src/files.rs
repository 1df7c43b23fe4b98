//! Files that hold messages: for their owner's eyes only, and never over another one.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use thiserror::Error;
use uuid::Uuid;

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

/// Puts a file in the place of another one, for its owner's eyes only: whoever reads it, also after a crash, finds the
/// old one or this one, whole.
///
/// # Errors
/// If the disk refuses. The old one or this one is there then, whole.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", Uuid::new_v4().simple()));
    let new = path.with_file_name(name);
    let write = || {
        let mut file = create_new(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_directory_of(path)
    };
    write().map_err(|error| {
        let _best_effort = fs::remove_file(&new);
        FileError::new(path, error)
    })
}

/// Before the work: what cannot be a new file is refused, so that nothing is done that could not be kept.
///
/// # Errors
/// If there is such a file already, or no directory for it.
pub fn check_new(path: &Path) -> Result<(), FileError> {
    match path.symlink_metadata() {
        Ok(there) if there.is_dir() => Err(FileError::new(path, "it is a directory; name a file in it")),
        Ok(_) => Err(FileError::new(path, IS_THERE)),
        Err(_) => check_directory(path),
    }
}

/// Whether a file could be there.
///
/// # Errors
/// If its directory is not there.
pub fn check_directory(path: &Path) -> Result<(), FileError> {
    if directory_of(path).is_dir() {
        return Ok(());
    }
    Err(FileError::new(path, "its directory is not there; make that first, or name another file"))
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

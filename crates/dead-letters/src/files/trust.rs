//! Checks that a file belongs to the user, and that no other user can write to it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use redeliver_platform::files::{
    OWNER_ONLY, describe_other_reader, describe_other_writers, is_stream, open_nofollow, set_mode,
};

/// Opens a file only if no other user can have written it.
pub(super) fn open_trusted(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let opened = open_nofollow(path, set_mode(options, OWNER_ONLY))?;
    opened.map_or_else(|| Err(untrusted_error("it is a link")), check_trusted)
}

/// Returns the file if no other user can have written it.
pub(super) fn check_trusted(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(untrusted_error("it is not a regular file"));
    }
    if let Some(why) = describe_other_writers(&metadata) {
        return Err(untrusted_error(&why));
    }
    Ok(file)
}

fn untrusted_error(why: &str) -> io::Error {
    io::Error::other(format!(
        "{why}, so its content is not trusted: name another file, or check this one and use a copy \
         (`install -m 600 FILE COPY`)"
    ))
}

/// Accepts a pipe or a device that belongs to the user or the system, or an inherited file descriptor.
pub(super) fn check_stream(metadata: &Metadata, is_inherited: bool) -> io::Result<()> {
    if !is_stream(metadata) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, super::ALREADY_EXISTS));
    }
    match describe_other_reader(metadata).filter(|_| !is_inherited) {
        Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
        None => Ok(()),
    }
}

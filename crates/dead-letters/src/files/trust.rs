//! Checks who owns a file and who else can write to it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::{fs::OFlags, io::Errno, process::geteuid};

/// Opens a file only if no other user can have written it.
pub(super) fn open_trusted(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Opening a pipe would block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match options.mode(super::FOR_ITS_OWNER).custom_flags(flags.bits().cast_signed()).open(path) {
        Ok(file) => trusted(file),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Err(not_trusted("it is a link")),
        Err(error) => Err(error),
    }
}

/// Returns the file, if no other user can have written it.
pub(super) fn trusted(file: File) -> io::Result<File> {
    let there = file.metadata()?;
    if !there.is_file() {
        return Err(not_trusted("it is not a regular file"));
    }
    if let Some(why) = written_by_others(&there, geteuid().as_raw()) {
        return Err(not_trusted(&why));
    }
    Ok(file)
}

pub(super) fn is_ones_own(there: &Metadata) -> bool {
    there.is_file() && there.uid() == geteuid().as_raw()
}

fn not_trusted(why: &str) -> io::Error {
    io::Error::other(format!(
        "{why}, so what it says is not trusted: name another file, or check this one and use a copy \
         (`install -m 600 FILE COPY`)"
    ))
}

fn written_by_others(there: &Metadata, user: u32) -> Option<String> {
    let mode = there.mode() & 0o777;
    match there.uid() {
        owner if owner != user => Some(format!("it belongs to another user (uid {owner})")),
        _ if mode & 0o022 != 0 => Some(format!("other users can write to it (mode {mode:o})")),
        _ => None,
    }
}

/// A pipe or a device of the user or of the system, or a file descriptor that the program was started with.
pub(super) fn check_stream(there: &Metadata, is_inherited: bool) -> io::Result<()> {
    let kind = there.file_type();
    if !kind.is_fifo() && !kind.is_char_device() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, super::IS_THERE));
    }
    match read_by_another(there.uid(), geteuid().as_raw()).filter(|_| !is_inherited) {
        Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, why)),
        None => Ok(()),
    }
}

fn read_by_another(owner: u32, user: u32) -> Option<String> {
    let is_another = owner != user && owner != ROOT;
    is_another
        .then(|| format!("another user (uid {owner}) owns it and could read all of it; name another file"))
}

const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_user_is_not_trusted() {
        let (_folder, path) = super::super::tests::file("{}");
        let there = path.metadata().unwrap();
        let owner = there.uid();
        assert_eq!(written_by_others(&there, owner), None);
        let why = format!("it belongs to another user (uid {owner})");
        assert_eq!(written_by_others(&there, owner + 1), Some(why));
    }

    #[test]
    fn only_ones_own_pipe_and_the_systems_devices_are_written_to() {
        assert_eq!([read_by_another(1000, 1000), read_by_another(0, 1000)], [None, None]);
        let why = "another user (uid 1000) owns it and could read all of it; name another file";
        for user in [1001, 0] {
            assert_eq!(read_by_another(1000, user), Some(why.to_owned()), "root, too");
        }
    }
}

//! Private files, and checks of other users' access to files.

pub use system::{
    is_ones_own, is_stream, keep_private, open_no_link, read_by_another, set_mode, sync_directory,
    written_by_others,
};

/// The mode of a file that only its owner may read and write.
pub const FOR_ITS_OWNER: u32 = 0o600;
/// The mode of a file that all users may read and write, before the umask is applied.
pub const FOR_ALL: u32 = 0o666;

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
    use std::path::Path;

    use rustix::{fs::OFlags, io::Errno, process::geteuid};

    /// Sets the mode of a new file.
    pub fn set_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
        options.mode(mode)
    }

    /// Opens a file; `None` if it is a link.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_no_link(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
        // Opening a pipe would block.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        match options.custom_flags(flags.bits().cast_signed()).open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an open file private, regardless of the mode with which it was created.
    ///
    /// # Errors
    /// If the file system rejects the change.
    pub fn keep_private(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(super::FOR_ITS_OWNER))
    }

    /// Syncs a folder, so that the names of its files survive a crash of the system.
    ///
    /// # Errors
    /// If the folder cannot be opened or synced.
    pub fn sync_directory(folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// True if a file belongs to this user.
    #[must_use]
    pub fn is_ones_own(there: &Metadata) -> bool {
        there.uid() == geteuid().as_raw()
    }

    /// The reason why another user may have written a file; `None` if only this user can.
    #[must_use]
    pub fn written_by_others(there: &Metadata) -> Option<String> {
        written_by_others_than(geteuid().as_raw(), there)
    }

    fn written_by_others_than(user: u32, there: &Metadata) -> Option<String> {
        let mode = there.mode() & 0o777;
        match there.uid() {
            owner if owner != user => Some(format!("it belongs to another user (uid {owner})")),
            _ if mode & 0o022 != 0 => Some(format!("other users can write to it (mode {mode:o})")),
            _ => None,
        }
    }

    /// True for a pipe or a device.
    #[must_use]
    pub fn is_stream(there: &Metadata) -> bool {
        there.file_type().is_fifo() || there.file_type().is_char_device()
    }

    /// The reason why another user may read data written to a pipe or a device. Those of the system are trusted.
    #[must_use]
    pub fn read_by_another(there: &Metadata) -> Option<String> {
        read_by_another_than(geteuid().as_raw(), there.uid())
    }

    fn read_by_another_than(user: u32, owner: u32) -> Option<String> {
        let is_another = owner != user && owner != ROOT;
        is_another.then(|| {
            format!("another user (uid {owner}) owns it and could read all of it; name another file")
        })
    }

    const ROOT: u32 = 0;

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_file_of_another_user_is_not_trusted() {
            let file = tempfile::NamedTempFile::new().unwrap();
            let there = file.path().metadata().unwrap();
            let owner = there.uid();
            assert_eq!(written_by_others_than(owner, &there), None);
            let why = format!("it belongs to another user (uid {owner})");
            assert_eq!(written_by_others_than(owner + 1, &there), Some(why));
        }

        #[test]
        fn only_ones_own_pipe_and_the_systems_devices_are_written_to() {
            assert_eq!([read_by_another_than(1000, 1000), read_by_another_than(1000, 0)], [None, None]);
            let why = "another user (uid 1000) owns it and could read all of it; name another file";
            for user in [1001, 0] {
                assert_eq!(read_by_another_than(user, 1000), Some(why.to_owned()), "root, too");
            }
        }
    }
}

/// Windows: access lists control reads and writes of a file. A new file inherits its folder's: in the user's profile,
/// only the user, administrators and the system have access. The lists of an existing file are not checked.
#[cfg(windows)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt as _;
    use std::path::Path;

    /// Opens a link itself instead of its target: "CreateFileW function", `dwFlagsAndAttributes`.
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    /// Does nothing: a new file inherits the access list of its folder.
    pub fn set_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
        options
    }

    /// Opens a file; `None` if it is a link.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_no_link(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
        let file = options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)?;
        let is_link = file.metadata()?.is_symlink();
        Ok((!is_link).then_some(file))
    }

    /// Does nothing: see [`set_mode`].
    ///
    /// # Errors
    /// None.
    pub fn keep_private(_: &File) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: a folder cannot be synced, and NTFS journals its names.
    ///
    /// # Errors
    /// None.
    pub fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Not checked.
    #[must_use]
    pub fn is_ones_own(_: &Metadata) -> bool {
        true
    }

    /// Not checked.
    #[must_use]
    pub fn written_by_others(_: &Metadata) -> Option<String> {
        None
    }

    /// Returns false: pipes and devices have special names here, and are not written to.
    #[must_use]
    pub fn is_stream(_: &Metadata) -> bool {
        false
    }

    /// Not needed: see [`is_stream`].
    #[must_use]
    pub fn read_by_another(_: &Metadata) -> Option<String> {
        None
    }
}

//! Private files, and checks of other users' access to them.

pub use system::{
    describe_other_reader, describe_other_writers, is_owned_by_current_user, is_stream, make_private,
    open_nofollow, set_mode, sync_directory,
};

/// The mode of a file that only its owner can read and write.
pub const OWNER_ONLY: u32 = 0o600;
/// The mode of a file that all users can read and write, before the umask is applied.
pub const ALL_USERS: u32 = 0o666;

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

    /// Opens a file; `None` if it is a symbolic link.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_nofollow(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
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
    /// The file system rejects the change.
    pub fn make_private(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(super::OWNER_ONLY))
    }

    /// Syncs a folder, so that its file names survive a system crash.
    ///
    /// # Errors
    /// The folder cannot be opened or synced.
    pub fn sync_directory(folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// True if the file belongs to the current user.
    #[must_use]
    pub fn is_owned_by_current_user(metadata: &Metadata) -> bool {
        metadata.uid() == geteuid().as_raw()
    }

    /// Returns the reason why another user may have written to the file; `None` if only the current user can write to
    /// it.
    #[must_use]
    pub fn describe_other_writers(metadata: &Metadata) -> Option<String> {
        describe_writers_other_than(geteuid().as_raw(), metadata)
    }

    fn describe_writers_other_than(user: u32, metadata: &Metadata) -> Option<String> {
        let mode = metadata.mode() & 0o777;
        match metadata.uid() {
            owner if owner != user => Some(format!("it belongs to another user (uid {owner})")),
            _ if mode & 0o022 != 0 => Some(format!("other users can write to it (mode {mode:o})")),
            _ => None,
        }
    }

    /// True if the file is a pipe or a character device.
    #[must_use]
    pub fn is_stream(metadata: &Metadata) -> bool {
        metadata.file_type().is_fifo() || metadata.file_type().is_char_device()
    }

    /// Returns the reason why another user can read data written to a pipe or a device; `None` if it belongs to the
    /// current user or to root, which is trusted.
    #[must_use]
    pub fn describe_other_reader(metadata: &Metadata) -> Option<String> {
        describe_reader_other_than(geteuid().as_raw(), metadata.uid())
    }

    fn describe_reader_other_than(user: u32, owner: u32) -> Option<String> {
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
        fn another_users_file_is_not_trusted() {
            let file = tempfile::NamedTempFile::new().unwrap();
            let metadata = file.path().metadata().unwrap();
            let owner = metadata.uid();
            assert_eq!(describe_writers_other_than(owner, &metadata), None);
            let why = format!("it belongs to another user (uid {owner})");
            assert_eq!(describe_writers_other_than(owner + 1, &metadata), Some(why));
        }

        #[test]
        fn only_the_users_own_pipes_and_system_devices_are_written_to() {
            assert_eq!(
                [describe_reader_other_than(1000, 1000), describe_reader_other_than(1000, 0)],
                [None, None]
            );
            let why = "another user (uid 1000) owns it and could read all of it; name another file";
            for user in [1001, 0] {
                assert_eq!(
                    describe_reader_other_than(user, 1000),
                    Some(why.to_owned()),
                    "even root refuses another user's pipe"
                );
            }
        }
    }
}

/// On Windows, access control lists determine who can read and write a file. A new file inherits its folder's list: in
/// the user's profile, only the user, administrators and the system have access. The list of an existing file is not
/// checked.
#[cfg(windows)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt as _;
    use std::path::Path;

    /// Opens a link itself instead of its target ("CreateFileW function", `dwFlagsAndAttributes`).
    const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;

    /// Does nothing: a new file inherits its folder's access control list.
    pub fn set_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
        options
    }

    /// Opens a file; `None` if it is a symbolic link.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_nofollow(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
        let file = options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path)?;
        let is_link = file.metadata()?.is_symlink();
        Ok((!is_link).then_some(file))
    }

    /// Does nothing: see [`set_mode`].
    ///
    /// # Errors
    /// Never fails.
    pub fn make_private(_: &File) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: folders cannot be synced, and NTFS journals file names.
    ///
    /// # Errors
    /// Never fails.
    pub fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Returns true: the owner is not checked on Windows.
    #[must_use]
    pub fn is_owned_by_current_user(_: &Metadata) -> bool {
        true
    }

    /// Returns `None`: the access control list is not checked on Windows.
    #[must_use]
    pub fn describe_other_writers(_: &Metadata) -> Option<String> {
        None
    }

    /// Returns false: pipes and devices have special names on Windows, and are not written to.
    #[must_use]
    pub fn is_stream(_: &Metadata) -> bool {
        false
    }

    /// Returns `None`, since pipes and devices are not written to: see [`is_stream`].
    #[must_use]
    pub fn describe_other_reader(_: &Metadata) -> Option<String> {
        None
    }
}

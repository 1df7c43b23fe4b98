//! Files that another user may have planted where a program expects its own.
#![expect(clippy::disallowed_methods, reason = "planted files belong to another user")]

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

/// The end of the error message.
const REMEDY: &str = "so its content is not trusted: name another file, or check this one and use a copy \
                      (`install -m 600 FILE COPY`)";

/// A user other than the one running the tests.
pub const ANOTHER_USER: u32 = 65_534;

/// Plants each kind of file at `path` in turn, and calls `refused` with the expected error. Regular files contain
/// `text`.
///
/// Only root can change a file's owner. For other users, the rule itself is tested with two user ids
/// (`another_users_file_is_not_trusted`).
pub fn check_each_planted_file(path: &Path, text: &str, refused: impl Fn(&str)) {
    let neighbor = path.with_extension("beside");
    let not_trusted = |why: &str| refused(&format!("{why}, {REMEDY}"));
    let remove = || std::fs::remove_file(path).unwrap();
    let write_with_mode = |path: &Path, mode: u32| {
        write(path, text).unwrap();
        set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    for mode in [0o666, 0o620, 0o602] {
        write_with_mode(path, mode);
        not_trusted(&format!("other users can write to it (mode {mode:o})"));
        remove();
    }
    write_with_mode(path, 0o600);
    if chown(path, Some(ANOTHER_USER), None).is_ok() {
        not_trusted(&format!("it belongs to another user (uid {ANOTHER_USER})"));
    }
    remove();
    write_with_mode(&neighbor, 0o600);
    for target in [&neighbor, Path::new("/dev/zero"), &path.with_extension("absent")] {
        symlink(target, path).unwrap();
        not_trusted("it is a link");
        remove();
    }
    assert!(!path.with_extension("absent").exists(), "the link is not followed");
    assert_eq!(std::fs::read_to_string(&neighbor).unwrap(), text, "the link is not followed");
    create_pipe(path);
    not_trusted("it is not a regular file");
    remove();
    std::fs::remove_file(neighbor).unwrap();
}

/// Creates a named pipe.
pub fn create_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

//! The glibc version that programs are built against.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::tools::TaskFailure;

/// A version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// The version for the functions, and for the layer, which contains the message-processor. Lambda's managed runtimes on
/// Amazon Linux 2, such as Python 3.11 and Java 17, have this version. `provided.al2023` has 2.34.
pub(crate) const FOR_FUNCTIONS: Glibc = Glibc { major: 2, minor: 26 };
/// The version for the command line, as in RHEL 8.
pub(crate) const FOR_COMMAND_LINE: Glibc = Glibc { major: 2, minor: 28 };
/// The oldest version that Rust's standard library supports. A program that names no version requires this one.
const OLDEST: Glibc = Glibc { major: 2, minor: 17 };

impl fmt::Display for Glibc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Checks that a program runs with the promised glibc version.
///
/// # Errors
/// The program requires a newer version.
pub(crate) fn check_glibc(program: &Path, promised: Glibc) -> Result<(), TaskFailure> {
    let shown = program.display();
    let bytes = fs::read(program).map_err(|error| TaskFailure(format!("{shown}: {error}")))?;
    let newest = newest_version(&bytes);
    if newest <= promised {
        return Ok(());
    }
    Err(TaskFailure(format!(
        "{shown} requires glibc {newest}, but {promised} is promised: find the symbol with `objdump -T`"
    )))
}

/// Returns the newest version that a program requires, named as in `GLIBC_2.28`.
pub(crate) fn newest_version(program: &[u8]) -> Glibc {
    const PREFIX: &[u8] = b"GLIBC_";
    let named = program.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    let versions = named.filter_map(|(at, _)| {
        let rest = &program[at + PREFIX.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let (major, minor) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
        Some(Glibc { major: major.parse().ok()?, minor: minor.split('.').next()?.parse().ok()? })
    });
    versions.max().unwrap_or(OLDEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::target_dir;

    #[test]
    fn a_program_requires_the_newest_version_that_it_names() {
        let asked = |program: &[u8]| newest_version(program).to_string();
        assert_eq!(asked(b"\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_2.9\0GLIBC_PRIVATE\0"), "2.28");
        assert_eq!(asked(b"of no C library"), "2.17");
    }

    #[test]
    fn a_program_that_requires_a_newer_glibc_is_refused() {
        let folder = target_dir().join("tmp/glibc");
        fs::create_dir_all(&folder).unwrap();
        let (old, new) = (folder.join("old"), folder.join("new"));
        fs::write(&old, "\0GLIBC_2.26\0").unwrap();
        fs::write(&new, "\0GLIBC_2.27\0").unwrap();
        check_glibc(&old, FOR_FUNCTIONS).unwrap();
        let TaskFailure(message) = check_glibc(&new, FOR_FUNCTIONS).unwrap_err();
        assert_eq!(
            message,
            format!(
                "{} requires glibc 2.27, but 2.26 is promised: find the symbol with `objdump -T`",
                new.display()
            )
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}

//! The C library that programs are built against.

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

/// For the functions, and for the layer, which has the message-processor: Lambda's managed runtimes on Amazon Linux 2 have it, such
/// as Python 3.11 and Java 17. `provided.al2023` has 2.34.
pub(crate) const OF_FUNCTIONS: Glibc = Glibc { major: 2, minor: 26 };
/// For the command line: RHEL 8 has it.
pub(crate) const OF_COMMAND_LINE: Glibc = Glibc { major: 2, minor: 28 };
/// The oldest that Rust's own library runs with, and so what a program needs that names none.
const OLDEST: Glibc = Glibc { major: 2, minor: 17 };

impl fmt::Display for Glibc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// Checks that a program runs where it is promised to run.
///
/// # Errors
/// It asks for something newer.
pub(crate) fn check_glibc(program: &Path, promised: Glibc) -> Result<(), TaskFailure> {
    let shown = program.display();
    let bytes = fs::read(program).map_err(|error| TaskFailure(format!("{shown}: {error}")))?;
    let newest = newest_version(&bytes);
    if newest <= promised {
        return Ok(());
    }
    Err(TaskFailure(format!(
        "{shown} asks for glibc {newest}, and {promised} is promised: `objdump -T` says which symbol it is"
    )))
}

/// The newest version that a program asks for, as `GLIBC_2.28`.
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
    fn a_program_asks_for_the_newest_that_it_names() {
        let asked = |program: &[u8]| newest_version(program).to_string();
        assert_eq!(asked(b"\0GLIBC_2.2.5\0GLIBC_2.28\0GLIBC_2.9\0GLIBC_PRIVATE\0"), "2.28");
        assert_eq!(asked(b"of no C library"), "2.17");
    }

    #[test]
    fn a_program_that_asks_for_more_than_is_promised_is_refused() {
        let folder = target_dir().join("tmp/glibc");
        fs::create_dir_all(&folder).unwrap();
        let (old, new) = (folder.join("old"), folder.join("new"));
        fs::write(&old, "\0GLIBC_2.26\0").unwrap();
        fs::write(&new, "\0GLIBC_2.27\0").unwrap();
        check_glibc(&old, OF_FUNCTIONS).unwrap();
        let TaskFailure(message) = check_glibc(&new, OF_FUNCTIONS).unwrap_err();
        assert_eq!(
            message,
            format!(
                "{} asks for glibc 2.27, and 2.26 is promised: `objdump -T` says which symbol it is",
                new.display()
            )
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}

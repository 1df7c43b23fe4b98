//! Reads files named on the command line. Every error starts with the file name.

use std::fmt::Display;
use std::io;
use std::path::Path;

use redeliver_core::message::plain::{IdSources, PlainMessages};
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::policy::{OnGiveUp, Policy};
use redeliver_core::strategy::StrategyDefinition;

use crate::plain_args::PlainArguments;

pub use redeliver_dead_letters::files::{FileError, create_output};

/// Reads a text file.
///
/// # Errors
/// If the file cannot be read, is UTF-16, starts with a byte order mark, or is not UTF-8. The last error includes the
/// position.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let bytes = std::fs::read(path).map_err(|error| unreadable_file_error(path, &error))?;
    check_encoding(path, &bytes)?;
    String::from_utf8(bytes).map_err(|error| {
        FileError::new(path, format_args!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })
}

/// Rejects UTF-16 and byte order marks, which PowerShell and some Windows editors write, but JSON does not allow.
pub fn check_encoding(path: &Path, beginning: &[u8]) -> Result<(), FileError> {
    match beginning {
        [0xef, 0xbb, 0xbf, ..] => {
            Err(FileError::new(path, "begins with a byte order mark; save it as UTF-8 without one"))
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(FileError::new(path, "is UTF-16; save it as UTF-8")),
        _ => Ok(()),
    }
}

/// Returns the error for an unreadable file, with a hint for `-` and `s3://`, which only some commands accept.
pub fn unreadable_file_error(path: &Path, error: &io::Error) -> FileError {
    // A command that reads archives, or messages from standard input, does not treat these as file names.
    let hint = if path == Path::new("-") {
        "; only messages are read from standard input: name a file"
    } else if path.starts_with("s3:/") {
        "; this command does not read an archive: write its dead letters to a file with `redeliver audit s3://… --save FILE`"
    } else {
        ""
    };
    FileError::new(path, format_args!("cannot be read: {error}{hint}"))
}

/// Returns the error for a file that cannot be written.
pub fn unwritable_file_error(path: &Path, error: &io::Error) -> FileError {
    FileError::new(path, format_args!("cannot be written: {error}"))
}

/// Reads a policy file for a strategy. Missing members are taken from the strategy's default policy, as is the entire
/// policy if no file is named. A policy that blocks groups is rejected, because the run has to end by itself.
pub fn read_policy(path: Option<&Path>, strategy: &StrategyDefinition) -> Result<Policy, FileError> {
    const ENDLESS: &str = "sets /on_give_up to block: blocked groups cannot be released here, and the run would \
                           never end; remove it";
    let text = path.map_or(Ok("{}".to_owned()), read_text)?;
    let named = path.unwrap_or(Path::new("the default policy"));
    let refused = |why: &dyn Display| FileError::new(named, format_args!("the retry policy {why}"));
    let policy = strategy.parse_policy(&text).map_err(|error| refused(&error))?;
    if policy.on_give_up == OnGiveUp::Block { Err(refused(&ENDLESS)) } else { Ok(policy) }
}

/// Reads the message schemas: for `data`, and for plain messages if they are accepted.
pub fn read_schema(data: Option<&Path>, plain: &PlainArguments) -> Result<MessageSchema, FileError> {
    let schema_in =
        |path: &Path| DataSchema::new(&read_text(path)?).map_err(|error| FileError::new(path, error));
    let envelopes = MessageSchema::new(data.map(schema_in).transpose()?);
    if !plain.plain {
        return Ok(envelopes);
    }
    let id = IdSources { attribute: None, pointer: plain.message_id_pointer.clone() };
    let body = plain.body_schema.as_deref().map(schema_in).transpose()?;
    Ok(envelopes.with_plain(PlainMessages { id, body }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use redeliver_core::strategy::{RetryLoop, Strategy};
    use redeliver_dead_letters::files::{ALREADY_EXISTS, create_new, replace_file};

    use super::*;

    #[test]
    fn the_error_for_a_policy_that_does_not_fit_the_strategy_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        replace_file(&path, br#"{"immediate":{"max_attempts":1,"delay_ms":5}}"#).unwrap();
        let read = |retry_loop: RetryLoop| read_policy(Some(&path), retry_loop.definition());
        let [delayed, direct, visibility] =
            [Strategy::DelayedResend, Strategy::DirectResend, Strategy::Visibility]
                .map(|one| read(one.into()));
        assert!(delayed.is_ok() && direct.is_ok() && visibility.is_ok());
        assert_eq!(
            read(RetryLoop::AsyncRetry).unwrap_err().to_string(),
            format!(
                "{}: the retry policy has /immediate, but an asynchronous invocation has no outcome \
                 yet when it is made: remove it",
                path.display()
            )
        );
    }

    #[test]
    fn a_run_refuses_a_policy_that_blocks_groups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        replace_file(&path, br#"{"on_give_up":"block"}"#).unwrap();
        let refusal = read_policy(Some(&path), Strategy::Ordered.definition()).unwrap_err().to_string();
        let why = "the retry policy sets /on_give_up to block: blocked groups cannot be released here, and the \
                   run would never end; remove it";
        assert_eq!(refusal, format!("{}: {why}", path.display()));
        replace_file(&path, br#"{"on_give_up":"continue"}"#).unwrap();
        assert!(read_policy(Some(&path), Strategy::Ordered.definition()).is_ok());
    }

    #[test]
    fn utf_16_and_byte_order_marks_are_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("saved-by-powershell.json");
        for (bytes, problem) in [
            (&b"\xef\xbb\xbf{}"[..], "begins with a byte order mark; save it as UTF-8 without one"),
            (b"\xff\xfe{\0}\0", "is UTF-16; save it as UTF-8"),
            (b"\xfe\xff\0{\0}", "is UTF-16; save it as UTF-8"),
        ] {
            replace_file(&path, bytes).unwrap();
            let refusal = format!("{}: {problem}", path.display());
            assert_eq!(read_text(&path).unwrap_err().to_string(), refusal);
            assert_eq!(
                crate::message_file::open_input(&path).err().map(|error| error.to_string()),
                Some(refusal)
            );
        }
        replace_file(&path, b"{\"a\":\"\xe9\"}").unwrap();
        assert!(read_text(&path).unwrap_err().to_string().ends_with(": not UTF-8 at byte 6"));
        replace_file(&path, "{\"a\":\"\u{feff}\"}".as_bytes()).unwrap();
        assert_eq!(read_text(&path).unwrap(), "{\"a\":\"\u{feff}\"}");
    }

    #[test]
    #[cfg(unix)]
    fn an_existing_file_is_not_overwritten_but_a_device_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        create_output(&path).unwrap().write_all(b"precious").unwrap();
        for error in [create_new(&path), create_output(&path)].map(|created| created.unwrap_err().to_string())
        {
            assert_eq!(error, ALREADY_EXISTS);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "it contains messages");
        create_output(Path::new("/dev/null")).unwrap().write_all(b"gone").unwrap();
        assert!(create_new(Path::new("/dev/null")).is_err(), "files that are kept must be on a disk");
        assert!(create_output(folder.path()).is_err());
    }

    #[test]
    #[cfg(unix)]
    fn a_report_is_not_written_to_another_users_pipe() {
        use std::process::{Command, Stdio};

        use redeliver_testing::planted::{ANOTHER_USER, create_pipe};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        create_pipe(&path);
        let reader = Command::new("cat").arg(&path).stdout(Stdio::piped()).spawn().unwrap();
        create_output(&path).unwrap().write_all(b"mine").unwrap();
        assert_eq!(reader.wait_with_output().unwrap().stdout, b"mine", "the user's own pipe is written to");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(create_output(&link).unwrap_err().to_string(), ALREADY_EXISTS);
        // Only root can change a file's owner. For other users, only the test `only_the_users_own_pipes_…` covers this rule.
        if std::os::unix::fs::chown(&path, Some(ANOTHER_USER), None).is_ok() {
            let why = format!(
                "another user (uid {ANOTHER_USER}) owns it and could read all of it; name another file"
            );
            assert_eq!(create_output(&path).unwrap_err().to_string(), why);
        }
    }
}

//! The input: one message body a line, and anything may be on a line.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use redeliver_core::message::{Content, OutgoingMessage};

use crate::files::FileError;

/// The lines of a file as messages, and those that SQS would refuse.
#[derive(Debug, Default)]
pub struct Input {
    /// What is sent, in order.
    pub messages: Vec<OutgoingMessage>,
    /// What SQS would refuse.
    pub refused: Vec<RefusedLine>,
}

/// A line that cannot be a message at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedLine {
    /// 1 for the first.
    pub line: usize,
    /// What SQS would say.
    pub reason: String,
}

/// Reads a file, or standard input where the name is `-`.
pub(crate) fn read(path: &Path) -> Result<Input, FileError> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        if std::io::stdin().is_terminal() {
            eprintln!("reading messages from standard input, one a line; end with Ctrl-D");
        }
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    let name = if path == Path::new("-") { PathBuf::from("standard input") } else { path.to_owned() };
    read.map_err(|error| FileError::new(&name, format_args!("cannot be read: {error}")))?;
    Ok(parse(&bytes))
}

fn parse(bytes: &[u8]) -> Input {
    let mut input = Input::default();
    let mut lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop(); // what follows the last line's end is no line
    }
    for (index, line) in lines.into_iter().enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match message(line) {
            Ok(message) => input.messages.push(message),
            Err(reason) => input.refused.push(RefusedLine { line: index + 1, reason }),
        }
    }
    input
}

fn message(line: &[u8]) -> Result<OutgoingMessage, String> {
    let body = std::str::from_utf8(line)
        .map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?
        .to_owned();
    OutgoingMessage::new(Content { body, ..Content::default() }).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_message_or_is_refused_with_its_number() {
        let input = parse(b"{}\r\n\nnot JSON\n\xFF\n\x07\n");
        let bodies: Vec<_> = input.messages.iter().map(|message| message.content().body.as_str()).collect();
        assert_eq!(bodies, ["{}", "not JSON"]);
        let refused: Vec<_> =
            input.refused.iter().map(|refused| (refused.line, refused.reason.as_str())).collect();
        assert_eq!(
            refused,
            [
                (2, "the body is empty; SQS wants at least one character"),
                (4, "not UTF-8 at byte 0"),
                (5, "the character U+0007 at byte 0 of the body is not legal in SQS"),
            ]
        );
    }

    #[test]
    fn a_last_line_needs_no_end_and_an_empty_file_has_no_lines() {
        assert_eq!(parse(b"{}").messages.len(), 1);
        assert_eq!(parse(b"").messages.len() + parse(b"").refused.len(), 0);
    }
}

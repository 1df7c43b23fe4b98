//! The input: one message body a line, and anything may be on a line.

use std::io::{self, BufRead};
use std::path::Path;

use redeliver_core::message::OutgoingMessage;

use crate::files::FileError;
use crate::lines::{Lines, open, unreadable};

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
    parse(open(path)?).map_err(|error| unreadable(path, &error))
}

fn parse(reader: impl BufRead) -> io::Result<Input> {
    let mut input = Input::default();
    for line in Lines::new(reader) {
        let line = line?;
        let number = line.number;
        match line.message() {
            Ok(message) => input.messages.push(message),
            Err(reason) => input.refused.push(RefusedLine { line: number, reason }),
        }
    }
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_message_or_is_refused_with_its_number() {
        let input = parse(&b"{}\r\n\nnot JSON\n\xFF\n\x07\n"[..]).unwrap();
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
        assert_eq!(parse(&b"{}"[..]).unwrap().messages.len(), 1);
        let empty = parse(&b""[..]).unwrap();
        assert_eq!(empty.messages.len() + empty.refused.len(), 0);
    }
}

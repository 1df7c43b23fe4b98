//! JSON Lines as messages: one body a line, and anything may be on a line. Lines are read one at a time, and of a line
//! that is too long only its length is kept: memory does not grow with the input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read as _};
use std::path::Path;

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::{Content, NotSendable, OutgoingMessage};

use crate::files::{self, FileError, check_encoding};
use crate::tell;

/// What is kept of a line at most: a whole message, and the end of its line.
const KEPT_BYTES: usize = MESSAGE_BYTES_MAX + 2;

/// The lines of an input.
pub(crate) struct Lines<R> {
    reader: R,
    kept_bytes: usize,
    number: usize,
    end: u64,
}

#[derive(Debug)]
pub(crate) struct Line {
    /// 1 for the first.
    pub(crate) number: usize,
    /// Bytes of the input up to its end.
    pub(crate) end: u64,
    /// What is on it, without its end; its length if that is more than a message may have.
    pub(crate) content: Result<Vec<u8>, usize>,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self::keeping(reader, KEPT_BYTES)
    }

    /// Of lines of another kind: so many bytes of each are kept, their ends included.
    pub(crate) fn keeping(reader: R, kept_bytes: usize) -> Self {
        Self { reader, kept_bytes, number: 0, end: 0 }
    }

    /// The bytes of the next line that are kept, and the number of all of them; 0 at the end.
    fn read(&mut self) -> io::Result<(Vec<u8>, usize)> {
        let mut bytes = Vec::new();
        let mut length = self.reader.by_ref().take(self.kept_bytes as u64).read_until(b'\n', &mut bytes)?;
        if length == self.kept_bytes && !bytes.ends_with(b"\n") {
            length += self.reader.skip_until(b'\n')?;
        }
        Ok((bytes, length))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut bytes, length) = match self.read() {
            Ok((_, 0)) => return None,
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        self.number += 1;
        self.end += length as u64;
        let content = if length > bytes.len() {
            Err(length)
        } else {
            if bytes.ends_with(b"\n") {
                bytes.pop();
                if bytes.ends_with(b"\r") {
                    bytes.pop();
                }
            }
            Ok(bytes)
        };
        Some(Ok(Line { number: self.number, end: self.end, content }))
    }
}

impl Line {
    /// The line as a message that SQS takes.
    pub(crate) fn message(self) -> Result<OutgoingMessage, String> {
        let bytes = self.content.map_err(|bytes| NotSendable::TooLarge { bytes }.to_string())?;
        let body = String::from_utf8(bytes)
            .map_err(|error| format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))?;
        OutgoingMessage::new(Content { body, ..Content::default() }).map_err(|error| error.to_string())
    }
}

/// Whether a name means standard input.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file, or standard input if the name is `-`.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, FileError> {
    if is_standard_input(path) {
        if io::stdin().is_terminal() {
            tell::remark("reading messages from standard input, one a line; end with Ctrl-D");
        }
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let failed = |error: io::Error| unreadable(path, &error);
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    check_encoding(path, file.fill_buf().map_err(failed)?)?;
    Ok(Box::new(file))
}

/// An input that cannot be read, or not on.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> FileError {
    files::unreadable(&named(path), error)
}

/// The input's name for people.
pub(crate) fn named(path: &Path) -> std::path::PathBuf {
    if is_standard_input(path) { "standard input".into() } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(bytes: &[u8]) -> Vec<(usize, Result<Vec<u8>, usize>)> {
        Lines::new(bytes).map(|line| line.unwrap()).map(|line| (line.number, line.content)).collect()
    }

    #[test]
    fn a_line_ends_with_a_line_feed_and_perhaps_a_carriage_return_before() {
        let expected = [(1, Ok(b"a".to_vec())), (2, Ok(vec![])), (3, Ok(b"b\rc".to_vec()))];
        assert_eq!(contents(b"a\r\n\nb\rc"), expected);
        assert_eq!(contents(b"a\r\n\nb\rc\n"), expected);
        assert_eq!(contents(b""), []);
    }

    #[test]
    fn of_a_line_that_is_too_long_only_the_length_is_kept_and_the_next_is_read() {
        let mut bytes = vec![b'x'; MESSAGE_BYTES_MAX];
        bytes.extend(b"\r\n");
        bytes.extend(vec![b'y'; MESSAGE_BYTES_MAX + 2]);
        bytes.extend(b"\r\nz");
        let mut lines = Lines::new(&*bytes).map(|line| line.unwrap());
        assert_eq!(lines.next().unwrap().message().unwrap().size(), MESSAGE_BYTES_MAX);
        let long = lines.next().unwrap();
        assert!(long.message().unwrap_err().starts_with("1048580 bytes"));
        let last = lines.next().unwrap();
        assert_eq!((last.number, last.end), (3, bytes.len() as u64));
    }

    #[test]
    fn one_byte_more_than_a_message_may_have_is_told_too() {
        let bytes = vec![b'x'; MESSAGE_BYTES_MAX + 1];
        let line = Lines::new(&*bytes).next().unwrap().unwrap();
        assert!(line.message().unwrap_err().starts_with("1048577 bytes"));
    }
}

//! The lines of an input, one at a time. Of a line that is too long only its length is kept: memory does not grow with
//! the input.

use std::io::{self, BufRead, Chain, Cursor, Read as _};

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::{Content, NotSendable, OutgoingMessage};
use serde::de::IgnoredAny;

/// Maximum bytes of a line in memory: a whole message and its line break.
const KEPT_BYTES: usize = MESSAGE_BYTES_MAX + 2;

/// The lines of an input.
pub struct Lines<R> {
    /// The bytes that were read ahead, and the rest.
    reader: Chain<Cursor<Vec<u8>>, R>,
    kept_bytes: usize,
    /// True while the input may be one document over several lines. The first lines decide.
    may_be_document: bool,
    is_over: bool,
    number: usize,
    end: u64,
}

#[derive(Debug)]
pub struct Line {
    /// 1 for the first.
    pub number: usize,
    /// Bytes of the input up to its end.
    pub end: u64,
    /// The content without the line break, or the length if it is too long for a message.
    pub content: Result<Vec<u8>, usize>,
}

impl<R: BufRead> Lines<R> {
    /// Messages: one body a line. An input that is one JSON document over several lines is one message, as the AWS CLI
    /// sends it with `--message-body file://…`.
    pub fn of_messages(reader: R) -> Self {
        Self { may_be_document: true, ..Self::keeping(reader, KEPT_BYTES) }
    }

    /// Lines of another kind: at most `kept_bytes` of each are kept, their ends included.
    pub fn keeping(reader: R, kept_bytes: usize) -> Self {
        let reader = Cursor::default().chain(reader);
        Self { reader, kept_bytes, may_be_document: false, is_over: false, number: 0, end: 0 }
    }

    /// Returns the whole input if it is one JSON document over several lines. If the first line is a whole value, or
    /// cannot begin one, nothing more is read: a pipe must not be held up.
    fn document(&mut self) -> io::Result<Option<Line>> {
        let (ahead, reader) = self.reader.get_mut();
        let ahead = ahead.get_mut();
        let (mut lines, mut looked_at) = (0, 0);
        loop {
            let before = ahead.len();
            reader.by_ref().take((KEPT_BYTES - before) as u64).read_until(b'\n', ahead)?;
            let is_end = ahead.len() == before;
            if ahead.len() == KEPT_BYTES {
                return Ok(None);
            }
            if !is_end && ahead[before..].trim_ascii().is_empty() {
                continue;
            }
            lines += usize::from(!is_end);
            // Each parse starts from the beginning, so the next one waits until there is twice as much.
            if !is_end && lines > 2 && ahead.len() < 2 * looked_at {
                continue;
            }
            looked_at = ahead.len();
            match serde_json::from_slice::<IgnoredAny>(ahead) {
                Ok(_) if is_end && lines > 1 => break,
                Ok(_) if !is_end && lines > 1 => {}
                Err(error) if error.is_eof() && !is_end => {}
                _ => return Ok(None),
            }
        }
        let end = ahead.len() as u64;
        let content = ahead.trim_ascii_end().to_vec();
        self.is_over = true;
        Ok(Some(Line { number: 1, end, content: Ok(content) }))
    }

    /// The next line; its length is 0 at the end of the input.
    fn read(&mut self) -> io::Result<RawLine> {
        let mut bytes = Vec::new();
        let mut length = self.reader.by_ref().take(self.kept_bytes as u64).read_until(b'\n', &mut bytes)?;
        if length == self.kept_bytes && !bytes.ends_with(b"\n") {
            length += self.reader.skip_until(b'\n')?;
        }
        Ok(RawLine { bytes, length })
    }
}

struct RawLine {
    /// The kept ones.
    bytes: Vec<u8>,
    length: usize,
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.may_be_document)
            && let Some(document) = self.document().transpose()
        {
            return Some(document);
        }
        // After its end a terminal must not be read again: it would wait for more input.
        if self.is_over {
            return None;
        }
        let RawLine { mut bytes, length } = match self.read() {
            Ok(RawLine { length: 0, .. }) => {
                self.is_over = true;
                return None;
            }
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
    pub fn message(self) -> Result<OutgoingMessage, String> {
        let bytes = self.content.map_err(|bytes| NotSendable::TooLarge { bytes }.to_string())?;
        let body = String::from_utf8(bytes)
            .map_err(|error| format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))?;
        OutgoingMessage::new(Content { body, ..Content::default() }).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(bytes: &[u8]) -> Vec<(usize, Result<Vec<u8>, usize>)> {
        Lines::of_messages(bytes).map(|line| line.unwrap()).map(|line| (line.number, line.content)).collect()
    }

    #[test]
    fn a_line_ends_with_a_line_feed_and_perhaps_a_carriage_return_before() {
        let expected = [(1, Ok(b"a".to_vec())), (2, Ok(vec![])), (3, Ok(b"b\rc".to_vec()))];
        assert_eq!(contents(b"a\r\n\nb\rc"), expected);
        assert_eq!(contents(b"a\r\n\nb\rc\n"), expected);
        assert_eq!(contents(b""), []);
    }

    #[test]
    fn one_document_over_several_lines_is_one_line_and_two_are_lines() {
        let pretty = "\n{\r\n  \"a\": [\n    1\n  ]\r\n}";
        let document = [(1, Ok(pretty.as_bytes().to_vec()))];
        assert_eq!(contents(pretty.as_bytes()), document);
        assert_eq!(contents(format!("{pretty}\r\n\n \n").as_bytes()), document);
        let lines = |text: &str| {
            let lines = text.lines().map(|line| Ok(line.as_bytes().to_vec()));
            (1..).zip(lines).collect::<Vec<_>>()
        };
        for several in [
            format!("{pretty}\n{pretty}"),
            format!("{pretty} x"),
            "{\n".to_owned(),
            "{\"a\":\n{\"b\":1}\n{\"c\":2}\n{}".to_owned(),
            "{}\n[\n]".to_owned(),
            "1\n".to_owned(),
            "[\n\"a\nb\"]".to_owned(),
        ] {
            assert_eq!(contents(several.as_bytes()), lines(&several), "{several}");
        }
    }

    #[test]
    fn a_document_larger_than_a_message_is_lines_and_takes_no_more_memory() {
        let mut large = "[\n".to_owned() + &"1,\n".repeat(MESSAGE_BYTES_MAX / 3);
        large += "1]\n";
        let lines = contents(large.as_bytes());
        assert_eq!(lines.len(), large.lines().count());
        assert_eq!(
            (lines[0].clone(), lines[349_526].clone()),
            ((1, Ok(b"[".to_vec())), (349_527, Ok(b"1]".to_vec())))
        );
    }

    /// A pipe whose producer waits for an answer must not be waited for.
    #[test]
    fn no_more_is_read_than_the_first_line_if_that_is_a_message() {
        struct Stops(&'static [u8]);
        impl io::Read for Stops {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("only lines are read")
            }
        }
        impl BufRead for Stops {
            fn fill_buf(&mut self) -> io::Result<&[u8]> {
                assert!(!self.0.is_empty(), "read too far");
                Ok(self.0)
            }
            fn consume(&mut self, amount: usize) {
                self.0 = &self.0[amount..];
            }
        }
        for line in ["{}\n", "text\n", "{\"a\n"] {
            let first = Lines::of_messages(Stops(line.as_bytes())).next().unwrap().unwrap();
            assert_eq!(first.content.unwrap(), line.trim_end().as_bytes());
        }
    }

    #[test]
    fn of_a_line_that_is_too_long_only_the_length_is_kept_and_the_next_is_read() {
        let mut bytes = vec![b'x'; MESSAGE_BYTES_MAX];
        bytes.extend(b"\r\n");
        bytes.extend(vec![b'y'; MESSAGE_BYTES_MAX + 2]);
        bytes.extend(b"\r\nz");
        let mut lines = Lines::of_messages(&*bytes).map(|line| line.unwrap());
        assert_eq!(lines.next().unwrap().message().unwrap().size(), MESSAGE_BYTES_MAX);
        let long = lines.next().unwrap();
        assert!(long.message().unwrap_err().starts_with("1048580 bytes"));
        let last = lines.next().unwrap();
        assert_eq!((last.number, last.end), (3, bytes.len() as u64));
    }

    #[test]
    fn one_byte_more_than_a_message_may_have_is_told_too() {
        let bytes = vec![b'x'; MESSAGE_BYTES_MAX + 1];
        let line = Lines::of_messages(&*bytes).next().unwrap().unwrap();
        assert!(line.message().unwrap_err().starts_with("1048577 bytes"));
    }
}

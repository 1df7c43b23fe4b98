//! Reads the input in chunks, so that memory use does not grow with it.

use std::io::{self, BufRead};
use std::path::Path;

use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::{Content, OutgoingMessage};

use redeliver_operator::files::FileError;
use redeliver_operator::message_file::{
    InputLines, LineFormat, dead_letter_hint, input_error, open_input, remark_on_recognized_formats,
};

/// Consecutive lines of the input.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) messages: Vec<OutgoingMessage>,
    pub(crate) refused: Vec<RefusedLine>,
    /// The line number of the first dead letter in the input, with a hint for the user.
    pub(crate) dead_letter: Option<(usize, String)>,
}

/// A line that SQS would reject as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedLine {
    /// The line number, from 1.
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// The maximum size of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct ChunkSize {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

impl ChunkSize {
    /// 10,000 messages or 64 MiB: small enough for memory, and large enough that the functions do not wait for the next
    /// chunk.
    pub const SMALL: Self = Self { messages: 10_000, bytes: 64 << 20 };
    /// The whole input as one chunk.
    pub const WHOLE: Self = Self { messages: usize::MAX, bytes: usize::MAX };
}

/// The message groups of a FIFO queue.
#[derive(Clone, Debug)]
pub struct InputGroups {
    /// The JSON pointer to the group in a message's body; `None` if all messages form one group.
    pub pointer: Option<Pointer>,
}

impl InputGroups {
    /// Adds the message's group, and its line number as the deduplication id.
    fn add_group(&self, message: OutgoingMessage, line: usize) -> Result<OutgoingMessage, String> {
        let content = message.into_content();
        let group = match &self.pointer {
            // Exported messages keep their original groups.
            None => content.message_group_id.clone().unwrap_or_else(|| "all".to_owned()),
            Some(pointer) => pointer.find_text(&content.body).ok_or("no message group at --group-pointer")?,
        };
        let (message_group_id, deduplication_id) = (Some(group), Some(line.to_string()));
        OutgoingMessage::new(Content { message_group_id, deduplication_id, ..content })
            .map_err(|error| error.to_string())
    }
}

/// A reader of a file, or of standard input, that reads one chunk ahead.
pub struct Chunks {
    pub(crate) path: Box<Path>,
    lines: InputLines<Box<dyn BufRead + Send>>,
    form: LineFormat,
    /// `None` if the source queue is a standard queue.
    groups: Option<InputGroups>,
    size: ChunkSize,
    next: Option<Chunk>,
    has_dead_letters: bool,
    is_over: bool,
}

impl Chunks {
    /// Opens the input and reads its first chunk, so that unreadable input fails before the run starts.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn open_input(
        path: &Path,
        form: LineFormat,
        groups: Option<InputGroups>,
        size: ChunkSize,
    ) -> Result<Self, FileError> {
        Self::new(path, open_input(path)?, form, groups, size)
    }

    fn new(
        path: &Path,
        input: Box<dyn BufRead + Send>,
        form: LineFormat,
        groups: Option<InputGroups>,
        size: ChunkSize,
    ) -> Result<Self, FileError> {
        let (lines, path) = (form.read_lines(input), path.into());
        let next = None;
        let mut chunks =
            Self { path, lines, form, groups, size, next, has_dead_letters: false, is_over: false };
        chunks.next_chunk()?;
        Ok(chunks)
    }

    /// Returns the next chunk, and reads ahead by one. Returns `None` at the end.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Chunk>, FileError> {
        let following = self.read_chunk().map_err(|error| input_error(&self.path, &error))?;
        let is_empty = following.messages.is_empty() && following.refused.is_empty();
        Ok(std::mem::replace(&mut self.next, (!is_empty).then_some(following)))
    }

    /// Returns the chunk that [`next_chunk`](Self::next_chunk) will return.
    pub(crate) fn peek_chunk(&self) -> Option<&Chunk> {
        self.next.as_ref()
    }

    fn read_chunk(&mut self) -> io::Result<Chunk> {
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        while chunk.messages.len() < self.size.messages && bytes < self.size.bytes {
            let Some(line) = self.lines.next().transpose()? else {
                if !std::mem::replace(&mut self.is_over, true) {
                    remark_on_recognized_formats(&self.path, &self.lines);
                }
                break;
            };
            let number = line.number;
            let read = self.form.read_message(line).and_then(|message| {
                if !self.has_dead_letters {
                    let hint = dead_letter_hint(&message.sendable.content().body);
                    chunk.dead_letter = hint.map(|hint| (number, hint));
                    self.has_dead_letters = chunk.dead_letter.is_some();
                }
                match &self.groups {
                    None => Ok(message.sendable),
                    Some(groups) => groups.add_group(message.sendable, number).map_err(|reason| vec![reason]),
                }
            });
            match read {
                Ok(message) => {
                    bytes += message.size();
                    chunk.messages.push(message);
                }
                Err(reasons) => chunk
                    .refused
                    .extend(reasons.into_iter().map(|reason| RefusedLine { line: number, reason })),
            }
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &'static [u8], size: ChunkSize) -> Chunks {
        Chunks::new(Path::new("-"), Box::new(text), LineFormat::Anything, None, size).unwrap()
    }

    fn bodies(input: &Chunk) -> Vec<&str> {
        input.messages.iter().map(|message| message.content().body.as_str()).collect()
    }

    #[test]
    fn each_line_is_a_message_or_is_refused_with_its_number() {
        let input =
            chunks(b"{}\r\n\nnot JSON\n\xFF\n\x07\n", ChunkSize::WHOLE).next_chunk().unwrap().unwrap();
        assert_eq!(bodies(&input), ["{}", "not JSON"]);
        let refused: Vec<_> =
            input.refused.iter().map(|refused| (refused.line, refused.reason.as_str())).collect();
        assert_eq!(
            refused,
            [
                (2, "the body is empty; SQS requires at least one character"),
                (4, "not UTF-8 at byte 0"),
                (5, "the character U+0007 at byte 0 of the body is not allowed in SQS"),
            ]
        );
    }

    #[test]
    fn a_last_line_needs_no_line_break_and_an_empty_file_has_no_lines() {
        assert_eq!(chunks(b"{}", ChunkSize::WHOLE).next_chunk().unwrap().unwrap().messages.len(), 1);
        assert!(chunks(b"", ChunkSize::WHOLE).next_chunk().unwrap().is_none());
    }

    #[test]
    fn a_chunk_is_limited_by_message_count_and_bytes() {
        let chunks_of = |messages, bytes| {
            let mut input = chunks(b"1\n\n22\n3\n44\n5", ChunkSize { messages, bytes });
            std::iter::from_fn(move || input.next_chunk().unwrap()).collect::<Vec<_>>()
        };
        let twos = chunks_of(2, 100);
        assert_eq!(
            twos.iter().map(bodies).collect::<Vec<_>>(),
            [vec!["1", "22"], vec!["3", "44"], vec!["5"]]
        );
        assert_eq!(twos[0].refused[0].line, 2);
        let threes = chunks_of(100, 3);
        assert_eq!(
            threes.iter().map(bodies).collect::<Vec<_>>(),
            [vec!["1", "22"], vec!["3", "44"], vec!["5"]]
        );
    }

    /// Returns the body, group and deduplication id of each message for a FIFO queue, and the refused lines.
    fn group_messages(text: &'static [u8], pointer: Option<&str>) -> (Vec<[String; 3]>, Vec<RefusedLine>) {
        let groups = InputGroups { pointer: pointer.map(|pointer| Pointer::new(pointer).unwrap()) };
        let form = LineFormat::Anything;
        let mut input =
            Chunks::new(Path::new("-"), Box::new(text), form, Some(groups), ChunkSize::WHOLE).unwrap();
        let Chunk { messages, refused, .. } = input.next_chunk().unwrap().unwrap();
        let fields = |message: OutgoingMessage| {
            let Content { body, message_group_id, deduplication_id, .. } = message.into_content();
            [body, message_group_id.unwrap(), deduplication_id.unwrap()]
        };
        (messages.into_iter().map(fields).collect(), refused)
    }

    #[test]
    fn a_fifo_queue_receives_both_identical_lines_but_none_without_a_group() {
        let (messages, refused) = group_messages(b"{\"a\":7}\n{}\n{\"a\":7}\n{\"a\":\"b\"}", Some("/a"));
        assert_eq!(
            messages,
            [[r#"{"a":7}"#, "7", "1"], [r#"{"a":7}"#, "7", "3"], [r#"{"a":"b"}"#, "b", "4"]]
        );
        let reason = "no message group at --group-pointer".to_owned();
        assert_eq!(refused, [RefusedLine { line: 2, reason }]);
    }

    #[test]
    fn without_a_pointer_all_lines_are_one_group() {
        let (messages, _) = group_messages(b"1\n2\n1", None);
        assert_eq!(messages, [["1", "all", "1"], ["2", "all", "2"], ["1", "all", "3"]]);
    }

    #[test]
    fn a_message_that_fails_the_check_is_refused_too() {
        let too_short = LineFormat::Payload(|_| Err("too short".to_owned()));
        let mut input =
            Chunks::new(Path::new("-"), Box::new(&b"1"[..]), too_short, None, ChunkSize::WHOLE).unwrap();
        let input = input.next_chunk().unwrap().unwrap();
        assert_eq!(input.refused, [RefusedLine { line: 1, reason: "too short".to_owned() }]);
    }
}

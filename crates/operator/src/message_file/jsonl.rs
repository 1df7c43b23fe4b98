//! Reads the messages in an input one at a time: one per line, or those in [`MessageExport`]s. Only the length of an
//! overlong line is kept, so that memory use is bounded by the largest document.

use std::collections::VecDeque;
use std::io::{self, BufRead, Chain, Cursor, Read as _};

use redeliver_core::failure::annotation::DEAD_LETTER;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::{Content, OutgoingMessage, Timestamp, UnsendableReason};
use redeliver_dead_letters::LINE_BYTES_MAX;
use serde::de::IgnoredAny;

use super::SEND_AGAIN;
use super::export::{Element, ExportTally, MessageExport, archived_message};

/// Maximum number of bytes kept in memory for a line: a complete message and its line break.
const KEPT_BYTES: usize = MESSAGE_BYTES_MAX + 2;
/// Maximum size, in bytes, of a document that contains several messages and is read as one unit.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// An iterator over the messages in an input.
pub struct InputLines<R> {
    /// The bytes already read ahead, followed by the rest of the input.
    reader: Chain<Cursor<Vec<u8>>, R>,
    kind: InputKind,
    kept_bytes: usize,
    layout: InputLayout,
    /// The elements of the last document that have not been returned yet.
    elements: VecDeque<Element>,
    tally: ExportTally,
    is_over: bool,
    number: usize,
    end: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputKind {
    Messages,
    /// Inputs to asynchronous invocations. Such an input is never split: it can itself be a Lambda event.
    Payloads,
    /// Dead letters. Messages in an export are converted to the format of `audit --save`, with this send time if they
    /// have none.
    DeadLetters(Timestamp),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputLayout {
    /// Nothing has been read yet.
    Unknown,
    Lines,
    /// Documents with messages. A document can span several lines.
    Documents,
}

/// The next document in an input that does not consist only of lines.
enum InputDocument {
    /// One message spanning several lines, up to the end of the input.
    Message,
    Export(MessageExport),
}

/// A message in an input: a line, or an element of a document.
#[derive(Debug)]
pub struct InputLine {
    /// The 1-based number of the message in the input.
    pub number: usize,
    /// The number of input bytes up to the end of this message.
    pub end: u64,
    /// The content without the line break, or its length if the line is too long to be kept.
    pub content: Result<Vec<u8>, usize>,
    /// True if the content is an exported message: JSON with attributes and a body.
    is_exported: bool,
}

impl<R: BufRead> InputLines<R> {
    /// Reads messages: one body per line, or documents with several messages. An input that consists of a single JSON
    /// document spanning several lines is one message, as the AWS CLI sends it with `--message-body file://…`.
    pub fn for_messages(reader: R) -> Self {
        Self::new(reader, InputKind::Messages, KEPT_BYTES)
    }

    /// Reads payloads. Unlike a message document, a payload is never split into several messages.
    pub fn for_payloads(reader: R) -> Self {
        Self::new(reader, InputKind::Payloads, KEPT_BYTES)
    }

    /// Reads dead letters: one per line, or documents with several. `default_sent_at` is used for those without a send
    /// time.
    pub fn for_dead_letters(reader: R, default_sent_at: Timestamp) -> Self {
        Self::new(reader, InputKind::DeadLetters(default_sent_at), LINE_BYTES_MAX)
    }

    fn new(reader: R, kind: InputKind, kept_bytes: usize) -> Self {
        Self {
            reader: Cursor::default().chain(reader),
            kind,
            kept_bytes,
            layout: InputLayout::Unknown,
            elements: VecDeque::new(),
            tally: ExportTally::default(),
            is_over: false,
            number: 0,
            end: 0,
        }
    }

    /// Describes the recognized formats other than plain lines, such as `12 messages of a receive-message export`.
    pub fn describe_recognized_formats(&self) -> Option<String> {
        (!self.tally.is_empty()).then(|| self.tally.to_string())
    }

    /// Reads ahead until the next document is recognized. Returns `None` for a plain line, and at the end of the input.
    /// Stops reading after a first line that is a complete message or cannot start a document: reading further would
    /// block on a pipe.
    fn next_document(&mut self) -> io::Result<Option<InputDocument>> {
        let (ahead, reader) = self.reader.get_mut();
        let ahead = ahead.get_mut();
        let may_be_export = self.kind != InputKind::Payloads;
        let follows_export = self.layout == InputLayout::Documents;
        let (mut lines, mut parsed_bytes, mut limit) = (0, 0, self.kept_bytes);
        loop {
            let before = ahead.len();
            reader.by_ref().take(limit.saturating_sub(before) as u64).read_until(b'\n', ahead)?;
            if ahead.len() >= limit {
                if limit == DOCUMENT_BYTES_MAX {
                    return Err(invalid_input(TOO_LARGE));
                }
                if !may_be_export || !MessageExport::is_prefix(ahead) {
                    return Ok(None);
                }
                limit = DOCUMENT_BYTES_MAX;
                continue;
            }
            let is_end = ahead.len() == before;
            if !is_end && ahead[before..].trim_ascii().is_empty() {
                continue;
            }
            lines += usize::from(!is_end);
            // Each parse starts over, so parse again only after the amount of data has doubled.
            if !is_end && lines > 2 && ahead.len() < 2 * parsed_bytes {
                continue;
            }
            parsed_bytes = ahead.len();
            let mut documents = serde_json::Deserializer::from_slice(ahead).into_iter::<IgnoredAny>();
            let end = match documents.next() {
                Some(Ok(_)) => documents.byte_offset(),
                Some(Err(error)) if error.is_eof() && !is_end => continue,
                Some(Err(error))
                    if error.is_eof()
                        && (lines > 1 || follows_export)
                        && may_be_export
                        && MessageExport::is_prefix(ahead) =>
                {
                    return Err(invalid_input(CUT_OFF));
                }
                _ => return Ok(None),
            };
            let document = ahead[..end].trim_ascii();
            let is_alone = ahead[end..].trim_ascii().is_empty();
            let spans_lines = document.contains(&b'\n');
            let may_be_export =
                may_be_export && (spans_lines || follows_export || document[0] == b'[' && is_alone);
            let export = str::from_utf8(document).ok().filter(|_| may_be_export);
            match export.and_then(|document| MessageExport::read(document, true)) {
                // This might be the first of several lines.
                Some(_) if !spans_lines && !follows_export && !is_end => {}
                Some(export) => {
                    ahead.drain(..end);
                    self.end += end as u64;
                    return Ok(Some(InputDocument::Export(export)));
                }
                None if spans_lines && is_alone && !is_end => {}
                None if spans_lines && is_alone && !matches!(self.kind, InputKind::DeadLetters(_)) => {
                    return Ok(Some(InputDocument::Message));
                }
                None => return Ok(None),
            }
        }
    }

    /// Reads the next document. Returns a document that is a single message, and queues the elements of an export.
    fn read_document(&mut self) -> io::Result<Option<InputLine>> {
        match self.next_document()? {
            Some(InputDocument::Message) => {
                let (ahead, _) = self.reader.get_mut();
                let bytes = std::mem::take(ahead.get_mut());
                (self.is_over, self.number, self.end) = (true, 1, bytes.len() as u64);
                return Ok(Some(self.current_line(Ok(bytes.trim_ascii_end().to_vec()))));
            }
            Some(InputDocument::Export(export)) => {
                self.layout = InputLayout::Documents;
                self.queue_elements(export);
            }
            None if self.layout == InputLayout::Unknown => self.layout = InputLayout::Lines,
            None => {
                let (ahead, _) = self.reader.get_ref();
                if !ahead.get_ref().trim_ascii().is_empty() {
                    let why = format!("{} followed by content in another format", self.tally);
                    return Err(invalid_input(&why));
                }
                self.is_over = true;
            }
        }
        Ok(None)
    }

    fn queue_elements(&mut self, export: MessageExport) {
        self.tally.add(&export);
        self.elements.extend(export.elements);
    }

    /// Reads the next line, unchanged. Returns `None` at the end of the input, and for an export on one line, whose
    /// messages are queued instead.
    fn read_line(&mut self) -> io::Result<Option<InputLine>> {
        let mut bytes = Vec::new();
        let mut length = self.reader.by_ref().take(self.kept_bytes as u64).read_until(b'\n', &mut bytes)?;
        let is_cut = |bytes: &[u8], length| length == bytes.len() && !bytes.ends_with(b"\n");
        if length == self.kept_bytes && is_cut(&bytes, length) && self.may_start_export(&bytes) {
            let rest = DOCUMENT_BYTES_MAX - length;
            length += self.reader.by_ref().take(rest as u64).read_until(b'\n', &mut bytes)?;
        }
        if matches!(length, limit if limit == self.kept_bytes || limit == DOCUMENT_BYTES_MAX)
            && is_cut(&bytes, length)
        {
            length += self.reader.skip_until(b'\n')?;
        }
        if length == 0 {
            self.is_over = true;
            return Ok(None);
        }
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
        let text = content.as_deref().ok().filter(|_| self.kind != InputKind::Payloads);
        if let Some(export) = text.and_then(|text| MessageExport::read(str::from_utf8(text).ok()?, false)) {
            self.queue_elements(export);
            return Ok(None);
        }
        // With `--plain`, the line would be sent as a single body that contains all its messages.
        if text.is_some_and(is_truncated_export) {
            return Err(invalid_input(CUT_OFF));
        }
        self.number += 1;
        Ok(Some(self.current_line(content)))
    }

    fn may_start_export(&self, beginning: &[u8]) -> bool {
        self.kind != InputKind::Payloads && MessageExport::is_prefix(beginning)
    }

    fn current_line(&self, content: Result<Vec<u8>, usize>) -> InputLine {
        InputLine { number: self.number, end: self.end, content, is_exported: false }
    }

    /// Converts an element of the last document to a line.
    fn line_from_element(&mut self, element: Element) -> InputLine {
        self.number += 1;
        let on_one_line = |json: String| json.replace(['\n', '\r'], " ");
        let (content, is_exported) = match (element, self.kind) {
            (Element::Body(body), InputKind::DeadLetters(_)) => (on_one_line(body), false),
            (Element::Body(body), _) => (body, false),
            (Element::Exported(message), InputKind::DeadLetters(default_sent_at)) => {
                let archived = archived_message(&message, self.number, default_sent_at).ok();
                let line = archived.and_then(|archived| serde_json::to_string(&archived).ok());
                (line.unwrap_or_else(|| on_one_line(message)), false)
            }
            (Element::Exported(message), _) => (message, true),
        };
        InputLine { is_exported, ..self.current_line(Ok(content.into_bytes())) }
    }
}

/// Returns true for a line that contains only the beginning of an export. An array does not count: it could be a body.
fn is_truncated_export(line: &[u8]) -> bool {
    let is_object = line.trim_ascii_start().starts_with(b"{");
    let is_cut = || serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof());
    is_object && MessageExport::is_prefix(line) && is_cut()
}

const CUT_OFF: &str = "it ends in the middle of a JSON document";
const TOO_LARGE: &str =
    "a JSON document of more than 256 MiB; write each message on a separate line, as `jq -c '.[]'` does";

fn invalid_input(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl<R: BufRead> Iterator for InputLines<R> {
    type Item = io::Result<InputLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(element) = self.elements.pop_front() {
                return Some(Ok(self.line_from_element(element)));
            }
            // A terminal must not be read again after the end of the input: it would wait for more.
            if self.is_over {
                return None;
            }
            let read = match self.layout {
                InputLayout::Unknown | InputLayout::Documents => self.read_document(),
                InputLayout::Lines => self.read_line(),
            };
            self.is_over |= read.is_err();
            if let Some(line) = read.transpose() {
                return Some(line);
            }
        }
    }
}

impl InputLine {
    /// Returns the SQS message id if the message is from an export.
    pub fn sqs_message_id(&self) -> Option<String> {
        let message = str::from_utf8(self.content.as_deref().ok().filter(|_| self.is_exported)?).ok()?;
        Some(archived_message(message, self.number, Timestamp::UNIX_EPOCH).ok()?.sqs_message_id)
    }

    /// Converts the line to a message to send.
    ///
    /// # Errors
    /// If the line is too long, is not UTF-8, is a dead letter, or violates an SQS limit, such as ten message
    /// attributes.
    pub fn into_message(self) -> Result<OutgoingMessage, String> {
        let bytes = self.content.map_err(|bytes| UnsendableReason::TooLarge { bytes }.to_string())?;
        let body = String::from_utf8(bytes)
            .map_err(|error| format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))?;
        let content = if self.is_exported {
            exported_content(&body, self.number)?
        } else {
            Content { body, ..Content::default() }
        };
        OutgoingMessage::new(content).map_err(|error| error.to_string())
    }
}

/// Returns the content of an exported message, to be sent as a new message.
fn exported_content(message: &str, number: usize) -> Result<Content, String> {
    let archived = archived_message(message, number, Timestamp::UNIX_EPOCH)?;
    if archived.attributes.contains_key(DEAD_LETTER) {
        return Err(SEND_AGAIN.to_owned());
    }
    let received = archived.into_message().ok_or("a message attribute has no value for its data type")?;
    Ok(Content {
        body: received.body,
        attributes: received.attributes,
        message_group_id: received.message_group_id,
        trace_header: received.trace_header,
        ..Content::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_contents(bytes: &[u8]) -> Vec<(usize, Result<Vec<u8>, usize>)> {
        InputLines::for_messages(bytes)
            .map(|line| line.unwrap())
            .map(|line| (line.number, line.content))
            .collect()
    }

    #[test]
    fn a_line_ends_with_lf_or_crlf() {
        let expected = [(1, Ok(b"a".to_vec())), (2, Ok(vec![])), (3, Ok(b"b\rc".to_vec()))];
        assert_eq!(read_contents(b"a\r\n\nb\rc"), expected);
        assert_eq!(read_contents(b"a\r\n\nb\rc\n"), expected);
        assert_eq!(read_contents(b""), []);
    }

    #[test]
    fn a_single_multiline_document_is_read_as_one_message() {
        let pretty = "\n{\r\n  \"a\": [\n    1\n  ]\r\n}";
        let document = [(1, Ok(pretty.as_bytes().to_vec()))];
        assert_eq!(read_contents(pretty.as_bytes()), document);
        assert_eq!(read_contents(format!("{pretty}\r\n\n \n").as_bytes()), document);
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
            assert_eq!(read_contents(several.as_bytes()), lines(&several), "{several}");
        }
    }

    #[test]
    fn a_document_over_the_message_size_limit_is_read_as_lines() {
        let mut large = "[\n".to_owned() + &"1,\n".repeat(MESSAGE_BYTES_MAX / 3);
        large += "1]\n";
        let lines = read_contents(large.as_bytes());
        assert_eq!(lines.len(), large.lines().count());
        assert_eq!(
            (lines[0].clone(), lines[349_526].clone()),
            ((1, Ok(b"[".to_vec())), (349_527, Ok(b"1]".to_vec())))
        );
    }

    /// Reading must not block on a pipe whose producer waits for a response.
    #[test]
    fn reading_stops_after_a_first_line_that_is_a_message() {
        struct StoppingReader(&'static [u8]);
        impl io::Read for StoppingReader {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("only lines are read")
            }
        }
        impl BufRead for StoppingReader {
            fn fill_buf(&mut self) -> io::Result<&[u8]> {
                assert!(!self.0.is_empty(), "read too far");
                Ok(self.0)
            }
            fn consume(&mut self, amount: usize) {
                self.0 = &self.0[amount..];
            }
        }
        for line in ["{}\n", "text\n", "{\"a\n"] {
            let first = InputLines::for_messages(StoppingReader(line.as_bytes())).next().unwrap().unwrap();
            assert_eq!(first.content.unwrap(), line.trim_end().as_bytes());
        }
    }

    #[test]
    fn only_the_length_of_an_overlong_line_is_kept() {
        let mut bytes = vec![b'x'; MESSAGE_BYTES_MAX];
        bytes.extend(b"\r\n");
        bytes.extend(vec![b'y'; MESSAGE_BYTES_MAX + 2]);
        bytes.extend(b"\r\nz");
        let mut lines = InputLines::for_messages(&*bytes).map(|line| line.unwrap());
        assert_eq!(lines.next().unwrap().into_message().unwrap().size(), MESSAGE_BYTES_MAX);
        let long = lines.next().unwrap();
        assert!(long.into_message().unwrap_err().starts_with("1048580 bytes"));
        let last = lines.next().unwrap();
        assert_eq!((last.number, last.end), (3, bytes.len() as u64));
    }

    #[test]
    fn a_message_one_byte_over_the_limit_is_reported() {
        let bytes = vec![b'x'; MESSAGE_BYTES_MAX + 1];
        let line = InputLines::for_messages(&*bytes).next().unwrap().unwrap();
        assert!(line.into_message().unwrap_err().starts_with("1048577 bytes"));
    }

    fn read_bodies(input: &str) -> (Vec<Result<String, String>>, Option<String>) {
        let mut lines = InputLines::for_messages(input.as_bytes());
        let mut bodies = Vec::new();
        for line in lines.by_ref() {
            match line {
                Ok(line) => bodies.push(line.into_message().map(|message| message.into_content().body)),
                Err(error) => bodies.push(Err(error.to_string())),
            }
        }
        (bodies, lines.describe_recognized_formats())
    }

    fn expected_bodies(bodies: &[&str]) -> Vec<Result<String, String>> {
        bodies.iter().map(|body| Ok((*body).to_owned())).collect()
    }

    /// A loop that runs `aws sqs receive-message >> FILE` writes exports like these, each on one line or several.
    #[test]
    fn consecutive_exports_yield_all_their_messages() {
        let pretty = |bodies: &[&str]| {
            let message = |body| format!("    {{ \"MessageId\": \"m\",\r\n      \"Body\": \"{body}\" }}");
            let messages = bodies.iter().map(message).collect::<Vec<_>>().join(",\r\n");
            format!("{{\r\n  \"Messages\": [\r\n{messages}\r\n  ]\r\n}}\r\n")
        };
        let several = format!("\n{}{}\n{}", pretty(&["a", "b"]), pretty(&["c"]), pretty(&["d"]));
        let counts = Some("4 messages of receive-message exports".to_owned());
        assert_eq!(read_bodies(&several), (expected_bodies(&["a", "b", "c", "d"]), counts.clone()));
        let line = |body| format!(r#"{{"Messages":[{{"MessageId":"m","Body":"{body}"}}]}}"#) + "\n";
        assert_eq!(
            read_bodies(&["a", "b", "c", "d"].map(line).concat()),
            (expected_bodies(&["a", "b", "c", "d"]), counts)
        );
        let mixed = line("a") + "{\"metadata\":{}}\n" + &line("b");
        let counts = Some("2 messages of receive-message exports".to_owned());
        assert_eq!(read_bodies(&mixed), (expected_bodies(&["a", r#"{"metadata":{}}"#, "b"]), counts));
        assert_eq!(
            read_bodies("{\"Messages\": null}\n").1.unwrap(),
            "0 messages of a receive-message export"
        );
    }

    #[test]
    fn only_an_array_that_is_the_whole_input_is_split() {
        let counts = Some("2 messages of a JSON array".to_owned());
        for array in
            ["[{\"a\": 1},{\"b\":2}]", "[{\"a\": 1},{\"b\":2}]\n\n", "[\n{\"a\": 1}\n,\n{\"b\":2}]\n"]
        {
            assert_eq!(
                read_bodies(array),
                (expected_bodies(&["{\"a\": 1}", "{\"b\":2}"]), counts.clone()),
                "{array}"
            );
        }
        let lines = "[{\"a\":1},{\"b\":2}]\n[{\"c\":3}]\n";
        assert_eq!(read_bodies(lines), (expected_bodies(&["[{\"a\":1},{\"b\":2}]", "[{\"c\":3}]"]), None));
        assert_eq!(read_bodies("[1,2]\n"), (expected_bodies(&["[1,2]"]), None));
    }

    /// If such an input were read as lines, each line of the export would be sent as a plain message.
    #[test]
    fn an_export_that_is_cut_off_or_followed_by_something_else_is_refused() {
        let export = "{\n\"Messages\": [\n{\"MessageId\":\"m\",\"Body\":\"a\"}\n]\n}\n";
        let cut = Err("it ends in the middle of a JSON document".to_owned());
        assert_eq!(read_bodies(&export[..export.len() - 3]), (vec![cut.clone()], None));
        let counts = Some("1 message of a receive-message export".to_owned());
        let (found, recognized) = read_bodies(&format!("{export}{}", &export[..20]));
        assert_eq!((found, recognized.clone()), (vec![Ok("a".to_owned()), cut], counts));
        for rest in ["{}", "x", "{\"metadata\":{}}"] {
            let why = "1 message of a receive-message export followed by content in another format";
            let expected = vec![Ok("a".to_owned()), Err(why.to_owned())];
            assert_eq!(read_bodies(&format!("{export}{rest}\n")).0, expected, "{rest}");
        }
    }

    #[test]
    fn a_line_with_a_truncated_export_is_refused_and_other_text_is_kept() {
        let cut = Err("it ends in the middle of a JSON document".to_owned());
        let export = r#"{"Messages":[{"MessageId":"m","Body":"a"}]}"#;
        let event = r#"{"Records":[{"messageId":"m","body":"a""#;
        for begun in [&export[..export.len() - 1], event, r#" {"MessageId":"m","Body":"#] {
            assert_eq!(read_bodies(begun), (vec![cut.clone()], None), "{begun}");
            let (found, _) = read_bodies(&format!("{export}\n{begun}\n{export}\n"));
            assert_eq!(found, [Ok("a".to_owned()), cut.clone()], "{begun}");
        }
        for body in [r#"{"Message":["#, r#"{"Messages":x}"#, "{\"a\":", r#"["a"#, "{"] {
            assert_eq!(read_bodies(body), (expected_bodies(&[body]), None));
        }
    }

    #[test]
    fn an_export_may_exceed_the_message_size_limit() {
        let body = "x".repeat(MESSAGE_BYTES_MAX);
        for space in ["", "\n"] {
            let message = format!(r#"{{"MessageId":"m",{space}"Body":"{body}"}}"#);
            let export = format!("{{{space}\"Messages\":[{message},{message}]}}");
            assert_eq!(read_bodies(&export).0, expected_bodies(&[&body, &body]));
            assert_eq!(read_bodies(&format!("{export}\n{export}\n")).0.len(), 4);
        }
    }

    #[test]
    fn an_exported_message_keeps_attributes_and_a_dead_letter_is_refused() {
        let message = |name| {
            let attributes = format!(r#"{{"{name}":{{"DataType":"String","StringValue":"v"}}}}"#);
            format!(r#"{{"MessageId":"m","Body":"x","MessageAttributes":{attributes}}}"#)
        };
        let mut lines = InputLines::for_messages(Cursor::new(message("t") + "\n" + &message(DEAD_LETTER)));
        let first = lines.next().unwrap().unwrap();
        assert_eq!(first.sqs_message_id().as_deref(), Some("m"));
        assert_eq!(first.into_message().unwrap().content().attributes.len(), 1);
        assert_eq!(lines.next().unwrap().unwrap().into_message().unwrap_err(), SEND_AGAIN);
    }

    /// The event is the input to the asynchronously invoked function, not an export.
    #[test]
    fn a_payload_is_never_split_into_messages() {
        let event = r#"{"Records":[{"eventSource":"aws:sqs","body":"x"}]}"#;
        for payload in [event, "[{\"a\":1}]", "[\n{}\n]"] {
            let lines: Vec<_> =
                InputLines::for_payloads(payload.as_bytes()).map(|line| line.unwrap()).collect();
            assert_eq!(lines.len(), 1);
            assert_eq!(lines[0].content.as_deref(), Ok(payload.as_bytes()));
        }
    }
}

//! One line of a file of dead letters: a line of an archive or a backup, or a final record from `redeliver local`.

use std::collections::BTreeMap;

use redeliver_core::failure::annotation::{DEAD_LETTER, DeadLetter};
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::message::{Attribute, Attributes, ReceivedMessage, Timestamp};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::Builder;

use crate::{ArchivedMessage, LINE_BYTES_MAX};

/// The reason why a line is not a dead letter, without any values from the line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum BadLine {
    #[error("it is not valid JSON at column {0}")]
    NotJson(usize),
    #[error("it ends in the middle of a JSON document; a dead letter is on one line, as `jq -c .` writes it")]
    Unfinished,
    #[error("it contains several JSON documents; put each on its own line, as `jq -c .` does")]
    Several,
    #[error("it is JSON, but not a dead letter")]
    AnotherKind,
    #[error("it is a message, not a dead letter")]
    Message,
    #[error("it is output of `audit --format jsonl`, which omits parts of a message: use `audit --save`")]
    Shown,
    #[error("one of its times or attributes was changed")]
    Changed,
    #[error("it lacks the value of a binary attribute, which `local` leaves out")]
    BinaryAttribute,
    #[error("it has {0} bytes; the limit for a dead letter is {LINE_BYTES_MAX}")]
    TooLong(usize),
}

/// A final record as written by `redeliver local --final-dlq`.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LocalFinalRecord {
    body: String,
    attributes: BTreeMap<String, Option<String>>,
    /// The trace header of the final record.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_header: Option<String>,
    #[serde(rename = "virtual_now", skip_serializing)]
    _virtual_now: Option<IgnoredAny>,
}

/// The member that marks a final record as written in virtual time, even after the record was saved.
#[derive(Deserialize)]
struct VirtualTime {
    virtual_now: Option<String>,
}

/// Members that identify other file formats.
#[derive(Deserialize)]
struct FileKindMembers<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    fingerprint: Option<&'a RawValue>,
}

/// Reads a line. `default_sent_at` is the send time for a message that has none.
pub(crate) fn parse_line(line: &[u8], default_sent_at: Timestamp) -> Result<ReceivedMessage, BadLine> {
    let line = line.trim_ascii();
    match serde_json::from_slice::<ArchivedMessage>(line) {
        Ok(archived) => archived.into_message().ok_or(BadLine::Changed),
        Err(error) if !error.is_data() => Err(classify_error(line, &error)),
        Err(_) => match serde_json::from_slice::<LocalFinalRecord>(line) {
            Ok(record) => record.into_message(default_sent_at),
            Err(error) => Err(classify_error(line, &error)),
        },
    }
}

/// Returns the virtual timestamp at which a line was written, or `None` if it was written in real time.
pub(crate) fn virtual_now(line: &[u8]) -> Option<Timestamp> {
    let VirtualTime { virtual_now } = serde_json::from_slice(line.trim_ascii()).ok()?;
    parse_rfc3339(&virtual_now?)
}

/// Classifies a parse error. The library's own error messages would quote values from the line.
fn classify_error(line: &[u8], error: &serde_json::Error) -> BadLine {
    match serde_json::from_slice::<IgnoredAny>(line) {
        Err(syntax) if syntax.is_eof() => BadLine::Unfinished,
        Err(_) if has_several_documents(line) => BadLine::Several,
        Err(syntax) => BadLine::NotJson(syntax.column()),
        Ok(_) if error.is_data() => detect_kind(line),
        Ok(_) => BadLine::NotJson(error.column()),
    }
}

/// Returns true if a line has several documents, for example after files without a final line break were concatenated.
fn has_several_documents(line: &[u8]) -> bool {
    let mut documents = serde_json::Deserializer::from_slice(line).into_iter::<&RawValue>();
    let is_object = |document: Option<Result<&RawValue, _>>| {
        document.is_some_and(|document| document.is_ok_and(|json| json.get().starts_with('{')))
    };
    is_object(documents.next()) && is_object(documents.next())
}

fn detect_kind(line: &[u8]) -> BadLine {
    match serde_json::from_slice::<FileKindMembers<'_>>(line) {
        Ok(FileKindMembers { fingerprint: Some(_), .. }) => BadLine::Shown,
        Ok(FileKindMembers { metadata: Some(_), .. }) => BadLine::Message,
        _ => BadLine::AnotherKind,
    }
}

impl LocalFinalRecord {
    fn into_message(self, default_sent_at: Timestamp) -> Result<ReceivedMessage, BadLine> {
        let sqs_message_id = self.derive_id();
        let attributes = self.attributes.into_iter();
        let attributes: Option<Attributes> =
            attributes.map(|(name, text)| Some((name, Attribute::string(text?)))).collect();
        let attributes = attributes.ok_or(BadLine::BinaryAttribute)?;
        let ours = attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute);
        let given_up_at = ours.and_then(|ours| parse_rfc3339(&ours.dead_lettered_at));
        Ok(ReceivedMessage {
            sqs_message_id,
            receipt_handle: String::new(),
            body: self.body,
            attributes,
            sent_at: given_up_at.unwrap_or(default_sent_at),
            first_received_at: None,
            receive_count: 1,
            message_group_id: None,
            trace_header: self.trace_header,
            sender_id: None,
            redriven_from: None,
            queue_arn: String::new(),
            omitted: Vec::new(),
        })
    }

    /// Derives a substitute for the SQS message id, which this kind of line lacks. It is the same in every run,
    /// regardless of the line's position (RFC 9562, UUID version 8).
    fn derive_id(&self) -> String {
        let record = serde_json::to_vec(self).expect("strings always serialize");
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&Sha256::digest(record)[..16]);
        Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }
}

//! `--archive`: all that is needed to restore each message, before the retention's end deletes it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, ReceivedMessage};
use serde::{Deserialize, Serialize};

use super::groups::written;

/// A line of an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedMessage {
    /// SQS's id.
    pub sqs_message_id: String,
    /// The queue that it was read from.
    pub queue_arn: String,
    /// The body as it was, byte for byte.
    pub body: String,
    /// Message attributes.
    pub attributes: BTreeMap<String, ArchivedAttribute>,
    /// `SentTimestamp`, RFC 3339.
    pub sent_at: String,
    /// `ApproximateFirstReceiveTimestamp`, RFC 3339.
    pub first_received_at: Option<String>,
    /// `ApproximateReceiveCount`.
    pub receive_count: u32,
    /// `MessageGroupId`.
    pub message_group_id: Option<String>,
    /// `AWSTraceHeader`.
    pub trace_header: Option<String>,
    /// `DeadLetterQueueSourceArn`.
    pub redriven_from: Option<String>,
}

/// A message attribute, with its value as text or in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedAttribute {
    /// `String`, `Number`, `Binary`, each with an optional `.label`.
    pub data_type: String,
    /// Of `String` and `Number` types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of `Binary` types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl ArchivedMessage {
    /// Takes all of a message.
    #[must_use]
    pub fn new(message: &ReceivedMessage) -> Self {
        let attributes = message.attributes.iter();
        Self {
            sqs_message_id: message.sqs_message_id.clone(),
            queue_arn: message.queue_arn.clone(),
            body: message.body.clone(),
            attributes: attributes
                .map(|(name, attribute)| (name.clone(), ArchivedAttribute::new(attribute)))
                .collect(),
            sent_at: written(message.sent_at),
            first_received_at: message.first_received_at.map(written),
            receive_count: message.receive_count,
            message_group_id: message.message_group_id.clone(),
            trace_header: message.trace_header.clone(),
            redriven_from: message.redriven_from.clone(),
        }
    }

    /// The message attributes as they were; `None` where the line was changed since, so that one of them cannot be read.
    #[must_use]
    pub fn restored_attributes(&self) -> Option<Attributes> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, archived)| Some((name.clone(), archived.restored()?))).collect()
    }
}

impl ArchivedAttribute {
    fn new(attribute: &Attribute) -> Self {
        let (text, base64) = match &attribute.value {
            AttributeValue::Text(text) => (Some(text.clone()), None),
            AttributeValue::Binary(bytes) => (None, Some(STANDARD.encode(bytes))),
        };
        Self { data_type: attribute.data_type.clone(), text, base64 }
    }

    fn restored(&self) -> Option<Attribute> {
        let value = match (&self.text, &self.base64) {
            (Some(text), None) => AttributeValue::Text(text.clone()),
            (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).ok()?),
            _ => return None,
        };
        Some(Attribute { data_type: self.data_type.clone(), value })
    }
}

/// A new file of JSON Lines.
#[derive(Debug)]
pub(super) struct Archive {
    file: BufWriter<File>,
}

impl Archive {
    /// A file that was not there, for its owner's eyes only: it holds whole messages.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = BufWriter::new(options.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                io::Error::new(error.kind(), "it is there already, and an archive is not overwritten")
            }
            _ => error,
        })?);
        sync_directory_of(path)?;
        Ok(Self { file })
    }

    pub(super) fn add(&mut self, message: &ReceivedMessage) -> io::Result<()> {
        serde_json::to_writer(&mut self.file, &ArchivedMessage::new(message))?;
        self.file.write_all(b"\n")
    }

    /// On the disk when this returns.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// A new file's name is on the disk only when its directory is.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{at, received};

    #[test]
    fn a_message_is_restored_from_its_line_as_it_was() {
        let binary = Attribute {
            data_type: "Binary.png".to_owned(),
            value: AttributeValue::Binary(vec![0, 255, 10, 13]),
        };
        let number =
            Attribute { data_type: "Number.int".to_owned(), value: AttributeValue::Text("1e400".to_owned()) };
        let attributes: Attributes = [
            ("image".to_owned(), binary),
            ("n".to_owned(), number),
            ("s".to_owned(), Attribute::string("\u{2028}")),
        ]
        .into();
        let body = "{ \"a\" :\t1e400,\r\n \"\\u00e9\":\"é\u{7f}😀\" }\n";
        let mut message = received(body, attributes.clone(), 7);
        message.trace_header = Some("Root=1".to_owned());
        message.message_group_id = Some("tenant".to_owned());
        message.redriven_from = Some("arn:source".to_owned());
        message.first_received_at = Some(at(5));
        let line = serde_json::to_string(&ArchivedMessage::new(&message)).unwrap();
        assert!(!line.contains('\n'));
        let archived: ArchivedMessage = serde_json::from_str(&line).unwrap();
        assert_eq!(archived.body, body);
        assert_eq!(archived.restored_attributes(), Some(attributes));
        assert_eq!(
            (archived.trace_header.as_deref(), archived.message_group_id.as_deref()),
            (Some("Root=1"), Some("tenant"))
        );
        assert_eq!(
            (archived.sqs_message_id.as_str(), archived.redriven_from.as_deref(), archived.receive_count),
            ("sqs-7", Some("arn:source"), 1)
        );
        assert_eq!(archived.first_received_at.as_deref(), Some("1970-01-01T00:00:05.000Z"));
    }

    #[test]
    fn an_archive_is_a_new_file_that_others_cannot_read() {
        let path = std::env::temp_dir().join(format!("redeliver-archive-{}.jsonl", std::process::id()));
        let _absent = std::fs::remove_file(&path);
        let mut archive = Archive::create(&path).unwrap();
        archive.add(&received("a", Attributes::new(), 1)).unwrap();
        archive.add(&received("b", Attributes::new(), 2)).unwrap();
        archive.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
        assert_eq!(Archive::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_file(&path).unwrap();
    }
}

//! Dead letters in a file, a line each: all that is needed to send one again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use redeliver_core::message::{Attribute, AttributeValue, ReceivedMessage};
use redeliver_core::metadata::rfc3339;
use serde::Serialize;
use thiserror::Error;

use super::record::plain;

/// A new file of dead letters.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    file: File,
}

/// Why messages cannot be archived.
#[derive(Debug, Error)]
#[error("{}: {reason}", .path.display())]
pub struct ArchiveError {
    path: PathBuf,
    reason: String,
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    sqs_message_id: &'a str,
    queue_arn: &'a str,
    sent_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_group_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_header: Option<&'a str>,
    attributes: BTreeMap<&'a str, Value<'a>>,
    body: &'a str,
}

/// An attribute as `aws sqs send-message --message-attributes` takes it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Value<'a> {
    data_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
}

impl Archive {
    /// Starts a file.
    ///
    /// # Errors
    /// If it is there already, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, ArchiveError> {
        let created = OpenOptions::new().write(true).create_new(true).open(path);
        match created {
            Ok(file) => Ok(Self { path: path.to_owned(), file }),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(ArchiveError {
                path: path.to_owned(),
                reason: "is there already; name another file, so that nothing is overwritten".to_owned(),
            }),
            Err(error) => Err(ArchiveError { path: path.to_owned(), reason: error.to_string() }),
        }
    }

    /// Writes messages and waits until they are on disk.
    ///
    /// # Errors
    /// If the disk refuses: they must not be deleted then.
    pub fn write<'m>(
        &mut self,
        messages: impl IntoIterator<Item = &'m ReceivedMessage>,
    ) -> Result<(), ArchiveError> {
        let mut lines = String::new();
        for message in messages {
            lines += &serde_json::to_string(&line(message))
                .expect("strings and maps with string keys always serialise");
            lines.push('\n');
        }
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| ArchiveError { path: self.path.clone(), reason: error.to_string() })
    }
}

fn line(message: &ReceivedMessage) -> Line<'_> {
    Line {
        sqs_message_id: &message.sqs_message_id,
        queue_arn: &message.queue_arn,
        sent_at: rfc3339(message.sent_at),
        message_group_id: message.message_group_id.as_deref(),
        trace_header: message.trace_header.as_deref(),
        attributes: message
            .attributes
            .iter()
            .map(|(name, attribute)| (name.as_str(), value(attribute)))
            .collect(),
        body: &message.body,
    }
}

fn value(attribute: &Attribute) -> Value<'_> {
    Value {
        data_type: &attribute.data_type,
        string_value: attribute.text(),
        binary_value: matches!(attribute.value, AttributeValue::Binary(_)).then(|| plain(&attribute.value)),
    }
}

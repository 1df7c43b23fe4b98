//! Reads the input, checks each line, and skips lines that were already sent.

use std::collections::HashSet;
use std::io::BufRead;

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::OutgoingMessage;
use redeliver_dead_letters::BackupReader;

use super::confirmed::{ConfirmedLines, Digest};
use crate::message_file::{InputLine, LineFormat, SeenIds};

/// A message and its line number.
#[derive(Debug)]
pub struct NumberedMessage {
    /// The 1-based line number.
    pub number: usize,
    pub digest: Digest,
    pub message: OutgoingMessage,
}

/// The result of checking a line.
#[derive(Debug)]
pub enum LineCheck {
    Valid(NumberedMessage),
    /// The line has problems and is never sent.
    Invalid {
        /// The 1-based line number.
        number: usize,
        /// The problems; never empty.
        findings: Vec<String>,
    },
    /// SQS confirmed the line in an earlier run.
    Confirmed,
    /// The line is a dead letter or an exported message with the same SQS message id as an earlier line.
    Repeated,
    /// The rest of the input cannot be read. This is always the last step.
    Unreadable(String),
    /// All lines were read. This is always the last step. Describes the recognized formats other than plain lines, if
    /// any.
    End(Option<String>),
}

/// One step of reading the input: a line, or the end.
#[derive(Debug)]
pub struct InputStep {
    /// The number of input bytes read so far.
    pub bytes: u64,
    /// The result of checking the line, or the end of the input.
    pub checked: LineCheck,
    /// Warnings that do not prevent sending. A warning without a line number applies to the entire input.
    pub warnings: Vec<(Option<usize>, String)>,
}

/// The rules for checking the lines of a send: their format, the queue's size limit (1 MiB by default), and the lines
/// that an earlier run already sent.
#[derive(Debug)]
pub struct LineRules {
    pub form: LineFormat,
    /// The queue's `MaximumMessageSize` in bytes.
    pub largest: usize,
    pub confirmed: ConfirmedLines,
}

impl LineRules {
    /// Returns the steps of reading an input, in order.
    pub fn read_steps<R: BufRead>(self, input: R) -> impl Iterator<Item = InputStep> + use<R> {
        let mut lines = self.form.read_lines(input);
        let mut bytes = 0;
        let mut is_finished = false;
        let mut seen = SeenLines::default();
        std::iter::from_fn(move || {
            if is_finished {
                return None;
            }
            let mut warnings = Vec::new();
            let checked = match lines.next() {
                Some(Ok(line)) => {
                    bytes = line.end;
                    self.check_line(line, &mut seen, &mut warnings)
                }
                Some(Err(error)) => LineCheck::Unreadable(error.to_string()),
                None => {
                    warnings.extend(seen.ids.describe_rest().into_iter().map(|warning| (None, warning)));
                    LineCheck::End(lines.describe_recognized_formats())
                }
            };
            is_finished = matches!(checked, LineCheck::Unreadable(_) | LineCheck::End(_));
            Some(InputStep { bytes, checked, warnings })
        })
    }

    fn check_line(
        &self,
        line: InputLine,
        seen: &mut SeenLines,
        warnings: &mut Vec<(Option<usize>, String)>,
    ) -> LineCheck {
        let number = line.number;
        // The digest covers the line exactly as it is in the file, because the next run compares it with the file.
        let digest =
            line.content.as_ref().map(|content| Digest::for_line(number, content)).unwrap_or_default();
        let is_repeated = seen.record_sqs_id(&self.form, &line);
        let parsed = self.form.read_message(line);
        // Lines already sent are recorded as well, since a corrected line might reuse their id.
        let warning = parsed.as_ref().ok().and_then(|message| seen.ids.record_id(number, message));
        warnings.extend(warning.map(|warning| (Some(number), warning)));
        if self.confirmed.contains(number) {
            return LineCheck::Confirmed;
        }
        if is_repeated {
            return LineCheck::Repeated;
        }
        let message = match parsed {
            Ok(message) => message.sendable,
            Err(findings) => return LineCheck::Invalid { number, findings },
        };
        if message.size() > self.largest {
            let reason = format!("{} bytes; the queue's limit is {}", message.size(), self.largest);
            return LineCheck::Invalid { number, findings: vec![reason] };
        }
        LineCheck::Valid(NumberedMessage { number, digest, message })
    }
}

/// The ids found in the lines read so far.
#[derive(Default)]
struct SeenLines {
    ids: SeenIds,
    /// The SQS message ids, not hashed: a hash collision would lose a message. [`redeliver_dead_letters::FileQueue`]
    /// does the same.
    sqs_ids: HashSet<String>,
}

impl SeenLines {
    /// Records the SQS message id of a line. Returns true if an earlier line has the same id, that is, if both lines
    /// contain the same message.
    fn record_sqs_id(&mut self, form: &LineFormat, line: &InputLine) -> bool {
        let id = match (form, &line.content) {
            (LineFormat::Backup(_), Ok(content)) => BackupReader::read_id(content),
            _ => line.sqs_message_id(),
        };
        id.is_some_and(|id| !self.sqs_ids.insert(id))
    }
}

impl Default for LineRules {
    fn default() -> Self {
        Self { form: LineFormat::default(), largest: MESSAGE_BYTES_MAX, confirmed: ConfirmedLines::default() }
    }
}

#[cfg(test)]
mod tests;

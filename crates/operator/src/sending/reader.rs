//! Reads the input, checks each line, and skips lines that were already sent.

use std::collections::HashSet;
use std::io::BufRead;

use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::OutgoingMessage;
use redeliver_dead_letters::BackupReader;

use super::confirmed::{ConfirmedLines, Digest};
use crate::message_file::{InputLine, LineForm, SeenIds};

/// A message and its line number.
#[derive(Debug)]
pub struct NumberedMessage {
    /// Starts at 1.
    pub number: usize,
    pub digest: Digest,
    pub message: OutgoingMessage,
}

/// The result of checking a line.
#[derive(Debug)]
pub enum LineCheck {
    Valid(NumberedMessage),
    /// Has problems, and is never sent.
    Invalid {
        /// Starts at 1.
        number: usize,
        /// At least one.
        findings: Vec<String>,
    },
    Confirmed,
    /// A dead letter, or a message of an export, that repeats an earlier line's.
    Repeated,
    /// The rest of the input cannot be read. This is the last step.
    Unreadable(String),
    /// All lines were read. This is the last step. Describes the formats other than lines that were read.
    End(Option<String>),
}

/// One step through the input.
#[derive(Debug)]
pub struct InputStep {
    /// Bytes of the input read so far.
    pub bytes: u64,
    /// The result for the line, or the end.
    pub checked: LineCheck,
    /// Warnings about a line that is sent nevertheless, or about all lines.
    pub warnings: Vec<(Option<usize>, String)>,
}

/// The checks of a send: the format of each line, the queue's size limit (1 MiB by default), and the lines sent by an
/// earlier run.
#[derive(Debug)]
pub struct LineRules {
    pub form: LineForm,
    /// The queue's `MaximumMessageSize` in bytes.
    pub largest: usize,
    pub confirmed: ConfirmedLines,
}

impl LineRules {
    /// All steps through an input, in order.
    pub fn read_steps<R: BufRead>(self, input: R) -> impl Iterator<Item = InputStep> + use<R> {
        let mut lines = self.form.read_lines(input);
        let mut bytes = 0;
        let mut over = false;
        let mut seen = SeenLines::default();
        std::iter::from_fn(move || {
            if over {
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
                    LineCheck::End(lines.describe_recognized())
                }
            };
            over = matches!(checked, LineCheck::Unreadable(_) | LineCheck::End(_));
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
        // The digest is computed from the line in the file, which the next run compares.
        let digest =
            line.content.as_ref().map(|content| Digest::for_line(number, content)).unwrap_or_default();
        let is_repeated = seen.has_received(&self.form, &line);
        let read = self.form.read_message(line);
        // Includes lines already sent: a corrected line may have the same id.
        let warning = read.as_ref().ok().and_then(|message| seen.ids.record_id(number, message));
        warnings.extend(warning.map(|warning| (Some(number), warning)));
        if self.confirmed.contains(number) {
            return LineCheck::Confirmed;
        }
        if is_repeated {
            return LineCheck::Repeated;
        }
        let message = match read {
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

/// The lines so far.
#[derive(Default)]
struct SeenLines {
    ids: SeenIds,
    /// SQS ids, as in [`redeliver_dead_letters::FileQueue`]. They are not hashed: a colliding message would be lost.
    received: HashSet<String>,
}

impl SeenLines {
    /// True if an earlier line has the same message, which SQS has delivered twice.
    fn has_received(&mut self, form: &LineForm, line: &InputLine) -> bool {
        let id = match (form, &line.content) {
            (LineForm::Backup(_), Ok(content)) => BackupReader::read_id(content),
            _ => line.sqs_message_id(),
        };
        id.is_some_and(|id| !self.received.insert(id))
    }
}

impl Default for LineRules {
    fn default() -> Self {
        Self { form: LineForm::default(), largest: MESSAGE_BYTES_MAX, confirmed: ConfirmedLines::default() }
    }
}

#[cfg(test)]
mod tests;

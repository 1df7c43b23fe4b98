//! The plan for a redrive: one pure decision per message.

mod edit;
mod new_id;

use std::collections::BTreeMap;

use redeliver_core::arrival::{ProducerAttributes, split_producer_attributes, trace_header_and_verdict};
use redeliver_core::failure::annotation::{DeadLetter, ERROR_DETAILS, ERROR_TYPE};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::metadata::{GENERATION_MAX, Metadata};
use redeliver_core::message::plain::PlainMessages;
use redeliver_core::message::schema::{MessageSchema, ParsedMessage, RewrittenPart};
use redeliver_core::message::{Attributes, Content, OutgoingMessage};
use redeliver_core::ports::is_fifo;
use thiserror::Error;

use super::report::RedriveReport;
use crate::{Choice, DeadLetterRecord, FilterError, Pick};
pub use edit::BodyEdit;
use edit::EditableParts;
use new_id::{BodyWithNewId, assign_new_id, derive_id, message_id_in};

/// The plan for a redrive: the messages to send back, and the edit to apply to them.
#[derive(Debug, Default)]
pub struct RedrivePlan {
    pub pick: Pick,
    pub edit: Option<BodyEdit>,
    /// True if messages that the edit leaves unchanged stay in the DLQ.
    pub edited_only: bool,
    /// True to give edited messages a new `message_id`.
    pub new_id: bool,
    /// The number of times that a message may be sent back. After that it is parked: it remains in the DLQ.
    pub max_generation: u32,
    /// True if messages are written to a file, one body per line.
    pub into_lines: bool,
    /// True if messages are sent to a FIFO queue, each to the end of its group.
    pub to_fifo: bool,
    /// True if the DLQ is known to belong to a deployment. If so, a plain message without anything written by redeliver
    /// belongs to that deployment's loop, and its id is kept in `Redeliver`; otherwise it belongs to another program
    /// and is sent back unchanged.
    pub from_deployment: bool,
    /// The source queues of the messages.
    pub sources: Sources,
    /// The schema that an edited message must match.
    pub schema: MessageSchema,
}

/// Selects messages in a shared DLQ by the queue that SQS moved them from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// All messages are sent to one queue.
    #[default]
    Any,
    /// Each message is sent back to its own queue. It is left in the DLQ if SQS did not record its queue, or if that
    /// queue is in `unusable`, which maps the ARN of each unusable queue to the reason.
    Known { unusable: BTreeMap<String, String> },
    /// Only messages from the queue with this ARN are selected, and are sent back to it.
    Only(String),
}

/// The decision on one message.
#[derive(Clone, Debug, PartialEq)]
pub enum RedriveDecision {
    NotSelected,
    Send(Box<PlannedSend>),
    /// The message remains in the DLQ although it is, or may be, selected.
    Stays(StayReason),
}

/// A message to be sent back.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedSend {
    pub message: OutgoingMessage,
    /// The message's own id, or the new id if it was assigned one.
    pub message_id: String,
    /// The message's previous id, in any format, if it was assigned a new one.
    pub old_message_id: Option<String>,
    pub generation: u32,
    pub edited: bool,
}

/// The reason why a message remains in the DLQ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum StayReason {
    /// The filter failed on the message.
    #[error("the filter cannot judge it: {0}")]
    NotJudged(String),
    #[error("would be dead-lettered again immediately: {0}")]
    NotAMessage(String),
    /// The omitted parts, separated by commas.
    #[error("its {0} was omitted from the archive: it cannot be sent again")]
    Omitted(String),
    #[error("parked: was sent back {0} times already (--max-generation)")]
    Parked(u32),
    #[error("the edit does not change it")]
    NotEdited,
    #[error("the edit is refused: {0}")]
    EditRefused(String),
    #[error("SQS would refuse it: {0}")]
    NotSendable(String),
    #[error(
        "a line of a file has no place for its attributes or its message group: send it to a queue with --to"
    )]
    NotALine,
    #[error("it has no message_id that --new-id could replace: redeliver did not write it")]
    WithoutId,
    #[error("SQS did not record its source queue: name the queue to send to with --to")]
    UnknownSource,
    #[error("its source queue cannot be used: {0}")]
    UnusableSource(String),
    #[error("it has no message group, which a FIFO queue requires")]
    WithoutGroup,
    #[error(
        "the edit sets another message_id than in an earlier run, which may have sent it: it must set the same one in \
         each run"
    )]
    AnotherId,
}

impl RedrivePlan {
    /// Decides whether a message is sent back, and with which body, attributes and id.
    ///
    /// # Errors
    /// If a filter's output is neither true nor false, or the filter timed out on four messages in a row.
    pub fn decide(&self, record: &DeadLetterRecord) -> Result<RedriveDecision, FilterError> {
        let from = record.message.redriven_from.as_deref();
        if let Sources::Only(arn) = &self.sources
            && from != Some(arn)
        {
            return Ok(RedriveDecision::NotSelected);
        }
        match self.pick.judge_record(record)? {
            Choice::Picked => {}
            Choice::NotPicked => return Ok(RedriveDecision::NotSelected),
            Choice::NotJudged(why) => return Ok(RedriveDecision::Stays(StayReason::NotJudged(why))),
        }
        if let Sources::Known { unusable } = &self.sources {
            let Some(from) = from else { return Ok(RedriveDecision::Stays(StayReason::UnknownSource)) };
            if let Some(why) = unusable.get(from) {
                return Ok(RedriveDecision::Stays(StayReason::UnusableSource(why.clone())));
            }
        }
        if !record.message.omitted.is_empty() {
            return Ok(RedriveDecision::Stays(StayReason::Omitted(record.omitted_paths())));
        }
        // Checked before the edit and the schema, which are more expensive. An invalid message may have its generation
        // only in its final record.
        let final_generation =
            record.dead_letter.as_ref().and_then(|ours| ours.redrive_generation).unwrap_or(0);
        let generation = record.metadata.as_ref().map_or(final_generation, Metadata::generation);
        if generation >= self.max_generation.min(GENERATION_MAX) {
            return Ok(RedriveDecision::Stays(StayReason::Parked(generation)));
        }
        let attributes = producer_attributes(record);
        let Some(edit) = &self.edit else {
            return Ok(self.build_decision(record, &record.message.body, attributes, None));
        };
        let editable =
            if self.was_found_invalid(record) { EditableParts::All } else { EditableParts::ProducerPart };
        let body = match edit.edit_body(record, editable)? {
            Ok(body) => body,
            Err(why) => return Ok(RedriveDecision::Stays(StayReason::EditRefused(why))),
        };
        // An edit that changes nothing does not change the id: with a new id, an API would repeat the same work.
        if body == record.message.body {
            return Ok(match self.build_decision(record, &body, attributes, None) {
                RedriveDecision::Send(_) if self.edited_only => RedriveDecision::Stays(StayReason::NotEdited),
                verdict => verdict,
            });
        }
        // An id set by the edit itself is kept, even with `--new-id`.
        let (old, new) = (message_id_in(&record.message.body), message_id_in(&body));
        let edit_sets_id = new.is_some() && new != old;
        if edit_sets_id || !self.new_id {
            return Ok(self.build_decision(record, &body, attributes, old.filter(|_| edit_sets_id)));
        }
        if self.sends_unchanged(record) {
            return Ok(RedriveDecision::Stays(StayReason::WithoutId));
        }
        if let Ok(ParsedMessage::Plain(plain)) =
            self.schema.read_either_form(&body, &attributes, record.first_id())
        {
            let old_id = plain.metadata().message_id_text.clone();
            let new_id = derive_id(&old_id.to_ascii_lowercase(), generation + 1, &body);
            let Some(attributes) = plain.with_new_id(new_id) else {
                return Ok(RedriveDecision::Stays(StayReason::NotSendable(NO_ATTRIBUTE_ROOM.to_owned())));
            };
            return Ok(self.build_decision(record, &body, attributes, Some(old_id)));
        }
        let BodyWithNewId { body, old_id } = assign_new_id(&body, record.first_id(), generation + 1);
        Ok(self.build_decision(record, &body, attributes, Some(old_id)))
    }

    /// Decides on one message, and counts it in the report unless it is to be sent.
    ///
    /// # Errors
    /// Same as [`RedrivePlan::decide`].
    pub fn decide_and_count(
        &self,
        record: &DeadLetterRecord,
        report: &mut RedriveReport,
    ) -> Result<Option<PlannedSend>, FilterError> {
        match self.decide(record)? {
            RedriveDecision::Send(send_back) => return Ok(Some(*send_back)),
            RedriveDecision::NotSelected => report.not_selected += 1,
            RedriveDecision::Stays(reason) => {
                report.count_staying(&record.message.sqs_message_id, reason.to_string())
            }
        }
        Ok(None)
    }

    /// Returns the body that would be sent without the edit, or the original body if the message cannot be sent.
    #[must_use]
    pub fn body_without_edit(&self, record: &DeadLetterRecord) -> String {
        let body = &record.message.body;
        match self.build_decision(record, body, producer_attributes(record), None) {
            RedriveDecision::Send(unedited) => unedited.message.content().body.clone(),
            RedriveDecision::Stays(_) | RedriveDecision::NotSelected => body.clone(),
        }
    }

    /// Returns true if the final record marks the message as invalid, or if it cannot be read as a message. No target
    /// has seen its id, so an edit may change all of it.
    #[must_use]
    pub fn was_found_invalid(&self, record: &DeadLetterRecord) -> bool {
        let codes = [DeadLetterReason::InvalidMessageFormat, DeadLetterReason::InvalidMessageSchema];
        // The code is in its attributes or, if they are full, in its trace header. A producer's own `ErrorType` does
        // not count.
        let is_marked_invalid = codes.iter().any(|code| code.as_str() == record.error_type);
        // The schema for `data` is not checked, since it is not the schema that applied when the target was called.
        let is_readable = record.metadata.is_some()
            || self
                .schema
                .read_either_form(&record.message.body, &producer_attributes(record), record.first_id())
                .is_ok();
        is_marked_invalid || !is_readable
    }

    /// Returns true if another program may have sent the message: redeliver has not changed it.
    fn is_foreign(&self, record: &DeadLetterRecord) -> bool {
        !self.from_deployment && record.is_untouched()
    }

    /// Returns true if the message is sent back with unchanged attributes and trace header.
    fn sends_unchanged(&self, record: &DeadLetterRecord) -> bool {
        self.schema.accepts_plain() && self.is_foreign(record)
    }

    /// Returns true if this is another program's message that would be sent back unchanged with `--plain`.
    fn would_resend_with_plain(&self, record: &DeadLetterRecord) -> bool {
        let accepting = MessageSchema::default().with_plain(PlainMessages::default());
        let attributes = &record.message.attributes;
        self.edit.is_none()
            && !self.schema.accepts_plain()
            && self.is_foreign(record)
            && matches!(
                accepting.read_either_form(&record.message.body, attributes, record.first_id()),
                Ok(ParsedMessage::Plain(_))
            )
    }

    fn build_decision(
        &self,
        record: &DeadLetterRecord,
        body: &str,
        attributes: Attributes,
        old_message_id: Option<String>,
    ) -> RedriveDecision {
        let message = if self.sends_unchanged(record) {
            self.prepare_unchanged(record, body)
        } else {
            self.prepare_next_generation(record, body, attributes)
        };
        let ResentMessage { body: new_body, attributes, trace_header, message_id, generation } = match message
        {
            Ok(resent) => resent,
            Err(reason) => return RedriveDecision::Stays(reason),
        };
        if self.into_lines && !(attributes.is_empty() && record.message.message_group_id.is_none()) {
            return RedriveDecision::Stays(StayReason::NotALine);
        }
        let to_fifo = match (&self.sources, &record.message.redriven_from) {
            (Sources::Known { .. }, Some(own)) => is_fifo(own),
            _ => self.to_fifo,
        };
        if to_fifo && record.message.message_group_id.is_none() {
            return RedriveDecision::Stays(StayReason::WithoutGroup);
        }
        // Derived from the dead letter and the new body, so that a send repeated within five minutes adds no copy, and
        // a send with a different edit is not dropped.
        let death = &record.message.sqs_message_id;
        let deduplication_id = to_fifo.then(|| derive_id(death, generation, &new_body).to_string());
        let content = Content {
            body: new_body,
            attributes,
            message_group_id: record.message.message_group_id.clone(),
            deduplication_id,
            trace_header,
            delay: DelaySeconds::ZERO,
        };
        match OutgoingMessage::new(content) {
            Ok(message) => RedriveDecision::Send(Box::new(PlannedSend {
                message,
                message_id,
                old_message_id,
                generation,
                edited: body != record.message.body,
            })),
            Err(error) => RedriveDecision::Stays(StayReason::NotSendable(error.to_string())),
        }
    }

    /// Prepares a message from another program. It has no generation, and its only id is the SQS message id.
    fn prepare_unchanged(&self, record: &DeadLetterRecord, body: &str) -> Result<ResentMessage, StayReason> {
        if let Some(plain) = self.schema.plain() {
            plain.check_body(body).map_err(|invalid| StayReason::NotAMessage(invalid.to_string()))?;
        }
        Ok(ResentMessage {
            body: body.to_owned(),
            attributes: record.message.attributes.clone(),
            trace_header: record.message.trace_header.clone(),
            message_id: record.message.sqs_message_id.clone(),
            generation: 0,
        })
    }

    /// Prepares a redeliver message, with a fresh retry budget and without redeliver's own attributes.
    fn prepare_next_generation(
        &self,
        record: &DeadLetterRecord,
        body: &str,
        attributes: Attributes,
    ) -> Result<ResentMessage, StayReason> {
        let parsed = self.schema.read_either_form(body, &attributes, record.first_id());
        let parsed = parsed.map_err(|invalid| {
            let advice = if self.would_resend_with_plain(record) {
                "; to send it back unchanged, add --plain"
            } else {
                ""
            };
            StayReason::NotAMessage(format!("{invalid}{advice}"))
        })?;
        let came_back = record.dead_letter.as_ref().map(DeadLetter::dlq_return).unwrap_or_default();
        let (body, attributes) = match parsed.with_next_generation(came_back) {
            Some(RewrittenPart::Body(body)) => (body, attributes),
            Some(RewrittenPart::Attributes(attributes)) => (body.to_owned(), attributes),
            None => return Err(StayReason::NotSendable(NO_ATTRIBUTE_ROOM.to_owned())),
        };
        Ok(ResentMessage {
            body,
            attributes,
            trace_header: trace_header_and_verdict(&record.message).0,
            message_id: parsed.metadata().message_id_text.clone(),
            generation: parsed.metadata().clone().into_next_generation(came_back).generation(),
        })
    }
}

/// The parts of a dead letter that are sent again.
struct ResentMessage {
    body: String,
    attributes: Attributes,
    trace_header: Option<String>,
    message_id: String,
    generation: u32,
}

/// Restores the producer's attributes. If `DeadLetter` did not fit into a final record, the record's other two
/// attributes are removed by name.
fn producer_attributes(record: &DeadLetterRecord) -> Attributes {
    let ProducerAttributes { attributes: mut producer, came_back } =
        split_producer_attributes(record.message.attributes.clone());
    if came_back.is_none() && record.is_annotated {
        producer.remove(ERROR_TYPE);
        producer.remove(ERROR_DETAILS);
    }
    producer
}

/// The reason for leaving a plain message in the DLQ if its attributes cannot be folded.
const NO_ATTRIBUTE_ROOM: &str = "its ten attributes leave no room for redeliver's own";

#[cfg(test)]
mod tests;

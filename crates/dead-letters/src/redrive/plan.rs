//! What would be sent back, and what not: one decision a message, pure.

use redeliver_core::annotation::{ERROR_DETAILS, ERROR_TYPE};
use redeliver_core::arrival::producers_attributes;
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Attributes, Content, OutgoingMessage};
use redeliver_core::metadata::{GENERATION_MAX, OUR_MEMBERS};
use redeliver_core::schema::{MessageSchema, Parsed, Rewritten};
use redeliver_core::value;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use uuid::{Builder, Uuid};

use crate::edit::splice;
use crate::{DeadLetterRecord, Filter, FilterError, Pick};

/// What is done to which messages.
#[derive(Debug, Default)]
pub struct Plan {
    pub pick: Pick,
    pub edit: Option<Edit>,
    /// What the edit changes gets a new `message_id`.
    pub new_id: bool,
    /// What was sent back so often is not sent back again.
    pub max_generation: u32,
    /// What the edited message must match, apart from being a message.
    pub schema: MessageSchema,
}

/// What becomes of one message.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    NotSelected,
    Send(Box<SendBack>),
    /// It is selected but stays; a sentence says why.
    Stays(Reason),
}

/// A message on its way back.
#[derive(Clone, Debug, PartialEq)]
pub struct SendBack {
    pub message: OutgoingMessage,
    /// Its own id; if it got a new one, that.
    pub message_id: String,
    /// The id that it had, if it got a new one.
    pub old_message_id: Option<String>,
    pub generation: u32,
    pub edited: bool,
}

/// Why a selected message stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Reason {
    #[error("would be dead-lettered again at once: {0}")]
    NotAMessage(String),
    #[error("parked: was sent back {0} times already (--max-generation)")]
    Parked(u32),
    #[error("the edit is refused: {0}")]
    EditRefused(String),
    #[error("SQS would refuse it: {0}")]
    NotSendable(String),
}

/// A change of `.body`.
#[derive(Debug)]
pub struct Edit(Change);

#[derive(Debug)]
enum Change {
    /// A jq filter, and the same document through the same writer, unchanged.
    Filter { change: Filter, identity: Filter },
    /// The body that it becomes.
    Body(Value),
}

impl Edit {
    /// Compiles a filter.
    ///
    /// # Errors
    /// With the place where it is wrong.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let [change, identity] = [Filter::of_dead_letters(text)?, Filter::new(".")?];
        Ok(Self(Change::Filter { change, identity }))
    }

    /// The body as somebody has written it anew, of one message.
    ///
    /// # Errors
    /// If it is not JSON; with line and column.
    pub fn body(text: &str) -> Result<Self, String> {
        let body =
            serde_json::from_str::<&RawValue>(text).map_err(|error| format!("is not JSON: {error}"))?;
        Ok(Self(Change::Body(value::read(body.get()).unwrap_or_default())))
    }
}

impl Plan {
    /// What becomes of a message.
    ///
    /// # Errors
    /// If a filter fails on it.
    pub fn decide(&self, record: &DeadLetterRecord) -> Result<Verdict, FilterError> {
        if !self.pick.picks(record)? {
            return Ok(Verdict::NotSelected);
        }
        // Before the edit and the schema, which cost more: a message that has had all its rounds is left alone.
        let generation = record.metadata.as_ref().map_or(0, |metadata| metadata.generation);
        if generation >= self.max_generation.min(GENERATION_MAX) {
            return Ok(Verdict::Stays(Reason::Parked(generation)));
        }
        let attributes = producer_attributes(record);
        let Some(edit) = &self.edit else {
            return Ok(self.send_back(record, &record.message.body, attributes, None));
        };
        let body = match edited(edit, record)? {
            Ok(body) => body,
            Err(why) => return Ok(Verdict::Stays(Reason::EditRefused(why))),
        };
        // An edit that changes nothing changes no id either: an API would do the same work a second time.
        if !self.new_id || body == record.message.body {
            return Ok(self.send_back(record, &body, attributes, None));
        }
        let sqs_message_id = &record.message.sqs_message_id;
        if let Ok(Parsed::Plain(plain)) = self.schema.read_either(&body, &attributes, sqs_message_id) {
            let old_id = plain.metadata().message_id_text.clone();
            let new_id = derived_id(&old_id.to_ascii_lowercase(), generation + 1, &body);
            let Some(attributes) = plain.renamed(new_id) else {
                return Ok(Verdict::Stays(Reason::NotSendable(NO_PLACE.to_owned())));
            };
            return Ok(self.send_back(record, &body, attributes, Some(old_id)));
        }
        let (body, old_id) = with_new_id(&body, sqs_message_id, generation + 1);
        Ok(self.send_back(record, &body, attributes, Some(old_id)))
    }

    fn send_back(
        &self,
        record: &DeadLetterRecord,
        body: &str,
        attributes: Attributes,
        old_message_id: Option<String>,
    ) -> Verdict {
        let parsed = match self.schema.read_either(body, &attributes, &record.message.sqs_message_id) {
            Ok(parsed) => parsed,
            Err(invalid) => return Verdict::Stays(Reason::NotAMessage(invalid.to_string())),
        };
        let given_up_in = record.dead_letter.as_ref().and_then(|ours| ours.redrive_generation);
        let (new_body, attributes) = match parsed.with_next_generation(given_up_in) {
            Some(Rewritten::Body(body)) => (body, attributes),
            Some(Rewritten::Attributes(attributes)) => (body.to_owned(), attributes),
            None => return Verdict::Stays(Reason::NotSendable(NO_PLACE.to_owned())),
        };
        let content = Content {
            body: new_body,
            attributes,
            message_group_id: record.message.message_group_id.clone(),
            trace_header: record.message.trace_header.clone(),
            delay: DelaySeconds::ZERO,
        };
        match OutgoingMessage::new(content) {
            Ok(message) => Verdict::Send(Box::new(SendBack {
                message,
                message_id: parsed.metadata().message_id_text.clone(),
                old_message_id,
                generation: parsed.metadata().clone().into_next_generation(given_up_in).generation(),
                edited: body != record.message.body,
            })),
            Err(error) => Verdict::Stays(Reason::NotSendable(error.to_string())),
        }
    }
}

/// The producer's attributes, whole again. A final record that had no room for `DeadLetter` has its other two taken off
/// by their names.
fn producer_attributes(record: &DeadLetterRecord) -> Attributes {
    let (mut producer, came_back) = producers_attributes(record.message.attributes.clone());
    if came_back.is_none() && record.is_annotated {
        producer.remove(ERROR_TYPE);
        producer.remove(ERROR_DETAILS);
    }
    producer
}

/// Of a plain message whose attributes nobody can fold.
const NO_PLACE: &str = "none of its ten attributes can make room for redeliver's own";
/// Of `--edit .body.data`, which picks where it should change.
const NOT_AN_ASSIGNMENT: &str = "its output is not the whole message any more; write an assignment, which keeps the rest, such \
                                 as `.body.data.currency = \"EUR\"`";

/// The body with what the edit changed in it; the inner error says why the edit must not be made.
fn edited(edit: &Edit, record: &DeadLetterRecord) -> Result<Result<String, String>, FilterError> {
    match &edit.0 {
        Change::Filter { change, identity } => filtered(change, identity, record),
        Change::Body(body) => {
            let before = value::read(&record.message.body).unwrap_or_default();
            Ok(with_body(record, &before, body))
        }
    }
}

fn filtered(
    change: &Filter,
    identity: &Filter,
    record: &DeadLetterRecord,
) -> Result<Result<String, String>, FilterError> {
    // The document goes through the same tool twice, once unchanged. Comparing these two shows what the edit has
    // changed, and not how the tool writes a number or an escape.
    let id = &record.message.sqs_message_id;
    let read = |text: &str| value::read(text).unwrap_or_default();
    let before = read(&identity.edit(id, record.document())?);
    let after = read(&change.edit(id, record.document())?);
    let (Value::Object(document), Value::Object(mut changed)) = (before, after) else {
        return Ok(Err(NOT_AN_ASSIGNMENT.to_owned()));
    };
    if document.keys().any(|name| !changed.contains_key(name)) {
        return Ok(Err(NOT_AN_ASSIGNMENT.to_owned()));
    }
    let body = changed.remove("body").unwrap_or_default();
    if let Some(name) =
        document.keys().filter(|name| *name != "body").find(|name| changed.get(*name) != document.get(*name))
    {
        return Ok(Err(format!("it changes .{name}; only .body can be changed")));
    }
    Ok(with_body(record, &document["body"], &body))
}

/// Refuses what is no object, and a change of what is redeliver's own in it: that would forge a message's history, or
/// end its idempotency.
fn with_body(record: &DeadLetterRecord, before: &Value, after: &Value) -> Result<String, String> {
    if !(after.is_object() && before.is_object()) {
        return Err("the body is not a JSON object, before or after".to_owned());
    }
    let ours = |body: &Value, name: &str| body["metadata"].get(name).cloned();
    let kept = OUR_MEMBERS.into_iter().chain(["message_id"]);
    if let Some(name) = kept.into_iter().find(|name| ours(after, name) != ours(before, name)) {
        return Err(format!("it changes /metadata/{name}, which stays as it is"));
    }
    Ok(splice(&record.message.body, before, after))
}

/// The body with a new `message_id`, and the one that it had: SQS's if it had none that is a UUID.
///
/// The new one is derived, not drawn (RFC 9562, UUID version 8), so that a second run and each copy of the message come
/// to the same: from the old id, the new generation and what the producer's part of the message is after the edit.
fn with_new_id(body: &str, sqs_message_id: &str, generation: u32) -> (String, String) {
    let before = value::read(body).unwrap_or_default();
    let own = before["metadata"]["message_id"].as_str();
    let old_id = own.filter(|id| Uuid::try_parse(id).is_ok()).unwrap_or(sqs_message_id).to_owned();
    let mut after = before.clone();
    if let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) {
        let new_id =
            derived_id(&old_id.to_ascii_lowercase(), generation, &of_the_producer(&before).to_string());
        metadata.insert("message_id".to_owned(), new_id.to_string().into());
    }
    (splice(body, &before, &after), old_id)
}

/// Without what redeliver writes: copies of a message differ in that.
fn of_the_producer(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !OUR_MEMBERS.contains(&name.as_str()));
    }
    body
}

fn derived_id(old_id: &str, generation: u32, content: &str) -> Uuid {
    let mut hash = Sha256::new();
    for part in ["redeliver redrive --new-id", old_id, &generation.to_string(), content] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests;

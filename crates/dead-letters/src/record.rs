//! A dead letter as shown in reports and passed to filters.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use redeliver_core::archive::Death;
use redeliver_core::arrival::{Arrival, has_document, split_producer_attributes, trace_header_and_verdict};
use redeliver_core::failure::annotation::{
    DEAD_LETTER, DeadLetter, ERROR_DETAILS, ERROR_TYPE, compute_fingerprint,
};
use redeliver_core::failure::reason::ReasonCode;
use redeliver_core::failure::{FAILURE, LastError, Verdict};
use redeliver_core::json::value::is_json;
use redeliver_core::message::attempt_logs::AttemptLogs;
use redeliver_core::message::metadata::{Metadata, parse_rfc3339};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::{MessageSchema, ParsedMessage};
use redeliver_core::message::{AttributeValue, ReceivedMessage, Timestamp};
use redeliver_core::trace::TraceContext;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ForeignDeadLetter;
use crate::groups::format_timestamp;
use crate::headline::format_headline;
use crate::surrogates::read_lossy;

/// The error type shown for a message without one: its writer is unknown, or the error type did not fit.
pub const UNANNOTATED: &str = "UNANNOTATED";

/// The name of the attribute, or of the member of `metadata`, that contains the tenant.
const TENANT: &str = "tenant";

/// Compiled once, since a DLQ can contain a hundred thousand messages.
static SCHEMA: LazyLock<MessageSchema> = LazyLock::new(MessageSchema::default);

/// The number of nesting levels in a body that a filter can recurse into without a stack overflow; our own messages
/// have at most 128.
const FILTERED_LEVELS_MAX: usize = 1000;

/// A message in a DLQ, whether or not redeliver wrote it.
#[derive(Clone, Debug)]
pub struct DeadLetterRecord {
    pub message: ReceivedMessage,
    /// `ErrorType`, or the code in the trace header if the attribute did not fit, or the AWS service or framework that
    /// wrote the message, or [`UNANNOTATED`].
    pub error_type: String,
    /// `ErrorDetails`, or the error message from the service or framework; empty if there is none.
    pub error_details: String,
    /// True if redeliver wrote the `ErrorType`.
    pub is_annotated: bool,
    /// The failure recorded by an AWS service or a framework, if the message is not ours.
    pub foreign: Option<ForeignDeadLetter>,
    /// Our `DeadLetter` document, if there is one.
    pub dead_letter: Option<DeadLetter>,
    /// The fingerprint of the message's error.
    pub fingerprint: String,
    /// The metadata in the body or the attribute `Redeliver`, if the message is ours. The generation is the higher of
    /// the metadata's and the final record's: it is missing from the body of a message that was given up without a
    /// re-send.
    pub metadata: Option<Metadata>,
}

/// The members of the document for filters.
pub(crate) const MEMBERS: [&str; 8] =
    ["message_id", "sent_at", "error_type", "error_details", "attempts", "fingerprint", "attributes", "body"];

/// The document for filters, with [`MEMBERS`].
#[derive(Serialize)]
struct FilterDocument<'a> {
    message_id: &'a str,
    sent_at: String,
    error_type: &'a str,
    error_details: &'a str,
    attempts: Option<u32>,
    fingerprint: &'a str,
    attributes: BTreeMap<&'a str, String>,
    body: DocumentBody<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum DocumentBody<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

impl DeadLetterRecord {
    /// Reads a message from a DLQ. This never fails: missing or unreadable parts are left empty.
    #[must_use]
    pub fn new(message: ReceivedMessage) -> Self {
        let dead_letter = message.attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute);
        let code = annotated_code(&message);
        let is_annotated = code.is_some();
        let verdict = attached_verdict(&message);
        let is_ours = is_annotated || has_failure(&message) || dead_letter.is_some() || verdict.is_some();
        let foreign = if is_ours { None } else { ForeignDeadLetter::from_message(&message) };
        let error_type = code
            .or(verdict.as_ref().map(|verdict| verdict.code.as_str()))
            .or(foreign.as_ref().map(|foreign| foreign.writer.code()))
            .unwrap_or(UNANNOTATED)
            .to_owned();
        let error_details = code
            .and(attribute_text(&message, ERROR_DETAILS).map(str::to_owned))
            .or_else(|| verdict.as_ref().map(Verdict::full_explanation))
            .or_else(|| foreign.as_ref().map(ForeignDeadLetter::details))
            .unwrap_or_default();
        let annotator_fingerprint = dead_letter.as_ref().map(|ours| &ours.fingerprint);
        let fingerprint = if let Some(known) = annotator_fingerprint.filter(|text| is_fingerprint(text)) {
            known.clone()
        } else if let Some(foreign) = &foreign {
            foreign.fingerprint()
        } else if let Some(Verdict { case, .. }) = verdict {
            let error = case.map(|case| case.failure.error);
            let LastError { error_type: last, details, .. } = error.unwrap_or_default();
            compute_fingerprint(&error_type, &last, &details)
        } else {
            compute_fingerprint(&error_type, "", &error_details)
        };
        let metadata = read_metadata(&message, dead_letter.as_ref());
        Self { error_type, error_details, is_annotated, foreign, dead_letter, fingerprint, metadata, message }
    }

    /// Returns true if the message contains nothing written by redeliver: no envelope, no attribute `Redeliver`, and no
    /// document from its functions.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.metadata.is_none() && !has_document(&self.message)
    }

    /// Returns the error on one line of at most 300 bytes: `HTTP 422 Unprocessable Entity`, `KeyError: 'id' at
    /// orders.py:31`.
    #[must_use]
    pub fn headline(&self) -> String {
        format_headline(self)
    }

    /// Returns the failed version of the user's function, such as `orders:41`, if known. Otherwise returns the function
    /// that gave up on the message: its role in the loop if it is one of redeliver's, or else its name.
    #[must_use]
    pub fn failed_function(&self) -> Option<String> {
        let function_in_cause = |ours: &DeadLetter| ours.cause.function.clone();
        let ours = self.dead_letter.as_ref();
        let ours = ours.map(|ours| function_in_cause(ours).unwrap_or_else(|| ours.stage.as_str().to_owned()));
        let foreign_name = || self.foreign.as_ref().map(|foreign| foreign.source_name().to_owned());
        ours.or_else(foreign_name).filter(|name| !name.is_empty())
    }

    /// Returns the value of the attribute or metadata member `tenant`, or else the message group. The circuit breaker
    /// does the same.
    #[must_use]
    pub fn tenant(&self) -> Option<String> {
        let message = &self.message;
        let attribute_tenant =
            message.attributes.get(TENANT).and_then(|attribute| attribute.text()).map(str::to_owned);
        // Most bodies have no such member, so they are not parsed a second time.
        let metadata_tenant = || {
            let body = message.body.contains("\"tenant\"").then_some(&message.body)?;
            read_lossy(body).ok().and_then(|body| body["metadata"][TENANT].as_str().map(str::to_owned))
        };
        attribute_tenant.or_else(metadata_tenant).or_else(|| message.message_group_id.clone())
    }

    /// Returns true if the attribute's value is shown without `--reveal`: the tenant, since dead letters are counted by
    /// it, and attributes that redeliver wrote. All other values are masked like the body.
    #[must_use]
    pub fn is_unmasked(&self, attribute: &str) -> bool {
        attribute == TENANT || self.is_own_attribute(attribute)
    }

    /// Returns true if the body's member `metadata` was written by redeliver, and so is shown without `--reveal`.
    #[must_use]
    pub const fn can_show_metadata(&self) -> bool {
        self.metadata.is_some() || self.is_annotated
    }

    /// Returns true if redeliver wrote the attribute.
    #[must_use]
    pub fn is_own_attribute(&self, attribute: &str) -> bool {
        self.dead_letter.is_some() && [DEAD_LETTER, ERROR_TYPE, ERROR_DETAILS].contains(&attribute)
    }

    /// Returns the parts that the archive omitted: `/data/email, /data/name`, or `body`; empty if there are none.
    #[must_use]
    pub fn omitted_paths(&self) -> String {
        let place_name =
            |pointer: &String| if pointer.is_empty() { "body".to_owned() } else { pointer.clone() };
        self.message.omitted.iter().map(place_name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of retries, if known.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        let ours = self.dead_letter.as_ref().and_then(|ours| ours.attempts);
        let reported = ours.or_else(|| self.metadata.as_ref().map(|metadata| metadata.retry_attempt));
        reported.or_else(|| self.foreign.as_ref()?.attempts)
    }

    /// Returns the number of seconds for which the message was held while its target was down; 0 if it was never held.
    #[must_use]
    pub fn held_seconds(&self) -> u32 {
        // Our document omits a zero, and the body may still have the previous generation.
        match &self.dead_letter {
            Some(ours) => ours.held_seconds.unwrap_or(0),
            None => {
                self.metadata.as_ref().map_or(0, |metadata| metadata.holds.trusted_seconds(Origin::Unknown))
            }
        }
    }

    /// Returns the number of times that the message returned after SQS had moved it.
    #[must_use]
    pub fn redrive_count(&self) -> u32 {
        match &self.dead_letter {
            Some(ours) => ours.redrive_count.unwrap_or(0),
            None => self.metadata.as_ref().map_or(0, |metadata| metadata.redrive_count),
        }
    }

    /// Returns the timestamp of the first send, from our document or else from SQS.
    #[must_use]
    pub fn first_sent_at(&self) -> Timestamp {
        let ours = self.dead_letter.as_ref().and_then(|ours| ours.first_sent_time.as_deref());
        ours.and_then(parse_rfc3339).unwrap_or(self.message.sent_at)
    }

    /// Returns the message's own id if it has one, or else [`Self::first_id`].
    #[must_use]
    pub fn message_id(&self) -> &str {
        self.metadata.as_ref().map_or_else(|| self.first_id(), |metadata| &metadata.message_id_text)
    }

    /// Returns the SQS message id of the delivery that failed last, which all copies of the dead letter share. If that
    /// is unknown, returns the SQS message id of this message.
    #[must_use]
    pub fn first_id(&self) -> &str {
        first_id(&self.message, self.dead_letter.as_ref())
    }

    /// Returns the log lines of the last attempt, from our document or from the verdict in a notice.
    #[must_use]
    pub fn last_attempt_logs(&self) -> Option<AttemptLogs> {
        match &self.dead_letter {
            Some(ours) => ours.last_attempt_logs.clone(),
            None => attached_verdict(&self.message)?.case?.failure.delivery.last_attempt_logs,
        }
    }

    /// Returns the trace context set by the producer.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        let attributes = split_producer_attributes(self.message.attributes.clone()).attributes;
        let (trace_header, _) = trace_header_and_verdict(&self.message);
        TraceContext::from_parts(&attributes, &self.message.body, trace_header.as_deref())
    }

    /// Returns the identity that an archive uses for the death. For a final record it is the annotator's: the time of
    /// the last failure, the fingerprint, and the SQS message id of the failed delivery.
    ///
    /// Without the document, that time and that id are unknown, although an AWS service may record the time. They are
    /// replaced by SQS's send timestamp and message id, which are the same on every receive.
    #[must_use]
    pub fn death(&self) -> Death {
        let died_at = self.dead_letter.as_ref().and_then(|ours| ours.died_at.as_deref());
        let foreign_failed_at = || self.foreign.as_ref().and_then(|foreign| foreign.failed_at);
        let at = died_at.and_then(parse_rfc3339).or_else(foreign_failed_at).unwrap_or(self.message.sent_at);
        Death::new(at, &self.fingerprint, self.first_id())
    }

    /// Returns the JSON document for `--where` and `--edit`: `{message_id, sent_at, error_type, error_details,
    /// attempts, fingerprint, attributes, body}`. A body that is not JSON, or is nested too deeply, is a string.
    #[must_use]
    pub fn filter_document(&self) -> String {
        let attributes = self.message.attributes.iter();
        let document = FilterDocument {
            message_id: self.message_id(),
            sent_at: format_timestamp(self.message.sent_at),
            error_type: &self.error_type,
            error_details: &self.error_details,
            attempts: self.attempts(),
            fingerprint: &self.fingerprint,
            attributes: attributes
                .map(|(name, attribute)| (name.as_str(), format_value(&attribute.value)))
                .collect(),
            body: match serde_json::from_str(&self.message.body) {
                Ok(json) if nesting_depth(&self.message.body) <= FILTERED_LEVELS_MAX => {
                    DocumentBody::Json(json)
                }
                _ => DocumentBody::Text(&self.message.body),
            },
        };
        serde_json::to_string(&document).expect("strings, numbers and maps with string keys always serialize")
    }
}

fn attribute_text<'a>(message: &'a ReceivedMessage, name: &str) -> Option<&'a str> {
    message.attributes.get(name).and_then(|attribute| attribute.text())
}

/// Returns true if the message is not a final record but a notice of a blocked group, or a verdict that the annotator
/// could not handle.
fn has_failure(message: &ReceivedMessage) -> bool {
    message.attributes.contains_key(FAILURE)
}

/// Returns our `ErrorType`. A producer can use the same attribute name, so it counts as ours only if its value is a
/// code and the message has no `Failure`, which the annotator removes. A code from a later version counts only together
/// with a document that the annotator certainly wrote.
fn annotated_code(message: &ReceivedMessage) -> Option<&str> {
    let code = attribute_text(message, ERROR_TYPE).filter(|_| !has_failure(message))?;
    let is_code = match ReasonCode::from_text(code)? {
        ReasonCode::Known(_) => true,
        ReasonCode::Unknown(_) => split_producer_attributes(message.attributes.clone()).came_back.is_some(),
    };
    is_code.then_some(code)
}

/// Returns the verdict in the message's `Failure` or trace header.
fn attached_verdict(message: &ReceivedMessage) -> Option<Verdict> {
    if has_failure(message) {
        Arrival::from_record(message.clone(), message.sent_at).take_verdict().ok()
    } else {
        trace_header_and_verdict(message).1
    }
}

fn read_metadata(message: &ReceivedMessage, dead_letter: Option<&DeadLetter>) -> Option<Metadata> {
    // `Redeliver` may be folded.
    let producers = || split_producer_attributes(message.attributes.clone()).attributes;
    let parsed = SCHEMA.parse_envelope(&message.body).ok().map(ParsedMessage::Envelope);
    let first_id = first_id(message, dead_letter);
    let parsed = parsed.or_else(|| SCHEMA.read_either_form(&message.body, &producers(), first_id).ok())?;
    let metadata = parsed.metadata().clone();
    let generation = dead_letter.and_then(|ours| ours.redrive_generation);
    Some(Metadata { redrive_generation: metadata.redrive_generation.max(generation), ..metadata })
}

/// Formats an attribute's value as text, with bytes in base64.
#[must_use]
pub fn format_value(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Text(text) => text.clone(),
        AttributeValue::Binary(bytes) => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.encode(bytes)
        }
    }
}

fn first_id<'a>(message: &'a ReceivedMessage, ours: Option<&'a DeadLetter>) -> &'a str {
    ours.map_or(&message.sqs_message_id, |ours| &ours.sqs_message_id)
}

/// Returns true for a fingerprint that matches the `DeadLetter` schema: 16 hexadecimal digits. Text from other writers
/// can have any length.
fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true if a text is nested more deeply than filters allow. jaq may parse even invalid JSON, so each of its
/// brackets counts.
pub(crate) fn is_nested_too_deeply(text: &str) -> bool {
    let levels = if is_json(text) {
        nesting_depth(text)
    } else {
        text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count()
    };
    levels > FILTERED_LEVELS_MAX
}

/// Returns the nesting depth of JSON.
fn nesting_depth(json: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let (mut in_string, mut bytes) = (false, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if in_string => drop(bytes.next()),
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            _ => continue,
        }
        most = most.max(open);
    }
    most
}

#[cfg(test)]
mod tests;

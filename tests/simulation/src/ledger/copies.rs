//! A copy of a message in a queue, with its attributes parsed according to the documentation rather than by the
//! product's code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content};
use redeliver_core::trace::SpanContext;
use serde_json::Value;

use super::arrivals::{self, ArrivalAttributes};
use super::body::{LedgerBody, RetryMembers};
use super::spans::span_context;
use super::{BrokenInvariant, QueuePlace};

const LAST_ATTEMPT: &str = "last_attempt_traceparent";

/// A present or past copy in a queue.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    /// The SQS message id; empty before the copy is in a queue.
    pub(crate) id: String,
    pub(crate) body_hash: u64,
    /// `None` if the body is not a message.
    pub(crate) retries: Option<RetryMembers>,
    pub(crate) attributes: Attributes,
    failure: Option<StatedFailure>,
    /// True if the copy was moved back from the final DLQ unchanged.
    pub(crate) came_back: bool,
    /// The generation in the copy's final record.
    pub(crate) recorded_generation: Option<u32>,
    /// The last attempt in the copy's final record.
    pub(crate) recorded_attempt: Option<SpanContext>,
    /// The last attempt in the copy's metadata.
    written_attempt: Option<SpanContext>,
    pub(crate) sent_at: DateTime<Utc>,
    pub(crate) receives: u32,
    pub(crate) first_received: Option<DateTime<Utc>>,
    /// Number of receives before the end of the faults.
    pub(crate) receives_in_faults: u32,
    /// True once the copy has been received from the intermediate DLQ.
    pub(crate) is_case: bool,
    /// True if SQS's redrive moved the copy.
    pub(crate) redriven: bool,
}

impl Copy {
    pub(crate) fn new(
        content: &Content,
        body_hash: u64,
        body: Option<&LedgerBody>,
        at: DateTime<Utc>,
    ) -> Self {
        let milliseconds = at.timestamp_millis();
        let ArrivalAttributes { record, .. } = arrivals::read_arrival(&content.attributes);
        Self {
            id: String::new(),
            body_hash,
            retries: body.map(|body| body.retries.clone()),
            attributes: content.attributes.clone(),
            failure: StatedFailure::from_attributes(&content.attributes),
            came_back: record.is_some(),
            recorded_generation: record
                .as_ref()
                .and_then(|record| parse_number(&record["redrive_generation"])),
            recorded_attempt: record.and_then(|record| span_context(record[LAST_ATTEMPT].as_str()?)),
            written_attempt: body.and_then(|body| body.last_attempt),
            sent_at: DateTime::from_timestamp_millis(milliseconds).unwrap_or(at),
            receives: 0,
            first_received: None,
            receives_in_faults: 0,
            is_case: false,
            redriven: false,
        }
    }

    /// Returns the `Failure`, which is trusted unless SQS's redrive moved the message.
    pub(crate) fn trusted_failure(&self) -> Option<&StatedFailure> {
        self.failure.as_ref().filter(|_| !self.redriven)
    }

    /// Returns the last attempt before this copy, as it must appear to a receiver in this queue.
    pub(crate) fn last_attempt(&self, place: QueuePlace) -> Option<SpanContext> {
        let failure = self.trusted_failure().filter(|_| place != QueuePlace::Source);
        let failed = failure.and_then(|failure| span_context(failure.text_member(LAST_ATTEMPT)));
        failed.or(self.recorded_attempt).or(self.written_attempt)
    }
}

/// An outage as reported by a message or a hand-off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StatedOutage {
    pub(crate) since: DateTime<Utc>,
    /// Number of consecutive failures of messages on their first call.
    pub(crate) first_failures: u32,
}

/// The `Failure` document.
#[derive(Clone, Debug)]
pub(crate) struct StatedFailure(Value);

impl StatedFailure {
    pub(crate) fn from_attributes(attributes: &Attributes) -> Option<Self> {
        parse_document(attributes, "Failure").map(Self)
    }

    pub(crate) fn text_member(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or("")
    }

    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.0["retry_after_seconds"].as_u64()
    }

    pub(crate) fn starts_new_generation(&self) -> bool {
        self.0["new_generation"] == true
    }

    /// Returns true if the message was not sent by redeliver.
    pub(crate) fn is_from_producer(&self) -> bool {
        self.0["from_producer"] == true
    }

    pub(crate) fn generation_before(&self) -> Option<u32> {
        parse_number(&self.0["generation_before"])
    }

    /// Checks that the document is at most 1 KiB before folding, and that it is truncated only if the message leaves
    /// no room.
    pub(crate) fn check_size(&self, oversize: bool) -> Result<(), BrokenInvariant> {
        let bytes = bytes_before_folding(&self.0);
        if bytes > 1024 {
            return Err(format!("`Failure` has {bytes} bytes"));
        }
        let cut = ["details", "explanation"].iter().any(|name| self.text_member(name).ends_with('…'));
        if cut && !oversize { Err("`Failure` was cut though there is room".to_owned()) } else { Ok(()) }
    }

    pub(crate) fn first_sent_time(&self) -> Option<DateTime<Utc>> {
        self.time_member("first_sent_time")
    }

    pub(crate) fn time_member(&self, name: &str) -> Option<DateTime<Utc>> {
        DateTime::parse_from_rfc3339(self.text_member(name)).ok().map(|time| time.to_utc())
    }

    /// Returns the outage for which the message is held.
    pub(crate) fn reported_outage(&self) -> Option<StatedOutage> {
        let since = self.time_member("held_since")?;
        Some(StatedOutage { since, first_failures: parse_number(&self.0["outage_failures"]).unwrap_or(0) })
    }

    pub(crate) fn attempt_count(&self) -> Option<u32> {
        parse_number(&self.0["attempts"])
    }
}

fn parse_number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

/// Returns the size of one of redeliver's documents without the producer's folded attributes.
pub(crate) fn bytes_before_folding(document: &Value) -> usize {
    let mut document = document.clone();
    document.as_object_mut().map(|members| members.remove("folded_attributes"));
    document.to_string().len()
}

/// Parses an attribute of type String that contains a JSON object.
pub(crate) fn parse_document(attributes: &Attributes, name: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(attributes.get(name)?.text()?).ok()?;
    value.is_object().then_some(value)
}

/// Returns the producer's attributes: without redeliver's, and with those that are folded into the document `name`.
pub(crate) fn producer_attributes(attributes: &Attributes, name: &str) -> Attributes {
    let Some(document) = parse_document(attributes, name) else {
        return attributes.clone();
    };
    let ours: &[&str] =
        if name == "DeadLetter" { &["DeadLetter", "ErrorType", "ErrorDetails"] } else { &["Failure"] };
    let mut whole = attributes.clone();
    whole.retain(|name, _| !ours.contains(&name.as_str()));
    for (name, folded) in document["folded_attributes"].as_object().into_iter().flatten() {
        let value = match (folded["text"].as_str(), folded["base64"].as_str()) {
            (Some(text), _) => AttributeValue::Text(text.to_owned()),
            (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).unwrap_or_default()),
            (None, None) => continue,
        };
        let data_type = folded["data_type"].as_str().unwrap_or("").to_owned();
        whole.insert(name.clone(), Attribute { data_type, value });
    }
    whole
}

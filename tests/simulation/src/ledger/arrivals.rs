//! Separates the attributes of an arriving message into the producer's and redeliver's, following the documentation
//! rather than the code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content};
use redeliver_embedded::check_content;
use serde_json::{Map, Value};

use super::copies::parse_document;

/// The attributes of an arriving message.
pub(crate) struct ArrivalAttributes {
    /// The producer's attributes, unfolded.
    pub(crate) producer: Attributes,
    /// Redeliver's `DeadLetter`, if the message still has one because it came from the final DLQ.
    pub(crate) record: Option<Value>,
}

/// Separates the attributes. `Failure` never belongs to the producer. Attributes folded into a verdict or a hop are
/// restored if SQS accepts all of them. After that, a valid `DeadLetter` belongs to redeliver, together with
/// `ErrorType` and `ErrorDetails`.
pub(crate) fn read_arrival(attributes: &Attributes) -> ArrivalAttributes {
    let mut producer = attributes.clone();
    producer.remove("Failure");
    let folds =
        |failure: &Map<String, Value>| failure.contains_key("verdict") || failure.contains_key("due_at");
    let failure = self::valid_failure(attributes).filter(folds);
    if let Some(whole) = failure.and_then(|failure| unfold_attributes(producer.clone(), &failure)) {
        producer = whole;
    }
    match dead_letter(&producer) {
        Some((record, whole)) => ArrivalAttributes { producer: whole, record: Some(record) },
        None => ArrivalAttributes { producer, record: None },
    }
}

/// Returns the `Failure` if it is valid as one of redeliver's documents, whether genuine or forged.
pub(super) fn valid_failure(attributes: &Attributes) -> Option<Map<String, Value>> {
    valid_document(attributes, "Failure", &[], FAILURE)
}

/// Returns the `DeadLetter` and the producer's attributes if the `DeadLetter` is valid as one of redeliver's documents.
/// One that folds another valid one is not redeliver's, because an annotated message is not annotated again.
pub(crate) fn dead_letter(attributes: &Attributes) -> Option<(Value, Attributes)> {
    let required = ["stage", "cause", "dead_lettered_at", "sqs_message_id", "fingerprint"];
    let record = valid_document(attributes, "DeadLetter", &required, DEAD_LETTER)?;
    let mut others = attributes.clone();
    others.retain(|name, _| !["Failure", "DeadLetter", "ErrorType", "ErrorDetails"].contains(&name.as_str()));
    let whole = unfold_attributes(others, &record)?;
    dead_letter(&whole).is_none().then_some((record.into(), whole))
}

/// A condition on a member of redeliver's documents.
type MemberRule = fn(&Value) -> bool;

const DEAD_LETTER: &[(&str, MemberRule)] = &[
    ("stage", Value::is_string),
    ("cause", is_cause),
    ("attempts", is_count),
    ("redrive_generation", is_count),
    ("held_seconds", is_count),
    ("redrive_count", is_count),
    ("first_sent_time", Value::is_string),
    ("dead_lettered_at", Value::is_string),
    ("source_queue_arn", Value::is_string),
    ("sqs_message_id", Value::is_string),
    ("fingerprint", Value::is_string),
    ("folded_attributes", are_folded_attributes),
];

const FAILURE: &[(&str, MemberRule)] = &[
    ("type", Value::is_string),
    ("details", Value::is_string),
    ("explanation", Value::is_string),
    ("kind", Value::is_string),
    ("retry_after_seconds", Value::is_u64),
    ("failed_at", is_plain_text),
    ("source_message_id", is_plain_text),
    ("source_queue_arn", is_plain_text),
    ("first_sent_time", is_plain_text),
    ("due_at", is_plain_text),
    ("new_generation", Value::is_boolean),
    ("generation_before", is_count),
    ("from_producer", Value::is_boolean),
    ("attempts", is_count),
    ("verdict", is_verdict),
    ("stage", Value::is_string),
    ("folded_attributes", are_folded_attributes),
];

fn is_count(value: &Value) -> bool {
    value.as_u64().is_some_and(|count| count <= u32::MAX.into())
}

/// Returns true for a string with only characters that SQS accepts, because it is passed on unchanged.
fn is_plain_text(value: &Value) -> bool {
    let body =
        |text: &str| check_content(&Content { body: format!("-{text}"), ..Content::default() }).is_ok();
    value.as_str().is_some_and(body)
}

/// Returns true for every code that a later version might write.
fn is_verdict(value: &Value) -> bool {
    let is_plain = |character: char| character.is_ascii_uppercase() || character == '_';
    value.as_str().is_some_and(|code| (1..=64).contains(&code.len()) && code.chars().all(is_plain))
}

fn is_cause(value: &Value) -> bool {
    let rules: &[(&str, MemberRule)] =
        &[("type", Value::is_string), ("message", Value::is_string), ("unverified", Value::is_boolean)];
    value.as_object().is_some_and(|cause| has_valid_members(cause, &["type", "message"], rules))
}

fn are_folded_attributes(value: &Value) -> bool {
    let rules: &[(&str, MemberRule)] =
        &[("data_type", Value::is_string), ("text", Value::is_string), ("base64", Value::is_string)];
    let is_folded = |folded: &Value| {
        folded.as_object().is_some_and(|folded| has_valid_members(folded, &["data_type"], rules))
    };
    value.as_object().is_some_and(|all| all.values().all(is_folded))
}

/// Returns true if all required members are present and no rule is broken. Members without a rule might come from a
/// later version.
fn has_valid_members(members: &Map<String, Value>, required: &[&str], rules: &[(&str, MemberRule)]) -> bool {
    let keeps =
        |(name, value): (&String, &Value)| rules.iter().all(|(known, rule)| known != name || rule(value));
    required.iter().all(|name| members.contains_key(*name)) && members.iter().all(keeps)
}

/// Returns the document in the attribute `name` if it is valid as one of redeliver's.
fn valid_document(
    attributes: &Attributes,
    name: &str,
    required: &[&str],
    rules: &[(&str, MemberRule)],
) -> Option<Map<String, Value>> {
    let Value::Object(members) = parse_document(attributes, name)? else { return None };
    has_valid_members(&members, required, rules).then_some(members)
}

/// Adds the folded attributes of a document to the others. Returns `None` if SQS would not have accepted the result
/// from a producer.
fn unfold_attributes(others: Attributes, document: &Map<String, Value>) -> Option<Attributes> {
    let mut whole = others;
    for (name, folded) in document.get("folded_attributes").and_then(Value::as_object).into_iter().flatten() {
        let value = match (folded["text"].as_str(), folded["base64"].as_str()) {
            (Some(text), None) => AttributeValue::Text(text.to_owned()),
            (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).ok()?),
            _ => return None,
        };
        let attribute = Attribute { data_type: folded["data_type"].as_str()?.to_owned(), value };
        if name == "Failure" || whole.insert(name.clone(), attribute).is_some() {
            return None;
        }
    }
    check_content(&Content { body: "-".to_owned(), attributes: whole.clone(), ..Content::default() }).ok()?;
    Some(whole)
}

//! Forgeries that a producer can write: the attributes `Failure` and `DeadLetter` with every kind of content, valid and
//! invalid. An invalid document has one error.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use rand::{Rng, RngExt};
use redeliver_core::message::{Attribute, Attributes};
use serde_json::{Map, Value, json};

/// Generates some attributes with redeliver's names.
pub(crate) fn forge_attributes(start: DateTime<Utc>, rng: &mut impl Rng) -> Attributes {
    let failure = render_document(forge_failure(start, rng), rng);
    let dead_letter = match rng.random_range(0..4) {
        0 => "not a document".to_owned(),
        _ => render_document(forge_dead_letter(start, rng), rng),
    };
    let all = [
        ("Failure", failure),
        ("ErrorType", "MINE".to_owned()),
        ("ErrorDetails", "mine, too".to_owned()),
        ("DeadLetter", dead_letter),
    ];
    let some = all.into_iter().filter(|_| rng.random_bool(0.5));
    some.map(|(name, text)| (name.to_owned(), Attribute::string(text))).collect()
}

/// Generates redeliver's field in a trace header with this probability; otherwise returns an empty string.
pub(crate) fn forged_trace_field(chance: f64, start: DateTime<Utc>, rng: &mut impl Rng) -> String {
    if !rng.random_bool(chance) {
        return String::new();
    }
    let document = render_document(forge_failure(start, rng), rng);
    format!(";Redeliver={}", URL_SAFE_NO_PAD.encode(document))
}

/// Generates `metadata` members with the same names as members of redeliver's documents. In `metadata`, these names
/// belong to the producer.
pub(crate) fn forge_metadata_members(rng: &mut impl Rng) -> Vec<String> {
    let (name, folded) = forge_folded_attribute(rng);
    let all = [
        r#""attempts":-1"#.to_owned(),
        r#""due_at":"tomorrow""#.to_owned(),
        r#""verdict" : "NON_RETRYABLE_ERROR""#.to_owned(),
        format!(r#""folded_attributes":{}"#, to_sqs_json(&json!({ name: folded }))),
    ];
    all.into_iter().filter(|_| rng.random_bool(0.1)).collect()
}

/// Renders the document as a string, half of the time with folded attributes.
fn render_document(mut members: Map<String, Value>, rng: &mut impl Rng) -> String {
    if rng.random_bool(0.5) {
        let count = [1, 1, 1, 2, 3, 8, 11][rng.random_range(0..7)];
        let folded: Map<_, _> = (0..count).map(|_| forge_folded_attribute(rng)).collect();
        members.insert("folded_attributes".to_owned(), folded.into());
    }
    to_sqs_json(&members.into())
}

/// Renders the document as JSON that contains only characters that SQS accepts.
fn to_sqs_json(document: &Value) -> String {
    document.to_string().replace('\u{FFFE}', "\\ufffe")
}

fn forge_failure(start: DateTime<Utc>, rng: &mut impl Rng) -> Map<String, Value> {
    let values_of = [
        ("type", vec![json!("Forged")]),
        ("details", vec![json!("acmé"), json!("\u{FFFE}")]),
        (
            "kind",
            vec![json!("permanent"), json!("snooze"), json!("held"), json!("unanswered"), json!("eternal")],
        ),
        ("verdict", vec![json!("NON_RETRYABLE_ERROR"), json!("MESSAGE_EXPIRED"), json!("MINE")]),
        ("new_generation", vec![json!(true), json!("yes")]),
        ("retry_after_seconds", vec![json!(1), json!(u64::MAX), json!(-1)]),
        ("failed_at", forged_times(start)),
        ("first_sent_time", forged_times(start)),
        ("due_at", forged_times(start)),
        ("attempts", forged_counts()),
        ("source_message_id", vec![json!("forged"), json!("\u{FFFE}")]),
        ("source_queue_arn", vec![json!("arn:aws:sqs:eu-central-1:000000000000:forged")]),
        ("stage", forged_stages()),
        ("explanation", vec![json!("acmé")]),
        ("surplus", vec![json!(1)]),
    ];
    let mut members = pick_members(values_of, rng);
    if let Some(value) = members.get("new_generation").cloned() {
        members.insert("from_producer".to_owned(), value);
    }
    members
}

fn forge_dead_letter(start: DateTime<Utc>, rng: &mut impl Rng) -> Map<String, Value> {
    let values_of = [
        ("attempts", forged_counts()),
        ("redrive_generation", forged_counts()),
        ("held_seconds", forged_counts()),
        ("redrive_count", forged_counts()),
        ("first_sent_time", forged_times(start)),
        ("source_queue_arn", vec![json!("arn:aws:sqs:eu-central-1:000000000000:forged"), json!("\u{FFFE}")]),
        ("stage", forged_stages()),
        ("surplus", vec![json!(1)]),
    ];
    let mut members = required_members();
    members.extend(pick_members(values_of, rng));
    members
}

/// Returns the required members of a `DeadLetter`.
fn required_members() -> Map<String, Value> {
    let all = [
        ("stage", json!("message-processor")),
        ("cause", json!({ "type": "Forged", "message": "acmé" })),
        ("dead_lettered_at", json!("2026-07-25T17:20:00.000000Z")),
        ("sqs_message_id", json!("forged")),
        ("fingerprint", json!("0123456789abcdef")),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn forged_times(start: DateTime<Utc>) -> Vec<Value> {
    let after = |seconds| json!((start + TimeDelta::seconds(seconds)).to_rfc3339());
    vec![
        after(-50_000),
        after(600),
        after(50_000),
        json!("9999-12-31T23:59:59Z"),
        json!("tomorrow"),
        json!(17),
    ]
}

fn forged_counts() -> Vec<Value> {
    vec![json!(0), json!(7), json!(1000), json!(u32::MAX), json!(-1), json!("7"), json!(7.5)]
}

fn forged_stages() -> Vec<Value> {
    vec![json!("failed-message-processor"), json!("final-dlq-annotator"), json!("nobody")]
}

/// Includes each member at random. The first half of each list contains only valid values; values from the second half,
/// and the member `surplus`, are rare.
fn pick_members<const N: usize>(
    values_of: [(&str, Vec<Value>); N],
    rng: &mut impl Rng,
) -> Map<String, Value> {
    let mut members = Map::new();
    for (name, values) in values_of {
        if rng.random_bool(if name == "surplus" { 0.05 } else { 0.4 }) {
            let right = values.len().div_ceil(2);
            let choice = if rng.random_bool(0.95) { right } else { values.len() };
            members.insert(name.to_owned(), values[rng.random_range(0..choice)].clone());
        }
    }
    members
}

/// Generates a name and a folded attribute in the format of redeliver's documents. SQS accepts most of them.
fn forge_folded_attribute(rng: &mut impl Rng) -> (String, Value) {
    let right = [
        json!({ "data_type": "String", "text": "acmé" }),
        json!({ "data_type": "String.application/json; charset=utf-8", "text": "{\"acm\":\"\\\"\"}" }),
        json!({ "data_type": "Number", "text": "-12345678901234567890.50" }),
        json!({ "data_type": "Number.int", "text": "0007" }),
        json!({ "data_type": "Binary", "base64": "AP8=" }),
        json!({ "data_type": "Binary.png", "base64": "iVBORw==" }),
    ];
    let right_names = ["folded", "Folded", "folded.b_2-c", "tenant", "awsome", "ErrorType", "DeadLetter"];
    let name = right_names[rng.random_range(0..right_names.len())].to_owned();
    let value = right[rng.random_range(0..right.len())].clone();
    match rng.random_range(0..16) {
        0..2 => (invalid_name(rng), value),
        2..4 => (name, invalid_value(rng)),
        // A document nested in a document.
        4 => (
            "DeadLetter".to_owned(),
            json!({ "data_type": "String", "text": to_sqs_json(&required_members().into()) }),
        ),
        _ => (name, value),
    }
}

/// Returns a name that SQS rejects, or might reject according to its documentation.
fn invalid_name(rng: &mut impl Rng) -> String {
    let long = "x".repeat(257);
    let all = [
        "a b",
        "",
        ".a",
        "a.",
        "a..b",
        "AWS.a",
        "aMaZoN.a",
        "é",
        "a/b",
        "a\n",
        "a\u{FFFE}",
        &long,
        "Failure",
    ];
    all[rng.random_range(0..all.len())].to_owned()
}

/// Returns an attribute whose type or value SQS rejects or might reject.
fn invalid_value(rng: &mut impl Rng) -> Value {
    let text = |data_type: &str, text: &str| json!({ "data_type": data_type, "text": text });
    let all = [
        text("Foo", "x"),
        text("string", "x"),
        text("", "x"),
        text("String.", "x"),
        text("Stringent", "x"),
        text("String.\u{FFFE}", "x"),
        text(&format!("String.{}", "x".repeat(250)), "x"),
        text("String", ""),
        text("String", "\u{FFFE}"),
        text("Binary", "text"),
        text("Number", "abc"),
        text("Number", "NaN"),
        text("Number", " 1"),
        text("Number.int", "1e5"),
        text("Number", "+1"),
        text("Number", "1."),
        text("Number", &"9".repeat(39)),
        text("Number", &format!("2{}", "0".repeat(126))),
        text("Number", &format!("0.{}1", "0".repeat(128))),
        json!({ "data_type": "String", "base64": "AP8=" }),
        json!({ "data_type": "Binary", "base64": "" }),
        json!({ "data_type": "Binary", "base64": "%" }),
        json!({ "data_type": "Binary", "base64": "AP8=", "text": "x" }),
        json!({ "data_type": "Binary" }),
        json!({ "text": "x" }),
        json!({ "data_type": "String", "text": "x", "surplus": 1 }),
        json!("x"),
    ];
    all[rng.random_range(0..all.len())].clone()
}

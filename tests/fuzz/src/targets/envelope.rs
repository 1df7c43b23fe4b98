//! The message body: the parser accepts exactly the valid bodies, and a splice changes only our members.

use redeliver_core::failure::DlqReturn;
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::json::pointer::Pointer;
use redeliver_core::message::envelope::{Envelope, MalformedBody};
use redeliver_core::message::metadata::{Holds, OUR_MEMBERS, PastFailure, RetryMetadata, parse_rfc3339};
use redeliver_core::message::plain::{IdSources, PlainMessages, REDELIVER};
use redeliver_core::message::schema::{InvalidMessage, MessageSchema, ParsedMessage, RewrittenPart};
use redeliver_core::message::{Attribute, Attributes};
use redeliver_core::trace::SpanContext;
use serde_json::value::RawValue;

use crate::json::{self, JsonNode, JsonRefusal, NodeKind};
use crate::messages::{ID, fixed_now, schema};

/// Checks the input as a body, as a value in `data`, and as members of `metadata`.
pub(super) fn check(input: &str) {
    check_body(input);
    check_body(&format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"case":{input}}},"own":{input}}}"#));
    check_body(&format!(r#"{{"data":{{}}, "metadata" : {{ "own":{input} ,"message_id":"{ID}"}} }}"#));
    check_body(&format!(r#"{{"metadata":{{{input}}},"data":{{}}}}"#));
}

fn check_body(body: &str) {
    check_plain(body);
    let node = json::parse_json(body);
    // Two independent parsers agree on the JSON grammar (`RawValue` checks nothing else), except for the depth.
    if node != Err(JsonRefusal::TooDeep) {
        let raw = serde_json::from_str::<&RawValue>(body);
        assert_eq!(node.is_ok(), raw.is_ok(), "the JSON parsers disagree: {body:?}");
    }
    match (schema().parse_envelope(body), expected_verdict(body, &node)) {
        (Ok(envelope), EnvelopeVerdict::Valid | EnvelopeVerdict::Either) => {
            let node = node.expect("a valid body is JSON");
            check_metadata(body, &node, &envelope);
            check_splices(body, &node, &envelope);
        }
        (Err(InvalidMessage::Schema(violations)), EnvelopeVerdict::Invalid | EnvelopeVerdict::Either) => {
            assert!(!violations.is_empty());
            assert!(violations.iter().all(|violation| {
                violation.pointer.starts_with("/metadata") || violation.pointer.starts_with("/data")
            }));
        }
        (Err(invalid @ InvalidMessage::Format(_)), EnvelopeVerdict::Malformed) => {
            assert_eq!(invalid.reason(), DeadLetterReason::InvalidMessageFormat);
            check_format_error(&node, &invalid);
        }
        (found, expected) => panic!("{expected:?} was expected, not {found:?}: {body:?}"),
    }
}

/// Checks the parser with plain messages enabled: the same bodies are accepted as envelopes, and a plain message that
/// was re-sent is read back unchanged. Also checks the input as the content of `Redeliver`.
fn check_plain(body: &str) {
    let first_id = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";
    let pointer = Some(Pointer::new("/data/case").expect("the pointer is valid"));
    let id = IdSources { attribute: None, pointer };
    let optional = schema().clone().with_plain(PlainMessages { id, body: None });
    match optional.read_message(body, &Attributes::new(), first_id) {
        Ok(ParsedMessage::Envelope(_)) => assert!(schema().parse_envelope(body).is_ok(), "{body:?}"),
        Ok(ParsedMessage::Plain(plain)) => {
            assert!(schema().parse_envelope(body).is_err(), "plain and an envelope: {body:?}");
            let Some(named) = plain.with_id() else { return };
            let Ok(ParsedMessage::Plain(again)) = optional.read_message(body, &named, first_id) else {
                panic!("not plain any more: {body:?}")
            };
            assert_eq!(again.metadata(), plain.metadata(), "{body:?}");
            assert_eq!(again.form(), plain.form(), "{body:?}");
            assert!(again.attributes.is_empty(), "{body:?}");
        }
        Err(_) => assert!(schema().parse_envelope(body).is_err(), "{body:?}"),
    }
    let attributes = Attributes::from([(REDELIVER.to_owned(), Attribute::string(body))]);
    if let Ok(parsed) = optional.read_message("x", &attributes, first_id) {
        let Some(RewrittenPart::Attributes(next)) = parsed.with_next_generation(DlqReturn::default()) else {
            return;
        };
        let again = optional
            .read_message("x", &next, first_id)
            .unwrap_or_else(|invalid| panic!("{invalid}: {body:?}"));
        assert_eq!(again.metadata().message_id, parsed.metadata().message_id, "{body:?}");
        assert_eq!(again.metadata().retry_attempt, 0, "{body:?}");
    }
}

/// The expected result for a body.
#[derive(Debug, PartialEq)]
enum EnvelopeVerdict {
    Valid,
    /// Valid or invalid, depending on details that this oracle does not decide: unusual time formats, or duplicate
    /// names or escapes in a history entry.
    Either,
    Invalid,
    Malformed,
}

fn expected_verdict(body: &str, node: &Result<JsonNode, JsonRefusal>) -> EnvelopeVerdict {
    let Ok(node) = node else { return EnvelopeVerdict::Malformed };
    let metadata = node.member("metadata").map(|member| &member.value);
    if node.members().is_none() || node.has_duplicate() || metadata.is_some_and(JsonNode::has_duplicate) {
        return EnvelopeVerdict::Malformed;
    }
    let (Some(metadata), Some(data)) = (metadata, node.member("data")) else {
        return EnvelopeVerdict::Invalid;
    };
    if metadata.members().is_none() || data.value.members().is_none() {
        return EnvelopeVerdict::Invalid;
    }
    let id = metadata.member("message_id").and_then(|member| member.value.string());
    if !id.is_some_and(|id| is_hyphenated_uuid(&id)) {
        return EnvelopeVerdict::Invalid;
    }
    let value = |name: &str| metadata.member(name).map(|member| &member.value);
    for (name, most) in [
        ("max_attempts", 1000),
        ("retry_attempt", 1000),
        ("snooze_count", 100),
        ("redrive_generation", 100),
        ("outage_failures", 65_535),
        ("held_seconds", 1_210_500),
        ("redrive_count", 1000),
        ("redrive_count_at_answer", 1000),
    ] {
        if value(name).is_some_and(|value| parse_digits(body, value).is_none_or(|number| number > most)) {
            return EnvelopeVerdict::Invalid;
        }
    }
    if value("retry_history").is_some_and(|history| array_items(history).iter().any(JsonNode::has_duplicate))
    {
        return EnvelopeVerdict::Either;
    }
    if value("retry_history").is_some_and(|history| !is_history(history)) {
        return EnvelopeVerdict::Invalid;
    }
    // A later version can write any JSON into an entry, but invalid strings such as lone surrogates are refused.
    if value("retry_history").is_some_and(|history| {
        array_items(history).iter().any(has_extra_members) && body[history.at.clone()].contains("\\u")
    }) {
        return EnvelopeVerdict::Either;
    }
    let mut times: Vec<_> = ["expires_at", "first_sent_time", "next_retry_time", "held_since"]
        .into_iter()
        .filter_map(value)
        .collect();
    let history = value("retry_history").into_iter().flat_map(array_items);
    times.extend(history.filter_map(|entry| entry.member("failed_at")).map(|member| &member.value));
    let texts: Option<Vec<String>> = times.iter().map(|time| time.string()).collect();
    let Some(texts) = texts else { return EnvelopeVerdict::Invalid };
    if texts.iter().any(|text| parse_rfc3339(text).is_none()) {
        return EnvelopeVerdict::Invalid;
    }
    let plain = |text: &String| text.len() == 20 && text.ends_with('Z') && text.is_ascii();
    let numbers = value("retry_history").is_none_or(|history| {
        let mut attempts = array_items(history).iter().filter_map(|entry| entry.member("attempt"));
        attempts.all(|attempt| parse_digits(body, &attempt.value).is_some_and(|number| number <= 1000))
    });
    if !numbers {
        return EnvelopeVerdict::Invalid;
    }
    if texts.iter().all(plain) { EnvelopeVerdict::Valid } else { EnvelopeVerdict::Either }
}

fn array_items(node: &JsonNode) -> &[JsonNode] {
    if let NodeKind::Array(items) = &node.kind { items } else { &[] }
}

/// The required members of each history entry.
const NAMES: [&str; 4] = ["attempt", "failed_at", "error_type", "error_details"];

/// Returns true if an entry has additional members.
fn has_extra_members(entry: &JsonNode) -> bool {
    entry.members().is_some_and(|members| members.len() > NAMES.len())
}

/// Returns true for a list of at most five entries with these four members.
fn is_history(node: &JsonNode) -> bool {
    let length = |entry: &JsonNode, name: &str| {
        entry.member(name).and_then(|member| member.value.string()).map(|text| text.chars().count())
    };
    matches!(node.kind, NodeKind::Array(_))
        && array_items(node).len() <= 5
        && array_items(node).iter().all(|entry| {
            let members = entry.members().unwrap_or_default();
            NAMES.iter().all(|name| members.iter().any(|member| member.has_name(name)))
                && length(entry, "error_type").is_some_and(|length| length <= 128)
                && length(entry, "error_details").is_some_and(|length| length <= 256)
        })
}

fn is_hyphenated_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn parse_digits(body: &str, node: &JsonNode) -> Option<u32> {
    let text = &body[node.at.clone()];
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().unwrap_or(u32::MAX))
}

/// Checks that the error names the violated rule.
fn check_format_error(node: &Result<JsonNode, JsonRefusal>, invalid: &InvalidMessage) {
    let InvalidMessage::Format(malformed) = invalid else { return };
    match (node, malformed) {
        (Ok(node), MalformedBody::NotAnObject) => assert!(node.members().is_none()),
        (Ok(node), MalformedBody::DuplicateMember(pointer)) => {
            let metadata = node.member("metadata").map(|member| &member.value);
            let inside = pointer.starts_with("/metadata/") && metadata.is_some_and(JsonNode::has_duplicate);
            assert!(inside || node.has_duplicate());
        }
        // `serde_json` reports a lone surrogate in a bare string before the missing object.
        (Ok(node), MalformedBody::NotJson(_)) if matches!(node.kind, NodeKind::String(_)) => {}
        (Ok(_), _) => panic!("{malformed}, but the body is JSON"),
        (Err(JsonRefusal::TooDeep), MalformedBody::TooDeep(_)) | (Err(JsonRefusal::Malformed), _) => {}
        (Err(JsonRefusal::TooDeep), _) => panic!("{malformed}, but the nesting is too deep"),
    }
}

/// Checks that the parsed `metadata` matches the body.
fn check_metadata(body: &str, node: &JsonNode, envelope: &Envelope<'_>) {
    let read = &envelope.metadata;
    let value = |name: &str| node.member("metadata").and_then(|metadata| metadata.value.member(name));
    let text = |name: &str| value(name).and_then(|member| member.value.string());
    let number = |name: &str| value(name).and_then(|member| parse_digits(body, &member.value));
    assert_eq!(Some(&read.message_id_text), text("message_id").as_ref());
    assert_eq!(read.message_id.to_string(), read.message_id_text.to_ascii_lowercase());
    assert_eq!(read.retry_attempt, number("retry_attempt").unwrap_or(0));
    assert_eq!(read.snooze_count, number("snooze_count").unwrap_or(0));
    assert_eq!(read.redrive_count, number("redrive_count").unwrap_or(0));
    assert_eq!(read.redrive_count_at_answer, number("redrive_count_at_answer").unwrap_or(0));
    let held_since = text("held_since").as_deref().and_then(parse_rfc3339);
    let failures = number("outage_failures").map_or(0, |count| count.try_into().expect("65535 at most"));
    assert_eq!(read.holds, Holds::from_members(held_since, failures, number("held_seconds").unwrap_or(0)));
    let span = text("last_attempt_traceparent").as_deref().and_then(SpanContext::from_traceparent);
    assert_eq!(read.last_attempt, span);
    assert_eq!(read.redrive_generation, number("redrive_generation"));
    assert_eq!(read.expires_at, text("expires_at").as_deref().and_then(parse_rfc3339));
    assert_eq!(read.first_sent_time, text("first_sent_time").as_deref().and_then(parse_rfc3339));
    let history = value("retry_history").map_or(0, |member| array_items(&member.value).len());
    assert_eq!(read.retry_history.len(), history);
    assert_eq!(envelope.body(), body);
}

const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn check_splices(body: &str, node: &JsonNode, envelope: &Envelope<'_>) {
    let generation = (envelope.metadata.redrive_generation.unwrap_or(0) + 1).min(100);
    let attempt = envelope.metadata.last_attempt.map(|span| format!("\"{}\"", span.traceparent()));
    let generation = Some(generation.to_string());
    let fresh = [None, None, None, None, None, generation, None, None, None, None, None, attempt];
    check_splice(body, node, &fresh, &envelope.with_next_generation(DlqReturn::default()));

    let full = RetryMetadata {
        retry_attempt: 1000,
        next_retry_time: fixed_now(),
        first_sent_time: fixed_now(),
        retry_history: vec![PastFailure::new(7, fixed_now(), "T", "a \"quoted\" text, with {} and ,")],
        snooze_count: 100,
        redrive_generation: Some(100),
        held_since: Some(fixed_now()),
        outage_failures: 65_535,
        held_seconds: 1000,
        redrive_count: 1000,
        redrive_count_at_answer: 999,
        last_attempt: SpanContext::from_traceparent(SPAN),
    };
    let time = Some("\"2026-07-25T17:20:00.000000Z\"".to_owned());
    let history = r#"[{"attempt":7,"failed_at":"2026-07-25T17:20:00.000000Z","error_type":"T","error_details":"a \"quoted\" text, with {} and ,"}]"#;
    let (most, hundred) = (Some("1000".to_owned()), Some("100".to_owned()));
    let ours = [
        most.clone(),
        time.clone(),
        time.clone(),
        Some(history.to_owned()),
        hundred.clone(),
        hundred,
        time.clone(),
        Some("65535".to_owned()),
        most.clone(),
        most,
        Some("999".to_owned()),
        Some(format!("\"{SPAN}\"")),
    ];
    check_splice(body, node, &ours, &envelope.with_retry_metadata(&full));
    let again = MessageSchema::parse_envelope(schema(), &envelope.with_retry_metadata(&full)).map(|again| {
        assert_eq!(again.metadata.retry_history, full.retry_history);
        again.with_retry_metadata(&full)
    });
    assert_eq!(again.as_ref(), Ok(&envelope.with_retry_metadata(&full)), "a second splice changes nothing");

    let least = RetryMetadata {
        retry_attempt: 0,
        retry_history: Vec::new(),
        snooze_count: 0,
        redrive_generation: None,
        held_since: None,
        outage_failures: 0,
        held_seconds: 0,
        redrive_count: 0,
        redrive_count_at_answer: 0,
        last_attempt: None,
        ..full
    };
    let ours =
        [Some("0".to_owned()), time.clone(), time, None, None, None, None, None, None, None, None, None];
    check_splice(body, node, &ours, &envelope.with_retry_metadata(&least));
}

/// Checks that the members in `ours`, in the order of [`OUR_MEMBERS`], keep their place or are appended, and that no
/// other byte differs.
fn check_splice(body: &str, node: &JsonNode, ours: &[Option<String>; OUR_MEMBERS.len()], spliced: &str) {
    let metadata = &node.member("metadata").expect("valid").value;
    let mut segments = Vec::new();
    for member in metadata.members().unwrap_or_default() {
        let (segment, value) = (member.segment.clone(), member.value.at.clone());
        match OUR_MEMBERS.iter().position(|name| member.has_name(name)) {
            None => segments.push(body[segment].to_owned()),
            Some(index) => segments.extend(ours[index].as_ref().map(|ours| {
                format!("{}{ours}{}", &body[segment.start..value.start], &body[value.end..segment.end])
            })),
        }
    }
    for (name, value) in OUR_MEMBERS.iter().zip(ours) {
        if let Some(value) = value.as_ref().filter(|_| metadata.member(name).is_none()) {
            segments.push(format!("\"{name}\":{value}"));
        }
    }
    let (before, after) = (&body[..metadata.at.start], &body[metadata.at.end..]);
    assert_eq!(spliced, format!("{before}{{{}}}{after}", segments.join(",")), "spliced into {body:?}");
    if let Err(invalid) = schema().parse_envelope(spliced) {
        panic!("{invalid} after splicing: {spliced:?}");
    }
}

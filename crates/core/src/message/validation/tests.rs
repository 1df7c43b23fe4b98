mod data;
mod message_id;

use super::*;
use crate::json::pointer::Pointer;
use crate::message::plain::{IdSources, PlainMessages};
use crate::message::reason::DeadLetterReason;
use crate::message::schema::{MessageSchema, ParsedMessage};
use crate::message::{Attributes, BodyForm};

const ID: &str = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";

/// Returns a body whose `metadata` has these members in addition to its id.
fn body_with_metadata(members: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{ID}",{members}}},"data":{{}}}}"#)
}

fn parse_invalid(body: &str) -> InvalidMessage {
    match MessageSchema::default().parse_envelope(body) {
        Err(invalid) => invalid,
        Ok(envelope) => panic!("{body} is accepted: {:?}", envelope.metadata),
    }
}

/// Returns the pointers of all violations, without duplicates.
fn unique_violation_pointers(body: &str) -> Vec<String> {
    match parse_invalid(body) {
        InvalidMessage::Schema(violations) => {
            let mut pointers: Vec<_> = violations.into_iter().map(|violation| violation.pointer).collect();
            pointers.sort();
            pointers.dedup();
            pointers
        }
        InvalidMessage::Format(malformed) => panic!("{body}: {malformed}"),
    }
}

#[test]
fn an_invalid_message_has_the_reason_code_for_its_violation() {
    assert_eq!(parse_invalid("{").reason(), DeadLetterReason::InvalidMessageFormat);
    assert_eq!(parse_invalid("[]").reason(), DeadLetterReason::InvalidMessageFormat);
    assert_eq!(parse_invalid(r#"{"a":1,"a":1}"#).reason(), DeadLetterReason::InvalidMessageFormat);
    assert_eq!(parse_invalid(&"[".repeat(129)).reason(), DeadLetterReason::InvalidMessageFormat);
    assert_eq!(parse_invalid("{}").reason(), DeadLetterReason::InvalidMessageSchema);
}

#[test]
fn every_member_with_a_rule_in_the_schema_is_read() {
    let schema: Value = serde_json::from_str(MESSAGE_SCHEMA).unwrap();
    let members = schema["properties"]["metadata"]["properties"].as_object().unwrap();
    let has_rule = |rules: &Value| rules.as_object().unwrap().keys().any(|name| name != "description");
    let mut ruled: Vec<_> =
        members.iter().filter(|(_, rules)| has_rule(rules)).map(|(name, _)| name).collect();
    let mut read = MEMBERS_WITH_RULES.to_vec();
    ruled.sort();
    read.sort_unstable();
    assert_eq!(ruled, read);
}

/// A producer's own text in this member must not make the message invalid, however the other members are written.
#[test]
fn a_last_attempt_that_is_not_a_traceparent_counts_as_absent() {
    let span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let quoted = format!("\"{span}\"");
    let upper = quoted.to_uppercase();
    for (value, expected) in [
        (quoted.as_str(), Some(span)),
        ("\"\\u00300-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"", Some(span)),
        (&upper, None),
        ("\"\\ud800\"", None),
        ("1e999", None),
        ("null", None),
        ("{}", None),
    ] {
        // A time with an offset is left to the schema. Otherwise, the fast path decides.
        for time in ["2026-07-25T17:20:00Z", "2026-07-25T19:20:00+02:00"] {
            let body = format!(
                r#"{{"metadata":{{"message_id":"{ID}","first_sent_time":"{time}","last_attempt_traceparent":{value}}},"data":{{}}}}"#
            );
            let metadata = MessageSchema::default().parse_envelope(&body).unwrap().metadata;
            let read = metadata.last_attempt.map(|span| span.traceparent());
            assert_eq!(read.as_deref(), expected, "{body}");
            let readable = read_message_metadata(&body, &Attributes::new()).unwrap();
            assert_eq!(readable.last_attempt, metadata.last_attempt, "{body}");
        }
    }
}

#[test]
fn a_message_needs_data_and_metadata_with_an_id() {
    assert_eq!(unique_violation_pointers("{}"), ["/data", "/metadata"]);
    assert_eq!(unique_violation_pointers(r#"{"metadata":{},"data":{}}"#), ["/metadata/message_id"]);
    assert_eq!(unique_violation_pointers(&format!(r#"{{"metadata":{{"message_id":"{ID}"}}}}"#)), ["/data"]);
    assert_eq!(parse_invalid(r#"{"metadata":{},"data":{}}"#).to_string(), "/metadata/message_id is missing");
}

/// Instead of quoting the schema, the violation describes the format to write.
#[test]
fn violations_for_ids_and_times_describe_the_format() {
    let violation_text = |member: &str, value: &str| {
        let id = format!(r#""message_id":"{ID}","#);
        let id = if member == "message_id" { "" } else { &id };
        parse_invalid(&format!(r#"{{"metadata":{{{id}"{member}":{value}}},"data":{{}}}}"#)).to_string()
    };
    for (id, form) in [
        (r#""01ARZ3NDEKTSV4RRFFQ69G5FAV""#, "is a ULID, not a hyphenated UUID"),
        (r#""0ujtsYcgvSTl8PAuAdqWYSMnLOv""#, "is a KSUID, not a hyphenated UUID"),
        (r#""507f1f77bcf86cd799439011""#, "is an ObjectId, not a hyphenated UUID"),
        (r#""6f1c0d3e8a554c8e9a3f2b1d7e5f9a01""#, "is a UUID without its hyphens"),
        (r#""order-5""#, "is not a hyphenated UUID"),
        (r#""""#, "is not a hyphenated UUID"),
        ("4711", "is a number, not a hyphenated UUID"),
    ] {
        let remedy = "write one, or set ENVELOPE=optional and MESSAGE_ID_POINTER=/metadata/message_id, which accept any id";
        assert_eq!(violation_text("message_id", id), format!("/metadata/message_id {form}: {remedy}"));
    }
    assert_eq!(violation_text("message_id", "null"), r#"/metadata/message_id is not of type "string""#);
    let naive = violation_text("expires_at", r#""2030-01-01T00:00:00""#);
    assert_eq!(naive, "/metadata/expires_at has no time zone: add Z or +00:00");
    for time in ["expires_at", "first_sent_time", "next_retry_time", "held_since"] {
        let expected = format!("/metadata/{time} is a number: write the time as 2030-01-01T00:00:00Z");
        assert_eq!(violation_text(time, "1893456000"), expected);
    }
}

/// A UUID shows that our envelope is intended. If other ids were refused as well, all messages of a producer with its
/// own id format would be dead-lettered.
#[test]
fn only_envelopes_with_a_uuid_are_refused_if_plain_messages_are_accepted() {
    let pointer = Pointer::new("/metadata/message_id").unwrap();
    let id = IdSources { attribute: None, pointer: Some(pointer) };
    let optional = MessageSchema::default().with_plain(PlainMessages { id, body: None });
    let read_form = |id: &str| {
        let body = format!(r#"{{"metadata":{{"message_id":{id},"expires_at":"never"}},"data":{{}}}}"#);
        optional.read_message(&body, &Attributes::new(), ID).map(|parsed| match parsed {
            ParsedMessage::Plain(plain) => plain.form(),
            ParsedMessage::Envelope(envelope) => panic!("{id}: {:?}", envelope.metadata),
        })
    };
    let key = |key: &str| Ok(BodyForm::Plain { idempotency_key: Some(key.to_owned()) });
    assert_eq!(read_form(r#""01ARZ3NDEKTSV4RRFFQ69G5FAV""#), key("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
    assert_eq!(read_form("4711"), key("4711"));
    assert_eq!(read_form("null"), Ok(BodyForm::Plain { idempotency_key: None }), "SQS's id");
    let escaped = ID.replacen('6', r"\u0036", 1);
    for uuid in [format!("\"{ID}\""), format!("\"{escaped}\"")] {
        assert!(read_form(&uuid).is_err(), "{uuid}");
    }
}

#[test]
fn metadata_and_data_are_objects() {
    for wrong in ["[]", "5", "\"canary\"", "true", "null", "-1e400"] {
        let invalid = format!(r#"{{"metadata":{wrong},"data":{{}}}}"#);
        assert_eq!(unique_violation_pointers(&invalid), ["/metadata"], "{wrong}");
        let invalid = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{wrong}}}"#);
        assert_eq!(unique_violation_pointers(&invalid), ["/data"], "{wrong}");
        assert!(!parse_invalid(&invalid).to_string().contains("canary"));
    }
}

#[test]
fn a_message_id_is_a_hyphenated_uuid_of_any_version() {
    let schema = MessageSchema::default();
    for id in [
        ID,
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        "0191f3a2-7b1c-7d3e-8f00-0123456789AB",
    ] {
        let body = format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{}}}}"#);
        let metadata = schema.parse_envelope(&body).unwrap().metadata;
        assert_eq!(metadata.message_id_text, id);
        assert_eq!(metadata.message_id, Uuid::parse_str(id).unwrap());
    }
    for wrong in [
        r#""6f1c0d3e8a554c8e9a3f2b1d7e5f9a01""#,
        r#""{6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01}""#,
        r#""urn:uuid:6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01""#,
        r#""6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a0""#,
        r#""6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01\n""#,
        r#""6f1c0d3g-8a55-4c8e-9a3f-2b1d7e5f9a01""#,
        r#""""#,
        r#""canary""#,
        r#""\ud800""#,
        "5",
        "1e999999999",
        "null",
        "{}",
        // A name reserved by `serde_json`: this is an object, not the text inside.
        r#"{"$serde_json::private::RawValue":"\"6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01\""}"#,
    ] {
        let body = format!(r#"{{"metadata":{{"message_id":{wrong}}},"data":{{}}}}"#);
        let invalid = parse_invalid(&body);
        assert!(!invalid.to_string().contains("canary"));
        assert!(
            unique_violation_pointers(&body).contains(&"/metadata/message_id".to_owned()),
            "{wrong}: {invalid}"
        );
    }
}

#[test]
fn counts_must_be_integers_written_in_digits_and_within_range() {
    for (name, max) in [("retry_attempt", 1000), ("redrive_generation", 100), ("snooze_count", 100)] {
        for right in ["0".to_owned(), "1".to_owned(), max.to_string()] {
            let body = body_with_metadata(&format!(r#""{name}":{right}"#));
            assert!(MessageSchema::default().parse_envelope(&body).is_ok(), "{name} {right}");
        }
        let above = (max + 1).to_string();
        for wrong in [
            "-1",
            "-0",
            "1.0",
            "1e2",
            "1E0",
            "0.5",
            "\"1\"",
            "null",
            "true",
            "[1]",
            "12345678901234567890",
            "1e400",
            "1e999999999",
            &above,
        ] {
            let body = body_with_metadata(&format!(r#""{name}":{wrong}"#));
            assert_eq!(unique_violation_pointers(&body), [format!("/metadata/{name}")], "{name} {wrong}");
        }
    }
}

#[test]
fn metadata_is_read_as_written() {
    let body = body_with_metadata(
        r#""retry_attempt":3,"first_sent_time":"2026-07-25T19:20:00.5+02:00","redrive_generation":2,"snooze_count":4,
           "expires_at":"2026-07-26T00:00:00Z","max_attempts":3,"retry_history":[{"attempt":2,"failed_at":"2026-07-25T17:21:00Z",
           "error_type":"HttpStatus.503","error_details":"d"}]"#,
    );
    let metadata = MessageSchema::default().parse_envelope(&body).unwrap().metadata;
    let time = |text| parse_rfc3339(text).unwrap();
    assert_eq!(
        metadata,
        Metadata {
            last_attempt: None,
            message_id: Uuid::parse_str(ID).unwrap(),
            message_id_text: ID.to_owned(),
            retry_attempt: 3,
            first_sent_time: Some(time("2026-07-25T17:20:00.5Z")),
            retry_history: vec![PastFailure::new(2, time("2026-07-25T17:21:00Z"), "HttpStatus.503", "d")]
                .into_iter()
                .map(|past| PastFailure { failed_at: "2026-07-25T17:21:00Z".to_owned(), ..past })
                .collect(),
            snooze_count: 4,
            redrive_generation: Some(2),
            holds: Holds::default(),
            redrive_count: 0,
            redrive_count_at_answer: 0,
            expires_at: Some(time("2026-07-26T00:00:00Z")),
            max_attempts: Some(3),
        }
    );
}

#[test]
fn absent_members_have_their_defaults() {
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    let metadata = MessageSchema::default().parse_envelope(&body).unwrap().metadata;
    assert_eq!(metadata.retry_attempt, 0);
    assert_eq!(metadata.snooze_count, 0);
    assert_eq!(metadata.redrive_generation, None);
    assert_eq!(metadata.first_sent_time, None);
    assert_eq!(metadata.expires_at, None);
    assert!(metadata.retry_history.is_empty());
}

#[test]
fn times_are_rfc_3339() {
    for name in ["first_sent_time", "next_retry_time", "expires_at"] {
        for right in ["2026-07-25T17:20:00Z", "2026-07-25t17:20:00.123456789z", "2026-07-25T17:20:00-11:30"] {
            let body = body_with_metadata(&format!(r#""{name}":"{right}""#));
            assert!(MessageSchema::default().parse_envelope(&body).is_ok(), "{name} {right}");
        }
        for wrong in [
            "\"2026-07-25\"",
            "\"2026-07-25 17:20\"",
            "\"2026-07-25T17:20:00\"",
            "\"2026-02-30T17:20:00Z\"",
            "\"2026-07-25T25:20:00Z\"",
            "\"2026-07-25T17:20:00+24:00\"",
            // The validator accepts this, although it is not a time.
            "\"202--07-25T17:20:00Z\"",
            "\"canary\"",
            "\"\"",
            "1785000000",
            "null",
        ] {
            let body = body_with_metadata(&format!(r#""{name}":{wrong}"#));
            assert_eq!(unique_violation_pointers(&body), [format!("/metadata/{name}")], "{name} {wrong}");
            assert!(!parse_invalid(&body).to_string().contains("canary"));
        }
    }
}

/// A later version may add details to a failure, and a re-send preserves them.
#[test]
fn a_history_entry_keeps_unknown_members() {
    let known = r#""attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"T","error_details":"D""#;
    let unknown = r#""a":["\u00e9"],"n":1.50e400"#;
    let history = format!("[{{{known},{unknown}}}]");
    let body = body_with_metadata(&format!(r#""retry_history":{history}"#));
    let past = MessageSchema::default().parse_envelope(&body).unwrap().metadata.retry_history;
    assert_eq!(serde_json::to_string(&past).unwrap(), history);
}

#[test]
fn history_has_at_most_five_complete_entries() {
    let entry = r#"{"attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"T","error_details":"D"}"#;
    let history = |entries: &str| body_with_metadata(&format!(r#""retry_history":{entries}"#));
    let five = format!("[{}]", [entry; 5].join(","));
    assert!(MessageSchema::default().parse_envelope(&history(&five)).is_ok());
    let six = format!("[{}]", [entry; 6].join(","));
    assert_eq!(unique_violation_pointers(&history(&six)), ["/metadata/retry_history"]);
    for (wrong, pointer) in [
        ("{}", ""),
        (r#"{"$serde_json::private::RawValue":"[]"}"#, ""),
        (r#"{"\u0024serde_json::private::RawValue":"[]"}"#, ""),
        ("\"canary\"", ""),
        ("[5]", "/0"),
        (r#"[{"attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"T"}]"#, "/0/error_details"),
        (
            r#"[{"attempt":-1,"failed_at":"2026-07-25T17:20:00Z","error_type":"T","error_details":"D"}]"#,
            "/0/attempt",
        ),
        (r#"[{"attempt":0,"failed_at":"canary","error_type":"T","error_details":"D"}]"#, "/0/failed_at"),
        (
            r#"[{"attempt":0,"failed_at":"202--07-25T17:20:00Z","error_type":"T","error_details":"D"}]"#,
            "/0/failed_at",
        ),
    ] {
        let body = history(wrong);
        assert_eq!(
            unique_violation_pointers(&body),
            [format!("/metadata/retry_history{pointer}")],
            "{wrong}"
        );
        assert!(!parse_invalid(&body).to_string().contains("canary"), "{wrong}");
    }
}

#[test]
fn a_history_attempt_not_written_in_digits_is_reported() {
    for attempt in ["0.5", "1.0", "1e2", "1e400", "12345678901234567890"] {
        let body = body_with_metadata(&format!(
            r#""retry_history":[{{"attempt":{attempt},"failed_at":"2026-07-25T17:20:00Z","error_type":"T","error_details":"D"}}]"#
        ));
        assert_eq!(unique_violation_pointers(&body), ["/metadata/retry_history/0/attempt"], "{attempt}");
    }
}

#[test]
fn all_violations_are_reported_together() {
    let body = r#"{"metadata":{"message_id":"canary","retry_attempt":-1,"expires_at":"canary"},"data":[]}"#;
    assert_eq!(
        unique_violation_pointers(body),
        ["/data", "/metadata/expires_at", "/metadata/message_id", "/metadata/retry_attempt"]
    );
    assert!(!parse_invalid(body).to_string().contains("canary"));
}

#[test]
fn unknown_metadata_and_data_are_not_read_without_a_data_schema() {
    let wild = r#"{"n":1e999999999,"s":"\ud800","d":1,"d":2}"#;
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}","own":{wild}}},"data":{wild},"other":{wild}}}"#);
    assert_eq!(MessageSchema::default().parse_envelope(&body).unwrap().body(), body);
}

#[test]
fn a_body_of_1_mib_is_accepted() {
    let head = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"s":""#);
    let body = format!("{head}{}\"}}}}", "x".repeat(1_048_576 - head.len() - 3));
    assert_eq!(body.len(), 1_048_576);
    assert!(MessageSchema::default().parse_envelope(&body).is_ok());
}

#[test]
fn a_hostile_history_is_refused_quickly() {
    let entries = vec![r#"{"attempt":1e-9999}"#; 50_000].join(",");
    let body = body_with_metadata(&format!(r#""retry_history":[{entries}]"#));
    let InvalidMessage::Schema(violations) = parse_invalid(&body) else { panic!("must be valid JSON") };
    assert_eq!(violations.len(), 100);
    assert!(
        unique_violation_pointers(&body).contains(&"/metadata/retry_history".to_owned()),
        "the history is too long"
    );
}

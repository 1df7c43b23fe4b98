mod splicing;

use proptest::prelude::*;

use super::*;
use crate::message::metadata::PastFailure;
use crate::message::schema::{InvalidMessage, MessageSchema};
use crate::testing::at;

const ID: &str = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";

fn retry_metadata() -> RetryMetadata {
    RetryMetadata {
        last_attempt: None,
        retry_attempt: 3,
        next_retry_time: at(60),
        first_sent_time: at(0),
        retry_history: Vec::new(),
        snooze_count: 0,
        redrive_generation: None,
        held_since: None,
        outage_failures: 0,
        held_seconds: 0,
        redrive_count: 0,
        redrive_count_at_answer: 0,
    }
}

fn resend_body(body: &str, retry: &RetryMetadata) -> String {
    MessageSchema::default().parse_envelope(body).unwrap().with_retry_metadata(retry)
}

fn parse_malformed(body: &str) -> MalformedBody {
    match MessageSchema::default().parse_envelope(body) {
        Err(InvalidMessage::Format(malformed)) => malformed,
        other => panic!("{body} results in {other:?}"),
    }
}

#[test]
fn a_resend_adds_its_members_at_the_end_of_metadata() {
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    assert_eq!(
        resend_body(&body, &retry_metadata()),
        format!(
            r#"{{"metadata":{{"message_id":"{ID}","retry_attempt":3,"next_retry_time":"2026-07-25T17:21:00.000000Z","first_sent_time":"2026-07-25T17:20:00.000000Z"}},"data":{{}}}}"#
        )
    );
}

#[test]
fn a_resend_writes_times_as_utc_with_microseconds_and_z() {
    let body = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    let retry =
        RetryMetadata { next_retry_time: at(0) + chrono::TimeDelta::nanoseconds(1_999), ..retry_metadata() };
    assert!(resend_body(&body, &retry).contains(r#""next_retry_time":"2026-07-25T17:20:00.000001Z""#));
}

#[test]
fn a_resend_replaces_its_members_in_place() {
    let body = format!(
        "{{ \"metadata\" : {{ \"retry_attempt\" :\t2 , \"a\":1e400,\"first_sent_time\":\"2026-07-25T17:00:00Z\"\n, \"message_id\":\"{ID}\" }} ,\"data\":{{}} }}"
    );
    assert_eq!(
        resend_body(&body, &retry_metadata()),
        format!(
            "{{ \"metadata\" : {{ \"retry_attempt\" :\t3 , \"a\":1e400,\"first_sent_time\":\"2026-07-25T17:20:00.000000Z\"\n, \"message_id\":\"{ID}\" ,\"next_retry_time\":\"2026-07-25T17:21:00.000000Z\"}} ,\"data\":{{}} }}"
        )
    );
}

#[test]
fn a_resend_finds_its_members_under_escaped_names() {
    let body = format!(
        r#"{{"\u006detadata":{{"message\u005fid":"{ID}","\u0072etry_attempt":2}},"d\u0061ta":{{}}}}"#
    );
    let resent = resend_body(&body, &retry_metadata());
    assert!(resent.contains(r#""\u0072etry_attempt":3,"next_retry_time""#), "{resent}");
    assert_eq!(resent.matches("etry_attempt").count(), 1);
}

#[test]
fn a_new_generation_removes_all_traces_of_earlier_retries() {
    let body = format!(
        r#"{{"metadata":{{"retry_history":[],"message_id":"{ID}","snooze_count":4,"x":1,"retry_attempt":5}},"data":{{}}}}"#
    );
    let retry = RetryMetadata { redrive_generation: Some(1), ..retry_metadata() };
    assert_eq!(
        resend_body(&body, &retry),
        format!(
            r#"{{"metadata":{{"message_id":"{ID}","x":1,"retry_attempt":3,"next_retry_time":"2026-07-25T17:21:00.000000Z","first_sent_time":"2026-07-25T17:20:00.000000Z","redrive_generation":1}},"data":{{}}}}"#
        )
    );
}

#[test]
fn data_and_unknown_members_are_never_reserialized() {
    let data = r#"{"big":1e400,"id":12345678901234567890,"e":"\u00e9 é","lone":"\ud800","dup":1,"dup":2,"z":-0.0, "s":"a\/b" }"#;
    let body =
        format!(r#"{{"b":{data},"metadata":{{"message_id":"{ID}","b":{data}}},"data":{data},"a":{data}}}"#);
    let resent = resend_body(&body, &retry_metadata());
    assert_eq!(resent.matches(data).count(), 4, "{resent}");
}

#[test]
fn text_that_is_not_json_is_malformed() {
    for body in [
        "",
        " ",
        "hello",
        "{",
        "{}}",
        "{\"metadata\":}",
        "{'a':1}",
        "{\"a\":01}",
        "{\"a\":1,}",
        "{\"a\":\"\u{1}\"}",
        "\u{feff}{}",
        "NaN",
    ] {
        assert!(matches!(parse_malformed(body), MalformedBody::NotJson(_)), "{body:?}");
    }
}

#[test]
fn a_control_character_in_a_name_is_malformed_but_its_escape_is_not() {
    for raw in ['\n', '\t', '\r', '\u{7}', '\0'] {
        for escape in ["", "\\u00e9", "\\\""] {
            let top = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{}}, "a{escape}{raw}b" :1}}"#);
            let inside = format!(r#"{{"metadata":{{"message_id":"{ID}","{raw}{escape}" : 1}},"data":{{}}}}"#);
            let in_data = format!(r#"{{"metadata":{{"message_id":"{ID}"}},"data":{{"{raw}{escape}":1}}}}"#);
            for body in [top, inside, in_data] {
                assert!(matches!(parse_malformed(&body), MalformedBody::NotJson(_)), "{body:?}");
            }
        }
    }
    let escaped =
        format!(r#"{{"metadata":{{"message_id":"{ID}","a\n\u0007":1}},"data":{{}},\n"\u0000\t":1}}"#);
    let escaped = escaped.replacen(",\\n", ",\n\t", 1);
    assert!(MessageSchema::default().parse_envelope(&escaped).is_ok());
    let body = format!("{{\"metadata\":{{\"message_id\":\"{ID}\"}},\"a\tb\":1}}");
    assert_eq!(
        parse_malformed(&body).to_string(),
        "not JSON: control character (\\u0000-\\u001F) in a member's name at byte 68"
    );
}

#[test]
fn json_that_is_not_an_object_is_malformed() {
    for body in ["[]", "5", "\"canary\"", "null", "true", " [1] "] {
        assert_eq!(parse_malformed(body), MalformedBody::NotAnObject, "{body}");
    }
}

#[test]
fn a_malformed_message_is_described_without_its_values() {
    for body in [
        "canary",
        "\"canary",
        "{\"a\":canary}",
        "{\"a\":\"canary\u{1}\"}",
        "{\"a\":\"canary\" \"b\"}",
        "\"canary\"",
        "[\"canary\"]",
        "{\"metadata\":{\"a\":\"canary\",\"a\":\"canary\"}}",
        "{\"a\":\"canary\\x\"}",
        "{\"a\":\"canary\"}canary",
        "{\"a\":\"canary\",canary:1}",
    ] {
        let text = parse_malformed(body).to_string();
        assert!(!text.contains("canary"), "{body}: {text}");
    }
}

#[test]
fn a_duplicate_member_at_the_top_level_or_in_metadata_is_malformed() {
    for (body, pointer) in [
        (r#"{"data":{},"data":{}}"#.to_owned(), "/data"),
        (r#"{"metadata":{},"\u006detadata":{},"data":{}}"#.to_owned(), "/metadata"),
        (r#"{"x/y~":1,"x\/y~":1}"#.to_owned(), "/x~1y~0"),
        (r#"{"\ud83d\ude00":1,"😀":1}"#.to_owned(), "/😀"),
        (
            format!(
                r#"{{"metadata":{{"message_id":"{ID}","retry_attempt":1,"\u0072etry_attempt":9}},"data":{{}}}}"#
            ),
            "/metadata/retry_attempt",
        ),
        (format!(r#"{{"metadata":{{"message_id":"{ID}","own":1,"own":1}},"data":{{}}}}"#), "/metadata/own"),
    ] {
        assert_eq!(parse_malformed(&body), MalformedBody::DuplicateMember(pointer.to_owned()), "{body}");
    }
}

#[test]
fn different_lone_surrogates_are_different_names() {
    let body = format!(r#"{{"\ud800":1,"\ud801":2,"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    assert!(MessageSchema::default().parse_envelope(&body).is_ok());
}

#[test]
fn duplicates_inside_data_are_accepted() {
    let body =
        format!(r#"{{"metadata":{{"message_id":"{ID}","x":{{"a":1,"a":2}}}},"data":{{"a":1,"a":2}}}}"#);
    assert!(MessageSchema::default().parse_envelope(&body).is_ok());
}

/// Returns a body with `depth` nested levels, including its own object and `data`.
fn nested_body(depth: usize) -> String {
    let inner = depth - 2;
    format!(
        r#"{{"metadata":{{"message_id":"{ID}","s":"[[{{{{\"[["}},"data":{{"n":{}{}}}}}"#,
        "[".repeat(inner),
        "]".repeat(inner)
    )
}

#[test]
fn nesting_of_128_is_accepted_and_129_is_malformed() {
    let schema = MessageSchema::default();
    assert!(schema.parse_envelope(&nested_body(128)).is_ok());
    let too_deep = nested_body(129);
    let offset = too_deep.rfind('[').unwrap();
    assert_eq!(parse_malformed(&too_deep), MalformedBody::TooDeep(offset));
    assert!(matches!(parse_malformed(&"[".repeat(1_048_576)), MalformedBody::TooDeep(128)));
    assert!(matches!(parse_malformed(&"{\"a\":".repeat(200_000)), MalformedBody::TooDeep(_)));
}

#[test]
fn nesting_is_also_limited_in_unknown_members() {
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let deeper = format!("[{deep}]");
    let body_with_member =
        |value: &str| format!(r#"{{"x":{value},"metadata":{{"message_id":"{ID}"}},"data":{{}}}}"#);
    assert!(MessageSchema::default().parse_envelope(&body_with_member(&deep)).is_ok());
    assert!(matches!(parse_malformed(&body_with_member(&deeper)), MalformedBody::TooDeep(_)));
}

#[test]
fn a_resend_replaces_illegal_characters_in_a_forged_history() {
    let body = format!(
        r#"{{"metadata":{{"message_id":"{ID}","retry_history":[{{"attempt":0,"failed_at":"2026-07-25T17:20:00Z","error_type":"\ufffe","error_details":"\uffff\u0000"}}]}},"data":{{}}}}"#
    );
    let schema = MessageSchema::default();
    let envelope = schema.parse_envelope(&body).unwrap();
    let retry = RetryMetadata { retry_history: envelope.metadata.retry_history.clone(), ..retry_metadata() };
    let resent = envelope.with_retry_metadata(&retry);
    assert!(resent.chars().all(crate::limits::is_legal), "{resent:?}");
}

fn wrap_in_brackets(depth: usize, inside: &str) -> String {
    format!("{}{inside}{}", "[".repeat(depth), "]".repeat(depth))
}

proptest! {
    /// Brackets, quotes and backslashes in strings do not count, wherever the strings are.
    #[test]
    fn only_brackets_outside_strings_count(before in any::<String>(), text in r#"[\[\]{}"\\x]{0,99}"#, depth in 100..160_usize) {
        let strings = serde_json::to_string(&[before, text]).unwrap();
        let head = format!("[{strings},");
        let body = format!("{head}{}]", wrap_in_brackets(depth, &strings));
        // The array of strings adds one level.
        let expected = match depth {
            0..=126 => Ok(()),
            127 => Err(MalformedBody::TooDeep(head.len() + depth)),
            _ => Err(MalformedBody::TooDeep(head.len() + 127)),
        };
        prop_assert_eq!(check_nesting(&body), expected);
    }
}

#[test]
fn unmatched_closing_brackets_do_not_lower_the_nesting() {
    assert_eq!(check_nesting(&format!("]]]{}", wrap_in_brackets(128, ""))), Ok(()));
    assert_eq!(check_nesting(&format!("]]]{}", wrap_in_brackets(129, ""))), Err(MalformedBody::TooDeep(131)));
}

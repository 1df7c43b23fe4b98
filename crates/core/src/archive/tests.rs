use serde_json::json;

use super::*;
use crate::testing::{at, received_message};

fn layout(prefix: &str) -> ArchiveLayout {
    ArchiveLayout { prefix: Prefix::new(prefix).unwrap(), deployment: "redeliver-prod-final-dlq".to_owned() }
}

fn death() -> Death {
    Death::new(
        at(0) + chrono::TimeDelta::microseconds(7),
        "21d708b3fca00092",
        "0191f3a2-7b1c-7d3e-8f00-0123456789ab",
    )
}

#[test]
fn a_deaths_key_consists_of_its_day_its_cause_and_its_time() {
    let layout = layout("team/a");
    let place = "deployment=redeliver-prod-final-dlq/date=2026-07-25/cause=21d708b3fca00092/172000.000007Z-0191f3a2-7b1c-7d3e-8f00-0123456789ab";
    let key = layout.object_key(&death());
    assert_eq!(key, format!("team/a/dead-letters/{place}.jsonl.gz"));
    assert_eq!(layout.parse_key(&key), Some(death()));
}

#[test]
fn a_key_in_any_other_form_is_not_parsed() {
    let layout = layout("");
    let key = layout.object_key(&death());
    for (from, to) in [
        ("2026-07-25", "2026-7-25"),
        ("2026-07-25", "2026-13-25"),
        ("172000.000007Z", "172000.7Z"),
        ("172000.000007Z", "992000.000007Z"),
        ("cause=", "cause"),
        (".jsonl.gz", ".jsonl"),
        ("redeliver-prod", "redeliver-test"),
    ] {
        let other = key.replacen(from, to, 1);
        assert_ne!(other, key);
        assert_eq!(layout.parse_key(&other), None, "{other}");
    }
}

#[test]
fn text_that_is_unsafe_in_a_key_is_replaced_by_its_hash() {
    let hash = "6e340b9cffb37a989ca544e6bb780a2c";
    assert_eq!(Death::new(at(0), "a/b", "\u{0}").id, hash);
    assert_eq!(Death::new(at(0), "a/b", "").fingerprint.len(), 32);
    assert_eq!(Death::new(at(0), "f", &"a".repeat(64)).id, "a".repeat(64));
    assert_eq!(Death::new(at(0), "f", &"a".repeat(65)).id.len(), 32);
}

#[test]
fn a_deployment_is_named_after_its_final_dlq() {
    for url in [
        "https://sqs.eu-central-1.amazonaws.com/123456789012/redeliver-prod-final-dlq",
        "http://127.0.0.1:4566/000000000000/redeliver-prod-final-dlq/",
    ] {
        assert_eq!(deployment_name(url), "redeliver-prod-final-dlq");
    }
}

#[test]
fn a_prefix_ends_with_a_slash_and_has_only_safe_characters() {
    for (text, prefix) in [("", ""), ("a", "a/"), ("a/", "a/"), ("a/b=c//", "a/b=c/")] {
        assert_eq!(Prefix::new(text).unwrap().as_str(), prefix);
    }
    let long = "a".repeat(257);
    for (wrong, error) in [
        ("/a", PrefixError::Slash),
        ("a b", PrefixError::Character),
        ("ä", PrefixError::Character),
        ("a?", PrefixError::Character),
        (&*long, PrefixError::TooLong),
    ] {
        assert_eq!(Prefix::new(wrong), Err(error), "{wrong}");
    }
}

/// Returns the archive line for a final record with this body.
fn archive_line(body: &str, omit: &str) -> ArchivedMessage {
    let omit = if omit.is_empty() { OmitList::default() } else { OmitList::parse(omit).unwrap() };
    let content = Content { body: body.to_owned(), ..Content::default() };
    omit.apply_to(ArchivedMessage::from_final_record(received_message(None), &content, at(5)))
}

fn omit_values(body: &str, omit: &str) -> (String, Vec<String>) {
    let ArchivedMessage { body, omitted, .. } = archive_line(body, omit);
    (body, omitted)
}

#[test]
fn a_line_contains_the_final_record_and_its_time_of_death() {
    let ArchivedMessage { sqs_message_id, queue_arn, sent_at, body, omitted, .. } = archive_line("{}", "");
    assert_eq!((&*sqs_message_id, &*body, omitted), ("n", "{}", vec![]));
    assert_eq!(queue_arn, "arn:aws:sqs:eu-central-1:000000000000:intermediate");
    assert_eq!(sent_at, "2026-07-25T17:20:05.000000Z");
}

#[test]
fn omitted_values_are_replaced_and_every_other_byte_is_kept() {
    let body = r#" {"data": {"email":"a@b.c" ,"n": 1.50, "address": {"city":"Ulm"}}, "list":["x", "y"]} "#;
    let (without, places) = omit_values(body, "/data/email, /data/address, /list/1,/data/phone");
    let expected =
        r#" {"data": {"email":"omitted" ,"n": 1.50, "address": "omitted"}, "list":["x", "omitted"]} "#;
    assert_eq!(without, expected);
    assert_eq!(places, ["/data/email", "/data/address", "/list/1"], "only the pointers that matched a value");
}

#[test]
fn duplicate_and_escaped_names_are_omitted_too() {
    for (body, without) in [
        (r#"{"email":1,"email":{"a":2}}"#, r#"{"email":"omitted","email":"omitted"}"#),
        (r#"{"\u0065mail":1}"#, r#"{"\u0065mail":"omitted"}"#),
        (r#"{"a":{"email":1},"a":{"email":2}}"#, r#"{"a":{"email":1},"a":{"email":2}}"#),
    ] {
        assert_eq!(omit_values(body, "/email").0, without, "{body}");
    }
    let with_duplicate = r#"{"a":{"email":1},"a":{"b":0,"email":2}}"#;
    assert_eq!(
        omit_values(with_duplicate, "/a/email").0,
        r#"{"a":{"email":"omitted"},"a":{"b":0,"email":"omitted"}}"#
    );
    let inside = r#"{"a":{"b":1},"c":2}"#;
    assert_eq!(
        omit_values(inside, "/a/b,/a").0,
        r#"{"a":"omitted","c":2}"#,
        "one value is nested in another"
    );
}

#[test]
fn a_body_that_is_not_json_is_omitted_entirely() {
    for body in [r#"{"email":"a@b.c"#, "email: a@b.c", "{\"email\":\"a@b.c\"}x"] {
        assert_eq!(omit_values(body, "/email"), ("omitted".to_owned(), vec![String::new()]), "{body}");
        assert_eq!(omit_values(body, ""), (body.to_owned(), vec![]), "no value is to be omitted");
    }
    assert_eq!(omit_values("[1]", "/email"), ("[1]".to_owned(), vec![]));
}

#[test]
fn an_invalid_pointer_in_a_list_is_reported_with_its_position() {
    assert_eq!(OmitList::parse("/a,b").unwrap_err().to_string().split(" is ").next(), Some("entry 2"));
    assert!(matches!(OmitList::parse(""), Err(OmitError::Pointer(1, _))));
    assert_eq!(OmitList::parse(&["/a"; 51].join(",")), Err(OmitError::TooMany));
}

#[test]
fn an_object_is_one_compressed_line() {
    use std::io::Read as _;

    let line = archive_line(r#"{"a":1}"#, "/a");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*compress_line(&line)).read_to_string(&mut text).unwrap();
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.ends_with("}\n"));
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&read["body"], &read["omitted"]), (&json!(r#"{"a":"omitted"}"#), &json!(["/a"])));
    assert_eq!(compress_line(&line), compress_line(&line), "compression is deterministic");
}

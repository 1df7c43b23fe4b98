use redeliver_core::message::{Attribute, AttributeValue};
use serde_json::{Value, json};

use super::*;

const SOURCE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

/// Returns the example record from Lambda's documentation ("Using Lambda with Amazon SQS"), with this id and body.
fn record(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "receiptHandle": format!("handle of {id}"),
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "2",
            "SentTimestamp": "1750000000123",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1750000000456",
        },
        "messageAttributes": {},
        "md5OfMessageAttributes": null,
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": SOURCE,
        "awsRegion": "eu-central-1",
    })
}

/// Returns the record with one member changed.
fn with_member(mut record: Value, pointer: &str, value: Value) -> Value {
    *record.pointer_mut(pointer).unwrap() = value;
    record
}

fn without_member(mut record: Value, member: &str) -> Value {
    record.as_object_mut().unwrap().remove(member);
    record
}

fn read(event: &[Value]) -> Result<Records, NotAnSqsEvent> {
    parse_records(&json!({ "Records": event }).to_string())
}

fn ids(records: &Records) -> Vec<&str> {
    records.readable.iter().map(|record| record.sqs_message_id.as_str()).collect()
}

fn unreadable_ids(records: &Records) -> Vec<&str> {
    records.unreadable.iter().map(|record| record.sqs_message_id.as_str()).collect()
}

/// Parses the record between two valid ones, which it must not affect.
fn parse_between_valid_records(record_in_between: Value) -> Records {
    let records = read(&[record("first", "{}"), record_in_between, record("last", "{}")]).unwrap();
    let good = read(&[record("first", "{}"), record("last", "{}")]).unwrap().readable;
    assert_eq!(records.readable.first(), good.first());
    assert_eq!(records.readable.last(), good.last());
    records
}

#[test]
fn a_record_is_parsed_with_all_its_system_attributes() {
    let full = with_member(
        record("full", "{\"data\":{}}"),
        "/attributes",
        json!({
            "ApproximateReceiveCount": "3",
            "SentTimestamp": "1750000000123",
            "SenderId": "AROASENDER0000000000X:session",
            "ApproximateFirstReceiveTimestamp": "1750000000456",
            "MessageGroupId": "tenant",
            "AWSTraceHeader": "Root=1-5759e988-bd862e3fe1be46a994272793",
            "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-central-1:123456789012:elsewhere",
        }),
    );
    let full = with_member(
        full,
        "/messageAttributes",
        json!({
            "text": { "stringValue": "é😀", "stringListValues": [], "binaryListValues": [], "dataType": "String" },
            "number": { "stringValue": "1e400", "stringListValues": [], "binaryListValues": [], "dataType": "Number.int" },
            "bytes": { "binaryValue": "AP/+", "stringListValues": [], "binaryListValues": [], "dataType": "Binary.png" },
        }),
    );
    let moment = |millis| chrono::DateTime::from_timestamp_millis(millis).unwrap();
    let attribute = |data_type: &str, value| Attribute { data_type: data_type.to_owned(), value };
    let expected = ReceivedMessage {
        sqs_message_id: "full".to_owned(),
        receipt_handle: "handle of full".to_owned(),
        body: "{\"data\":{}}".to_owned(),
        attributes: [
            ("text".to_owned(), attribute("String", AttributeValue::Text("é😀".to_owned()))),
            ("number".to_owned(), attribute("Number.int", AttributeValue::Text("1e400".to_owned()))),
            ("bytes".to_owned(), attribute("Binary.png", AttributeValue::Binary(vec![0, 255, 254]))),
        ]
        .into(),
        sent_at: moment(1_750_000_000_123),
        first_received_at: Some(moment(1_750_000_000_456)),
        receive_count: 3,
        message_group_id: Some("tenant".to_owned()),
        trace_header: Some("Root=1-5759e988-bd862e3fe1be46a994272793".to_owned()),
        sender_id: Some("AROASENDER0000000000X:session".to_owned()),
        redriven_from: Some("arn:aws:sqs:eu-central-1:123456789012:elsewhere".to_owned()),
        queue_arn: SOURCE.to_owned(),
        omitted: Vec::new(),
    };
    let records = read(std::slice::from_ref(&full)).unwrap();
    assert_eq!(records.readable, std::slice::from_ref(&expected));
    assert_eq!(records.unreadable, []);
    let with_unreadable_record = read(&[record("bad", ""), full]).unwrap();
    assert_eq!(with_unreadable_record.readable, [expected]);
    assert_eq!(unreadable_ids(&with_unreadable_record), ["bad"]);
}

#[test]
fn records_keep_their_order() {
    let event: Vec<_> = (0..10).map(|index| record(&index.to_string(), "{}")).collect();
    assert_eq!(ids(&read(&event).unwrap()), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn a_body_remains_a_raw_string_regardless_of_its_content() {
    let deep = "[".repeat(100_000);
    let largest = "x".repeat(1_048_576);
    for body in [
        " ",
        "{\"metadata\":",
        "null",
        "{\"data\":{\"n\":1e400,\"big\":12345678901234567890123}}",
        "\u{FFFD}\u{FFFE}\u{1}",
        "{\"é\":\"\\u00e9\\ud800\"}\r\n\t",
        "a \"quoted\" \\ back\\\\slash",
        &deep,
        &largest,
    ] {
        let records = parse_between_valid_records(record("poison", body));
        assert_eq!(records.unreadable, []);
        assert!(records.readable[1].body == body, "the body was changed");
    }
}

#[test]
fn escapes_in_the_event_are_decoded_in_the_body() {
    let event = r#"{"Records":[{"messageId":"a","body":"{\"d\":\"\u00e9\ud83d\ude00\\u00e9\/\"}","eventSourceARN":"arn","attributes":{"SentTimestamp":"1"}}]}"#;
    let records = parse_records(event).unwrap();
    assert_eq!(records.readable[0].body, "{\"d\":\"é😀\\u00e9/\"}");
}

#[test]
fn unknown_members_are_ignored() {
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let event = format!(
        r#"{{"new":{deep},"Records":[{{"new":{deep},"messageId":"a","body":"{{}}","eventSourceARN":"arn","attributes":{{"SentTimestamp":"1","New":"x"}}}}]}}"#
    );
    let records = parse_records(&event).unwrap();
    assert_eq!(ids(&records), ["a"]);
    assert_eq!((records.readable[0].receive_count, &records.readable[0].first_received_at), (1, &None));
}

#[test]
fn an_unreadable_record_fails_alone() {
    let attribute =
        |value: Value| with_member(record("bad", "{}"), "/messageAttributes", json!({ "a": value }));
    let system = |value: Value| with_member(record("bad", "{}"), "/attributes", value);
    for bad in [
        attribute(json!({ "binaryValue": "!not base64!", "dataType": "Binary" })),
        attribute(json!({ "binaryValue": null, "stringValue": "x", "dataType": "Binary" })),
        attribute(json!({ "stringValue": "x" })),
        attribute(json!({ "dataType": "String" })),
        attribute(json!({ "stringValue": 7, "dataType": "Number" })),
        attribute(json!("x")),
        system(json!({})),
        system(json!({ "SentTimestamp": "yesterday" })),
        system(json!({ "SentTimestamp": 1_750_000_000_123_u64 })),
        system(json!({ "SentTimestamp": "1", "ApproximateReceiveCount": "-1" })),
        system(json!({ "SentTimestamp": "1", "ApproximateFirstReceiveTimestamp": "" })),
        system(json!([])),
        system(json!("x")),
        system(json!(null)),
        without_member(record("bad", "{}"), "attributes"),
        without_member(record("bad", "{}"), "body"),
        // Every SQS message has a body.
        record("bad", ""),
        without_member(record("bad", "{}"), "eventSourceARN"),
        with_member(record("bad", "{}"), "/body", json!(7)),
        with_member(record("bad", "{}"), "/body", json!({ "metadata": {} })),
        with_member(record("bad", "{}"), "/messageAttributes", json!([])),
    ] {
        let records = parse_between_valid_records(bad.clone());
        assert_eq!(unreadable_ids(&records), ["bad"], "{bad}");
        assert_eq!(ids(&records), ["first", "last"], "{bad}");
    }
}

#[test]
fn an_unreadable_record_keeps_its_position_and_a_readable_group() {
    let bad = |attributes: Value| with_member(record("bad", ""), "/attributes", attributes);
    for (attributes, group) in [
        (json!({ "MessageGroupId": "a" }), Some("a")),
        (json!({ "MessageGroupId": "a", "SentTimestamp": 7 }), Some("a")),
        (json!({ "MessageGroupId": 7 }), None),
        (json!({ "SentTimestamp": "1" }), None),
        (json!(["a"]), None),
        (json!(null), None),
    ] {
        let records = parse_between_valid_records(bad(attributes.clone()));
        let expected = UnreadableMessage {
            sqs_message_id: "bad".to_owned(),
            receipt_handle: String::new(),
            message_group_id: group.map(str::to_owned),
            readable_before: 1,
        };
        assert_eq!(records.unreadable, [expected], "{attributes}");
    }
}

#[test]
fn only_the_record_whose_body_is_not_unicode_fails() {
    let event = r#"{"Records":[
        {"messageId":"bad","body":"\ud800","eventSourceARN":"arn","attributes":{"SentTimestamp":"1"}},
        {"messageId":"good","body":"{}","eventSourceARN":"arn","attributes":{"SentTimestamp":"1"}}
    ]}"#;
    let records = parse_records(event).unwrap();
    assert_eq!((ids(&records), unreadable_ids(&records)), (vec!["good"], vec!["bad"]));
}

#[test]
fn a_record_that_cannot_be_reported_fails_the_invocation() {
    for unnamed in [
        without_member(record("CANARY", "CANARY"), "messageId"),
        with_member(record("CANARY", "CANARY"), "/messageId", json!("")),
        with_member(record("CANARY", "CANARY"), "/messageId", json!(7)),
        with_member(record("CANARY", "CANARY"), "/messageId", json!(null)),
        json!(null),
        json!("CANARY"),
        json!(["CANARY"]),
        // The members' values in order, without their names.
        json!(["CANARY", "handle", "{}", null, null, { "SentTimestamp": "1" }, {}, SOURCE, "aws:sqs", "eu-central-1"]),
    ] {
        let error = read(&[record("good", "{}"), unnamed]).unwrap_err().to_string();
        assert!(error.starts_with("record 1 of the event has no messageId"), "{error}");
        assert!(!error.contains("CANARY"), "{error}");
    }
}

#[test]
fn a_non_sqs_event_is_rejected_without_quoting_its_content() {
    for event in [
        "{}",
        "null",
        "[]",
        "7",
        "",
        "\"CANARY\"",
        "{\"Records\":null}",
        "{\"Records\":{\"CANARY\":1}}",
        "{\"Records\":\"CANARY\"}",
        "{\"records\":[]}",
        // A list in place of the object with `Records`.
        "[[{\"messageId\":\"CANARY\"}]]",
        "{\"Records\":[{\"messageId\":\"CANARY\"",
        "{\"Records\":[{\"eventSource\":\"aws:s3\",\"s3\":\"CANARY\"}]}",
        "{\"Records\":[{\"EventSource\":\"aws:sns\",\"Sns\":{\"MessageId\":\"CANARY\"}}]}",
        "{\"version\":\"0\",\"detail-type\":\"CANARY\",\"detail\":{\"a\":\"CANARY\"}}",
    ] {
        let error = parse_records(event).unwrap_err();
        assert!(matches!(error, NotAnSqsEvent::NoRecords), "{event}");
        let error = error.to_string();
        assert!(error.contains(r#"expected an SQS event, {"Records":[…]}"#), "{error}");
        assert!(!error.contains("CANARY"), "{error}");
    }
}

#[test]
fn an_event_without_records_is_accepted() {
    let records = read(&[]).unwrap();
    assert!(records.readable.is_empty() && records.unreadable.is_empty());
}

use redeliver_core::message::{AttributeValue, ReceivedMessage};

use super::*;

/// Output of `aws sqs receive-message`. One message has attributes, one of which is binary.
const RECEIVED: &str = r#"{
    "Messages": [
        {
            "MessageId": "c3b4a9b0-1111-4000-8000-00000000000a",
            "ReceiptHandle": "handle",
            "MD5OfBody": "0",
            "Body": "{\"order\": \"A-1\"}\n",
            "Attributes": {
                "SentTimestamp": "1795903657761",
                "ApproximateReceiveCount": "4",
                "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:1:orders"
            },
            "MessageAttributes": {
                "t": { "StringValue": "v", "DataType": "String" },
                "b": { "BinaryValue": "AAEC", "DataType": "Binary" }
            }
        },
        { "MessageId": "c3b4a9b0-1111-4000-8000-00000000000b", "ReceiptHandle": "handle", "Body": "second" }
    ]
}"#;

const EVENT: &str = r#"{"Records":[{"messageId":"m-1","receiptHandle":"r","body":"{\"a\":1.0}","attributes":
    {"SentTimestamp":"1795903657761","ApproximateReceiveCount":"2","MessageGroupId":"g"},"messageAttributes":
    {"t":{"stringValue":"7","stringListValues":[],"binaryListValues":[],"dataType":"Number"}},"md5OfBody":"0",
    "eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:eu-west-1:1:orders","awsRegion":"eu-west-1"}]}"#;

fn read(document: &str) -> Option<(ExportKind, Vec<Element>)> {
    MessageExport::read(document, true).map(|MessageExport { kind, elements }| (kind, elements))
}

fn read_messages(document: &str) -> Vec<ReceivedMessage> {
    let elements = read(document).unwrap().1.into_iter().enumerate();
    let restored = |(index, element)| match element {
        Element::Exported(message) => {
            archived_message(&message, index + 1, Timestamp::UNIX_EPOCH).unwrap().into_message().unwrap()
        }
        Element::Body(body) => panic!("{body}"),
    };
    elements.map(restored).collect()
}

#[test]
fn a_receive_message_export_keeps_bodies_and_attributes() {
    let [first, second] = read_messages(RECEIVED).try_into().unwrap();
    assert_eq!(first.sqs_message_id, "c3b4a9b0-1111-4000-8000-00000000000a");
    assert_eq!(first.body, "{\"order\": \"A-1\"}\n");
    assert_eq!(first.attributes["t"].value, AttributeValue::Text("v".to_owned()));
    assert_eq!(first.attributes["b"].value, AttributeValue::Binary(vec![0, 1, 2]));
    assert_eq!((first.sent_at.timestamp_millis(), first.receive_count), (1_795_903_657_761, 4));
    assert_eq!(first.redriven_from.as_deref(), Some("arn:aws:sqs:eu-west-1:1:orders"));
    assert_eq!((second.body.as_str(), second.attributes.len(), second.receive_count), ("second", 0, 1));
    assert_eq!(second.sent_at, Timestamp::UNIX_EPOCH, "it has no send time");
}

#[test]
fn a_lambda_event_yields_its_records() {
    let [message] = read_messages(EVENT).try_into().unwrap();
    assert_eq!((message.sqs_message_id.as_str(), message.body.as_str()), ("m-1", r#"{"a":1.0}"#));
    assert_eq!(message.attributes["t"].data_type, "Number");
    assert_eq!(message.queue_arn, "arn:aws:sqs:eu-west-1:1:orders");
    assert_eq!(message.message_group_id.as_deref(), Some("g"));
}

#[test]
fn sdk_and_jq_exports_yield_the_same_messages() {
    let one = r#"{"Body":"x","MessageId":"m"}"#;
    for (document, kind) in [
        (format!(r#"{{"Messages":[{one}],"ResponseMetadata":{{"RetryAttempts":0}}}}"#), ExportKind::Received),
        (format!(r#"{{"$metadata":{{}},"Messages":[{one}]}}"#), ExportKind::Received),
        (format!("[{one}]"), ExportKind::Array),
        (format!(r#"[{{"Messages":[{one}]}}]"#), ExportKind::Array),
        (one.to_owned(), ExportKind::Message),
    ] {
        assert_eq!(read(&document), Some((kind, vec![Element::Exported(one.to_owned())])), "{document}");
    }
    for empty in [r#"{"Messages": null}"#, r#"{"Messages":[],"ResponseMetadata":{}}"#] {
        assert_eq!(read(empty), Some((ExportKind::Received, Vec::new())));
    }
}

/// If such a body were read as an export, it would be split and sent as messages that its producer did not write.
#[test]
fn a_body_that_resembles_an_export_is_not_split() {
    for body in [
        "{}",
        r#"{"Body":"x"}"#,
        r#"{"Body":"x","To":"y"}"#,
        r#"{"Body":{"x":1},"MessageId":"m"}"#,
        r#"{"Messages":[{"Body":"x","To":"y"}]}"#,
        r#"{"Messages":["x"]}"#,
        r#"{"Messages":[],"Count":0}"#,
        r#"{"Messages":{"Body":"x"}}"#,
        r#"{"Records":[]}"#,
        r#"{"Records":[{"eventSource":"aws:s3","body":"x"}]}"#,
        r#"{"Records":[{"EventSource":"aws:sns","Sns":{"Message":"x"}}]}"#,
        r#"{"metadata":{},"data":{"Body":"x","Messages":[]}}"#,
        r#"[1,{"a":2}]"#,
        r#"[["args"],{},{"callbacks":null}]"#,
        r#""text""#,
        "no JSON",
        r#"{"Messages":[{"Body":"x"}]"#,
    ] {
        assert_eq!(read(body), None, "{body}");
    }
}

#[test]
fn an_array_of_bodies_is_split_only_if_it_is_the_entire_input() {
    let bodies = |bodies: &[&str]| {
        let bodies = bodies.iter().map(|body| Element::Body((*body).to_owned())).collect();
        Some((ExportKind::Array, bodies))
    };
    for (array, expected) in [
        (r#"[{"a": 1.00}, {"a":2}]"#, bodies(&[r#"{"a": 1.00}"#, r#"{"a":2}"#])),
        (r#"["{\"a\":1}","text"]"#, bodies(&[r#"{"a":1}"#, "text"])),
        ("[]", bodies(&[])),
    ] {
        assert_eq!(read(array), expected, "{array}");
        assert_eq!(MessageExport::read(array, false), None, "{array}");
    }
    let exported = r#"[{"Body":"x","MessageId":"m"}]"#;
    assert!(MessageExport::read(exported, false).is_some());
}

#[test]
fn a_message_without_an_id_gets_the_same_unique_id_in_every_run() {
    let id =
        |number| archived_message(r#"{"Body":"x"}"#, number, Timestamp::UNIX_EPOCH).unwrap().sqs_message_id;
    assert_eq!(id(1), id(1));
    assert_ne!(id(1), id(2), "these are two messages with equal bodies");
}

#[test]
fn a_message_defect_is_described_without_quoting_values() {
    let refusal = |message: &str| archived_message(message, 1, Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(
        refusal(r#"{"Body":"x","Attributes":{"SentTimestamp":"CANARY"}}"#),
        "its SentTimestamp is not a number of milliseconds"
    );
    let lone_surrogate = refusal(r#"{"MessageId":"CANARY","Body":"\ud800"}"#);
    assert_eq!(lone_surrogate, "not a message in the format of SQS, at line 1 column 37");
}

#[test]
fn recognized_messages_are_counted_by_kind() {
    let mut tally = ExportTally::default();
    for document in [RECEIVED, EVENT] {
        tally.add(&MessageExport::read(document, true).unwrap());
    }
    assert_eq!(tally.to_string(), "2 messages of a receive-message export and 1 message of a Lambda event");
    tally.add(&MessageExport::read(RECEIVED, true).unwrap());
    assert!(tally.to_string().starts_with("4 messages of receive-message exports and "));
}

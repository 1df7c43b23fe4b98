//! Invalid messages, which get a verdict, never a call or a retry.

use std::sync::Mutex;

use redeliver_aws::settings::Logging;
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::arrival::Arrival;
use redeliver_core::failure::FAILURE;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::lock;
use redeliver_core::message::Attribute;
use serde_json::json;

use super::*;

fn body_with_metadata(more: &str) -> String {
    format!(r#"{{"metadata":{{"message_id":"{}"{more}}},"data":{{}}}}"#, nth_id(1))
}

#[test]
fn every_kind_of_invalid_message_gets_a_verdict_and_no_call() {
    let format = "INVALID_MESSAGE_FORMAT";
    let schema = "INVALID_MESSAGE_SCHEMA";
    let deep = format!(
        r#"{{"metadata":{{"message_id":"{}"}},"data":{}}}"#,
        nth_id(1),
        "[".repeat(128) + &"]".repeat(128)
    );
    let cases = [
        ("canary".to_owned(), format),
        (" ".to_owned(), format),
        ("[]".to_owned(), format),
        ("\"canary\"".to_owned(), format),
        ("null".to_owned(), format),
        (r#"{"metadata":{}"#.to_owned(), format),
        (format!("{} {{}}", nth_body(1)), format),
        (r#"{"metadata":{},"data":{},"d\u0061ta":{}}"#.to_owned(), format),
        (body_with_metadata(r#","message_id":"canary""#), format),
        (deep, format),
        ("{}".to_owned(), schema),
        (r#"{"metadata":{},"data":{}}"#.to_owned(), schema),
        (r#"{"metadata":[],"data":{}}"#.to_owned(), schema),
        (r#"{"metadata":{"message_id":"canary"},"data":{}}"#.to_owned(), schema),
        (r#"{"metadata":{"message_id":"0191f3a27b1c7d3e8f00000000000001"},"data":{}}"#.to_owned(), schema),
        (nth_body(1).replace(r#"{"n":1}"#, "[1]"), schema),
        (nth_body(1).replace(r#"{"n":1}"#, "null"), schema),
        (body_with_metadata(r#","retry_attempt":-1"#), schema),
        (body_with_metadata(r#","retry_attempt":1001"#), schema),
        (body_with_metadata(r#","retry_attempt":99999999999999999999"#), schema),
        (body_with_metadata(r#","retry_attempt":1.0"#), schema),
        (body_with_metadata(r#","retry_attempt":"1""#), schema),
        (body_with_metadata(r#","redrive_generation":101"#), schema),
        (body_with_metadata(r#","first_sent_time":"yesterday""#), schema),
        (body_with_metadata(r#","retry_history":{}"#), schema),
    ];
    for (body, code) in cases {
        let setup = Setup::new();
        assert_eq!(setup.process(vec![nth_record(1, &*body)], 30), [""; 0], "{body}");
        assert!(setup.handler.calls().is_empty(), "{body}");
        assert!(setup.intermediate.sent_contents().is_empty(), "no retry: {body}");
        let sent = setup.annotation.only_sent_content();
        assert_eq!(sent.body, body);
        let document = attribute_document(&sent.attributes, FAILURE);
        assert_eq!(document["verdict"], code, "{body}");
        assert_eq!(document["type"], code, "{body}");
        assert!(!document.to_string().contains("canary"), "a value in {document}");
    }
}

#[test]
fn a_verdict_names_the_flaw_and_the_messages_source() {
    let setup = Setup::new();
    setup.process(vec![nth_record(1, body_with_metadata(r#","retry_attempt":-1"#))], 30);
    let document = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    let details = document["details"].as_str().unwrap();
    assert!(details.contains("/metadata/retry_attempt"), "{details}");
    let mut rest = document.clone();
    rest.as_object_mut().unwrap().remove("details");
    assert_eq!(
        rest,
        json!({
            "type": "INVALID_MESSAGE_SCHEMA",
            "failed_at": format_time_at(0),
            "source_message_id": "sqs-1",
            "source_queue_arn": SOURCE_ARN,
            "first_sent_time": format_time_at(-10),
            "verdict": "INVALID_MESSAGE_SCHEMA",
            "stage": "message-processor",
        })
    );
}

#[test]
fn invalid_messages_do_not_affect_others_in_the_batch() {
    let setup = Setup::new().failing(3, busy_error());
    let mut records = ten_records();
    records[0].body = "not JSON".to_owned();
    records[9].body = "{}".to_owned();
    assert_eq!(setup.process(records, 30), [""; 0]);
    assert_eq!(setup.handler.called_message_ids(), (1..9).map(nth_id).collect::<Vec<_>>());
    assert_eq!(setup.intermediate.only_sent_content().body, nth_body(3));
    let verdicts: Vec<_> = setup.annotation.receive_all().into_iter().map(|record| record.body).collect();
    assert_eq!(verdicts, ["not JSON", "{}"]);
}

#[test]
fn a_verdict_keeps_attributes_group_and_trace() {
    let setup = Setup::new();
    let invalid = ReceivedMessage {
        attributes: producer_attributes(),
        message_group_id: Some("tenant-7".to_owned()),
        trace_header: Some("Root=1".to_owned()),
        ..nth_record(1, "{}")
    };
    setup.process(vec![invalid], 30);
    let sent = setup.annotation.only_sent_content();
    assert_eq!(strip_own_attributes(&sent.attributes), producer_attributes());
    assert_eq!(sent.message_group_id.as_deref(), Some("tenant-7"));
    assert_eq!(sent.trace_header.as_deref(), Some("Root=1"));
}

#[test]
fn an_invalid_message_with_ten_attributes_folds_the_smallest_and_loses_none() {
    let setup = Setup::new();
    setup.process(vec![ReceivedMessage { attributes: ten_attributes(), ..nth_record(1, "{}") }], 30);
    let sent = setup.annotation.only_sent_content();
    assert_eq!(sent.attributes.len(), 10);
    let document = attribute_document(&sent.attributes, FAILURE);
    // The name, type and value of `count` take up 5 + 10 + 1 bytes; those of `more-0`, 6 + 6 + 1.
    assert_eq!(document["folded_attributes"], json!({ "more-0": { "data_type": "String", "text": "x" } }));
    let mut all = strip_own_attributes(&sent.attributes);
    assert_eq!(all.insert("more-0".to_owned(), Attribute::string("x")), None);
    assert_eq!(all, ten_attributes());
}

#[test]
fn an_invalid_message_of_1_mib_is_sent_on_with_its_verdict() {
    for bytes in [MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX - 400] {
        let setup = Setup::new();
        let body = "x".repeat(bytes);
        assert_eq!(setup.process(vec![nth_record(1, &*body)], 30), [""; 0]);
        let sent = setup.annotation.only_sent_content();
        assert_eq!(sent.body, body);
        let has_attribute = bytes < MESSAGE_BYTES_MAX;
        assert_eq!(
            (sent.attributes.len(), sent.trace_header.is_none()),
            (usize::from(has_attribute), has_attribute)
        );
        let received = ReceivedMessage {
            attributes: sent.attributes,
            trace_header: sent.trace_header,
            ..nth_record(1, "")
        };
        let verdict = Arrival::from_record(received, setup.world.clock.now()).take_verdict().unwrap();
        assert_eq!(verdict.code.as_str(), "INVALID_MESSAGE_FORMAT");
    }
}

/// A typical mistake in a new deployment: bodies without an envelope.
#[test]
fn a_batch_with_only_invalid_messages_logs_the_setting_to_check() {
    let last_line = |valid: usize| {
        let setup = Setup::new();
        let log = SharedLog::default();
        let lines =
            JsonLinesObserver::new("orders", Logging::default(), setup.world.clock.clone(), log.clone());
        let lines = lines.with_schema(&setup.schema);
        let MessageProcessor {
            handler, on_failure, policy, breaker, annotation_queue, clock, schema, ..
        } = setup.processor();
        let MessageProcessor { resenders, max_concurrency, .. } = setup.processor();
        let processor = MessageProcessor {
            handler,
            on_failure,
            policy,
            breaker,
            annotation_queue,
            clock,
            schema,
            resenders,
            max_concurrency,
            observer: &lines,
        };
        let body_of = |n| if n < valid { nth_body(n) } else { "canary".to_owned() };
        let records = (0..10).map(|n| nth_record(n, body_of(n))).collect();
        assert_eq!(setup.world.invoke_function(&processor, records, Duration::from_secs(60)), [""; 0]);
        let text = String::from_utf8(lock(&log.0).clone()).unwrap();
        assert!(!text.contains("canary"), "{text}");
        serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap()).unwrap()
    };
    let line = last_line(0);
    assert_eq!(
        (&line["level"], &line["event"], &line["messages"]),
        (&json!("WARN"), &json!("all_invalid"), &json!(10))
    );
    assert_eq!(
        line["remedy"],
        "all 10 messages are invalid: if their bodies have no {metadata, data} envelope, set envelope: \
         Envelope.OPTIONAL in the construct (ENVELOPE=optional)"
    );
    assert_ne!(last_line(1)["event"], "all_invalid");
}

/// A log that can be read while it is being written.
#[derive(Clone, Default)]
struct SharedLog(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for SharedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

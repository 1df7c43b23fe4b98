use proptest::prelude::*;
use redeliver_core::message::{Attribute, Attributes};
use redeliver_testing::dead_letters::{foreign_message, received_message};
use redeliver_testing::foreign::{FIXTURES, fixture_message};

use super::*;

fn read_fixture(name: &str) -> ForeignDeadLetter {
    ForeignDeadLetter::from_message(&fixture_message(name))
        .unwrap_or_else(|| panic!("{name} is not understood"))
}

fn at(text: &str) -> Option<Timestamp> {
    redeliver_core::message::metadata::parse_rfc3339(text)
}

#[test]
fn each_documented_foreign_dead_letter_format_is_read() {
    let reported = FIXTURES.map(|(name, _)| {
        let foreign = read_fixture(name);
        (name, foreign.writer.code(), foreign.details())
    });
    let expected = [
        (
            "eventbridge-bus",
            "EVENTBRIDGE_DLQ",
            "com.example.shop (Order placed): NO_PERMISSIONS: the key of the event bus is disabled",
        ),
        (
            "eventbridge-rule",
            "EVENTBRIDGE_DLQ",
            "rule/shop/new-orders: NO_PERMISSIONS: Lambda does not allow this rule to invoke the function \
             (MaximumRetryAttempts)",
        ),
        (
            "eventbridge-subscriber",
            "EVENTBRIDGE_SUBSCRIBER_BATCH",
            "subscriber/large-orders/abcdef1234567890abcdef123: ACCESS_DENIED: The delivery role is not authorized to \
             perform sqs:SendMessage on the target.: 2 events of event-busv2/shop/1234567890abcdef1234567ab \
             (MaximumEventAgeInSeconds)",
        ),
        (
            "lambda-destination",
            "LAMBDA_DESTINATION",
            "orders: OrderLocked: order 7 is locked (RetriesExhausted)",
        ),
        (
            "lambda-dlq",
            "LAMBDA_DLQ",
            "ErrorCode 200: 2026-11-14T18:16:05.568Z c9b8fa9f-5a7f-4e0e-af9c-0c604cde93a5 Task timed out after 3.00 \
             seconds",
        ),
        (
            "lambda-dynamodb",
            "LAMBDA_STREAM_BATCH",
            "index: Unhandled: 1 record of table/orders/stream/2026-11-01T00:04:06.388, \
             shardId-00000001573689847184-864758bb (RetryAttemptsExhausted)",
        ),
        (
            "lambda-kafka",
            "LAMBDA_EVENT_SOURCE_BATCH",
            "ledger: Unhandled: 500 records of cluster/shop/751d2973-a626-431c-9d4e-d7975eb44dd7-2, orders-0 \
             (RetryAttemptsExhausted)",
        ),
        (
            "lambda-kinesis",
            "LAMBDA_STREAM_BATCH",
            "clicks:live: Unhandled: 500 records of stream/clicks, shardId-000000000001 (RetryAttemptsExhausted)",
        ),
        (
            "pipes-kinesis",
            "PIPES_STREAM_BATCH",
            "pipe/clicks-to-bus: 2 records of stream/clicks, shardId-000000000001 (RetryAttemptsExhausted)",
        ),
        (
            "scheduler",
            "SCHEDULER_DLQ",
            "schedule/default/nightly: ResourceNotFoundException: Function not found (MaximumRetryAttempts)",
        ),
        (
            "sns-subscription",
            "SNS_DLQ",
            "order-events: not delivered to a subscription, or this queue is subscribed itself; SNS records no reason",
        ),
        ("sqs-redrive", "SQS_REDRIVE", "orders: its consumers did not delete it, so SQS moved it"),
    ];
    assert_eq!(reported, expected.map(|(name, code, details)| (name, code, details.to_owned())));
}

#[test]
fn foreign_dead_letters_have_the_recorded_attempts_and_times() {
    let reported = FIXTURES.map(|(name, _)| {
        let ForeignDeadLetter { attempts, failed_at, .. } = read_fixture(name);
        (name, attempts, failed_at)
    });
    let expected = [
        ("eventbridge-bus", None, None),
        ("eventbridge-rule", Some(185), None),
        ("eventbridge-subscriber", Some(4), None),
        ("lambda-destination", Some(2), at("2026-11-14T18:16:05.568Z")),
        ("lambda-dlq", None, None),
        ("lambda-dynamodb", Some(0), at("2026-11-14T00:13:49.717Z")),
        ("lambda-kafka", Some(0), at("2026-11-14T00:38:06.021Z")),
        ("lambda-kinesis", Some(3), at("2026-11-14T00:38:06.021Z")),
        ("pipes-kinesis", None, at("2026-11-14T00:38:06.021Z")),
        ("scheduler", Some(0), None),
        ("sns-subscription", None, None),
        ("sqs-redrive", None, None),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn the_remark_on_a_stream_batch_says_when_its_records_expire() {
    assert_eq!(
        read_fixture("lambda-dynamodb").remarks(),
        ["Its records are not in this message but in \
          arn:aws:dynamodb:us-east-2:123456789012:table/orders/stream/2026-11-01T00:04:06.388, \
          shardId-00000001573689847184-864758bb, sequence numbers 800000000003126276362 to 800000000003126276362: \
          DynamoDB starts to delete them at 2026-11-15T00:13:19.000Z."]
    );
    let kinesis = read_fixture("lambda-kinesis");
    assert_eq!(kinesis.batch.as_ref().unwrap().expires_at(), at("2026-11-15T00:38:04.835Z"));
    assert!(kinesis.remarks()[0].ends_with(
        ": Kinesis starts to delete them at 2026-11-15T00:38:04.835Z, unless the stream keeps them longer than 24 hours."
    ));
    // The retention of a Kafka topic is a setting that the message does not contain.
    let batch = kinesis.batch.unwrap();
    for (stream, is_known) in
        [(Stream::Kinesis, true), (Stream::DynamoDb, true), (Stream::Kafka, false), (Stream::Other, false)]
    {
        assert_eq!(StreamBatch { stream, ..batch.clone() }.expires_at().is_some(), is_known, "{stream:?}");
    }
    assert_eq!(
        read_fixture("scheduler").remarks(),
        ["Its body is truncated: part of the original is missing."]
    );
    assert_eq!(read_fixture("lambda-destination").remarks(), [""; 0]);
}

/// A Kafka or DocumentDB batch is not an invocation that could be repeated with its payload.
#[test]
fn a_kafka_or_documentdb_batch_has_its_own_code_and_remark() {
    let kafka = fixture_message("lambda-kafka").body;
    let remarks =
        |body: &str| ForeignDeadLetter::from_message(&foreign_message(body, 1)).unwrap().remarks().join(" ");
    let cluster = "arn:aws:kafka:us-east-1:123456789012:cluster/shop/751d2973-a626-431c-9d4e-d7975eb44dd7-2";
    let kept = "the topic keeps them for its own retention.";
    assert_eq!(
        remarks(&kafka),
        format!("Its records are not in this message but in {cluster}, orders-0, offsets 17 to 516: {kept}")
    );
    let with_batch_info = |info: &str| {
        let mut record: serde_json::Value = serde_json::from_str(&kafka).unwrap();
        record["KafkaBatchInfo"] = serde_json::from_str(info).unwrap();
        record.to_string()
    };
    let two = with_batch_info(
        r#"{"batchSize":2,"bootstrapServers":"b-1:9092","recordsInfo":{"orders-0":{"firstRecordOffset":"1"},"orders-3":{}}}"#,
    );
    let place = "Its records are not in this message but in";
    assert_eq!(remarks(&two), format!("{place} b-1:9092, orders-0, orders-3: {kept}"));
    let one = with_batch_info(
        r#"{"batchSize":1,"eventSourceArn":"a","recordInfo":{"offset":"17","timestamp":"x"}}"#,
    );
    assert_eq!(remarks(&one), format!("{place} a, offsets 17 to 17: {kept}"));
    let document_db = with_batch_info(
        r#"{"batchSize":3,"eventSourceArn":"arn:aws:rds:us-east-1:123456789012:cluster:shop"}"#,
    )
    .replace("KafkaBatchInfo", "DocumentDBBatchInfo");
    let read = ForeignDeadLetter::from_message(&foreign_message(&document_db, 1)).unwrap();
    assert_eq!(read.writer.code(), "LAMBDA_EVENT_SOURCE_BATCH");
    assert_eq!(read.details(), "ledger: Unhandled: 3 records of cluster:shop (RetryAttemptsExhausted)");
    assert!(read.remarks()[0].ends_with("cluster:shop: the source keeps them for its own retention."));
}

/// The events that a subscriber's record refers to are not in the message: without the warning, an operator would not
/// learn that they are still available, or until when.
#[test]
fn the_remark_on_a_subscriber_record_says_when_its_events_expire() {
    let record = fixture_message("eventbridge-subscriber");
    let remark =
        |body: String| ForeignDeadLetter::from_message(&foreign_message(&body, 1)).unwrap().remarks();
    let advice = "To deliver them again, create a subscriber that starts at the first and filters by their `aws:EventId`, which \
                 the body names (`--reveal`).";
    let bus = "arn:aws:events:us-east-2:123456789012:event-busv2/shop/1234567890abcdef1234567ab";
    assert_eq!(
        remark(record.body.clone()),
        [format!(
            "Its events are not in this message but on {bus}, from 2026-11-14T18:40:12.768Z to \
             2026-11-14T18:40:13.000Z: the bus starts to delete them at 2026-11-15T18:40:12.768Z, unless it keeps them \
             longer than 24 hours. {advice}"
        )]
    );
    assert_eq!(
        remark(record.body.replace("timestamp", "time")),
        [format!(
            "Its events are not in this message but on {bus}: the bus keeps them for 24 hours unless its \
             retention is longer. {advice}"
        )]
    );
}

#[test]
fn a_subscribers_record_is_read_from_its_body_or_its_attributes() {
    let complete = read_fixture("eventbridge-subscriber");
    let record = fixture_message("eventbridge-subscriber");
    let without_attributes = foreign_message(&record.body, 1);
    assert_eq!(ForeignDeadLetter::from_message(&without_attributes), Some(complete.clone()));
    let mut without_document = record.clone();
    without_document.body = "not the document".to_owned();
    let expected = ForeignDeadLetter { events: None, ..complete.clone() };
    assert_eq!(ForeignDeadLetter::from_message(&without_document), Some(expected));

    // Members that AWS may omit, or add later.
    let mut later = record.clone();
    later.body = later.body.replace("\"version\":\"1.0\"", "\"version\":\"1.1\",\"replayId\":{\"of\":[1]}");
    assert_ne!(later.body, record.body);
    later.attributes.insert("REPLAY_ID".to_owned(), Attribute::string("1"));
    assert_eq!(ForeignDeadLetter::from_message(&later), Some(complete));
    let minimal =
        r#"{"busArn":"b","subscriberArn":"s","errorCode":"THROTTLING","failedMessages":[{"eventId":"e"}]}"#;
    let read = ForeignDeadLetter::from_message(&foreign_message(minimal, 1)).unwrap();
    assert_eq!((read.details().as_str(), read.attempts), ("s: THROTTLING: 1 event of b", None));
}

/// Some documented EventBridge attributes may be missing, and new ones may appear: those present are read.
#[test]
fn an_undelivered_event_is_read_with_any_subset_of_attributes() {
    for (name, missing, expected) in [
        (
            "eventbridge-rule",
            &["RULE_ARN"][..],
            "orders: NO_PERMISSIONS: Lambda does not allow this rule to invoke the function (MaximumRetryAttempts)",
        ),
        (
            "eventbridge-rule",
            &["TARGET_ARN", "ERROR_MESSAGE", "EXHAUSTED_RETRY_CONDITION", "RETRY_ATTEMPTS"],
            "rule/shop/new-orders: NO_PERMISSIONS",
        ),
        (
            "eventbridge-rule",
            &["RULE_ARN", "TARGET_ARN", "ERROR_MESSAGE"],
            "com.example.shop (Order placed): NO_PERMISSIONS (MaximumRetryAttempts)",
        ),
        ("eventbridge-bus", &["ERROR_MESSAGE"], "com.example.shop (Order placed): NO_PERMISSIONS"),
    ] {
        let mut message = fixture_message(name);
        for attribute in missing {
            message.attributes.remove(*attribute);
        }
        message.attributes.insert("SOMETHING_NEW".to_owned(), Attribute::string("1"));
        let read = ForeignDeadLetter::from_message(&message).unwrap();
        assert_eq!(
            (read.writer, read.details().as_str()),
            (ForeignWriter::EventBridge, expected),
            "{name} {missing:?}"
        );
    }
}

#[test]
fn foreign_dead_letters_are_grouped_by_source_and_error() {
    let fingerprint_after_change = |name: &str, from: &str, to: &str| {
        let mut message = fixture_message(name);
        assert!(message.body.contains(from));
        message.body = message.body.replace(from, to);
        ForeignDeadLetter::from_message(&message).unwrap().fingerprint()
    };
    let fixture_fingerprint = |name| read_fixture(name).fingerprint();
    let order = fixture_fingerprint("lambda-destination");
    assert_eq!(fingerprint_after_change("lambda-destination", "order 7 ", "order 8 "), order);
    assert_ne!(fingerprint_after_change("lambda-destination", "is locked", "is gone"), order);
    assert_ne!(fingerprint_after_change("lambda-destination", "OrderLocked", "OrderGone"), order);
    assert_ne!(fingerprint_after_change("lambda-destination", "function:orders", "function:bills"), order);
    assert_ne!(fingerprint_after_change("lambda-destination", "RetriesExhausted", "EventAgeExceeded"), order);
    let batch = fixture_fingerprint("lambda-kinesis");
    assert_eq!(
        fingerprint_after_change("lambda-kinesis", "shardId-000000000001", "shardId-000000000002"),
        batch
    );
    assert_ne!(fingerprint_after_change("lambda-kinesis", "stream/clicks", "stream/orders"), batch);
    let all: std::collections::BTreeSet<_> =
        FIXTURES.iter().map(|(name, _)| fixture_fingerprint(name)).collect();
    assert_eq!(all.len(), FIXTURES.len());
}

#[test]
fn a_message_in_an_undocumented_format_is_not_recognized() {
    let attributes = |names: &[(&str, &str)]| -> Attributes {
        names.iter().map(|(name, text)| ((*name).to_owned(), Attribute::string(*text))).collect()
    };
    let success = fixture_message("lambda-destination").body.replace("RetriesExhausted", "Success");
    for body in [
        "",
        "{}",
        "null",
        "\"requestContext\"",
        r#"{"requestContext":{"functionArn":"f"}}"#,
        r#"{"requestContext":["f","RetriesExhausted",1]}"#,
        r#"{"context":{"partnerResourceArn":"p","condition":"c"}}"#,
        r#"{"busArn":"b","subscriberArn":"s","errorCode":"e"}"#,
        r#"{"busArn":"b","subscriberArn":"s","errorCode":"e","failedMessages":[{}]}"#,
        r#"["b","subscriberArn","s","e",[]]"#,
        r#"{"Type":"SubscriptionConfirmation","TopicArn":"arn:aws:sns:a:b:c","MessageId":"m","Message":"x"}"#,
        r#"{"Type":"Notification","TopicArn":"orders","MessageId":"m","Message":"x"}"#,
        r#"["Notification","arn:aws:sns:a:b:c","m","x"]"#,
        &success,
    ] {
        assert_eq!(ForeignDeadLetter::from_message(&foreign_message(body, 1)), None, "{body}");
    }
    for names in [
        &[("ERROR_CODE", "x")][..],
        &[("RULE_ARN", "x")],
        &[("SCHEDULE_ARN", "x"), ("ERROR_MESSAGE", "x")],
        &[("SUBSCRIBER_ARN", "x"), ("BUS_ARN", "x")],
        &[("RequestID", "x"), ("ErrorMessage", "x")],
        &[("RequestID", "x"), ("ErrorCode", "E17")],
        &[("ErrorCode", "200")],
    ] {
        assert_eq!(
            ForeignDeadLetter::from_message(&received_message("x", attributes(names), 1)),
            None,
            "{names:?}"
        );
    }
}

#[test]
fn a_notification_that_sqs_moved_is_not_blamed_on_sns() {
    let mut message = fixture_message("sns-subscription");
    message.redriven_from = Some("arn:aws:sqs:us-east-2:123456789012:subscribed".to_owned());
    assert_eq!(ForeignDeadLetter::from_message(&message).unwrap().writer, ForeignWriter::Sqs);
}

#[test]
fn foreign_text_of_any_length_is_truncated_and_cleaned() {
    let long = "\u{1b}[31m".repeat(100_000);
    let names = ["RULE_ARN", "ERROR_CODE", "ERROR_MESSAGE", "EXHAUSTED_RETRY_CONDITION", "RETRY_ATTEMPTS"];
    let attributes = names.map(|name| (name.to_owned(), Attribute::string(long.clone())));
    let read = ForeignDeadLetter::from_message(&received_message("x", attributes.into(), 1)).unwrap();
    assert!(read.source.len() <= ARN_BYTES_MAX && read.details().len() <= ERROR_DETAILS_BYTES_MAX);
    assert!(read.error_type.len() <= ERROR_TYPE_BYTES_MAX && read.attempts.is_none());
    assert!(!read.details().contains('\u{1b}'));
    let late =
        fixture_message("lambda-kinesis").body.replace("2026-11-14T00:38:04.835Z", "9999-12-31T23:59:59Z");
    let batch = ForeignDeadLetter::from_message(&foreign_message(&late, 1)).unwrap().batch.unwrap();
    assert!(batch.record_retention().contains("starts to delete them at "), "{}", batch.record_retention());
}

proptest! {
    /// A documented message with a changed byte or a truncated end is either read or ignored, without a panic.
    #[test]
    fn no_mutated_foreign_message_makes_the_reader_panic(
        which in 0..FIXTURES.len(),
        place in any::<prop::sample::Index>(),
        inserted in "\\PC{0,8}",
        cut in any::<bool>(),
        moved in any::<bool>(),
    ) {
        let mut message = fixture_message(FIXTURES[which].0);
        if !moved {
            message.redriven_from = None;
        }
        let mutate = |text: &str| {
            let place = text.floor_char_boundary(place.index(text.len() + 1));
            let rest = if cut { "" } else { &text[place..] };
            format!("{}{inserted}{rest}", &text[..place])
        };
        message.body = mutate(&message.body);
        message.attributes = message
            .attributes
            .into_iter()
            .map(|(name, attribute)| (name, Attribute::string(mutate(attribute.text().unwrap_or_default()))))
            .collect();
        if let Some(foreign) = ForeignDeadLetter::from_message(&message) {
            prop_assert!(foreign.details().len() <= ERROR_DETAILS_BYTES_MAX);
            prop_assert_eq!(foreign.fingerprint().len(), 16);
            prop_assert!(foreign.remarks().len() <= 2);
        }
    }
}

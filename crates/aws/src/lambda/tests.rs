use std::sync::Mutex;

use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use serde_json::{Value, json};

use super::*;

/// A function that records the received messages and fails those with the body `fails`.
#[derive(Default)]
struct RecordingFunction(Mutex<Vec<String>>, Mutex<u32>);

/// A [`RecordingFunction`] that keeps the order within each group.
#[derive(Default)]
struct OrderedFunction(RecordingFunction);

impl Function for OrderedFunction {
    fn begin_invocation(&self, request_id: &str) {
        self.0.begin_invocation(request_id);
    }

    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        self.0.process_batch(records, deadline).await
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

impl Function for RecordingFunction {
    fn begin_invocation(&self, request_id: &str) {
        assert_eq!(request_id, "request-1");
        *self.1.lock().unwrap() += 1;
    }

    async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
        assert_eq!(*self.1.lock().unwrap(), 1, "the log lines must have the invocation's request id");
        self.0.lock().unwrap().extend(records.iter().map(|record| record.sqs_message_id.clone()));
        let processed = records.into_iter().filter(|record| record.body != "fails");
        processed.map(|record| record.into_receipt().confirm()).collect()
    }
}

fn context(deadline: u64) -> Context {
    let mut context = Context::default();
    context.deadline = deadline;
    "request-1".clone_into(&mut context.request_id);
    context
}

/// Returns the response, the ids that the function received, and the ids that the observer received.
async fn outcome(records: &[Value]) -> (Result<Value, String>, Vec<String>, Vec<String>) {
    let (function, noted) = (RecordingFunction::default(), RecordingObserver::default());
    let event = json!({ "Records": records }).to_string();
    let answer = handle_invocation(&function, &noted, &(), &event, &context(1_750_000_030_000)).await;
    let answer = answer.map(|response| serde_json::to_value(response).unwrap());
    let given = function.0.into_inner().unwrap();
    (answer.map_err(|error| Diagnostic::from(error).error_message), given, noted.0.into_inner().unwrap())
}

/// An observer that records the ids of unreadable records.
#[derive(Default)]
struct RecordingObserver(Mutex<Vec<String>>);

impl Observer for RecordingObserver {
    fn observe(&self, event: &Event) {
        let Event::UnreadableRecord { sqs_message_id } = event else { panic!("{event:?}") };
        self.0.lock().unwrap().push(sqs_message_id.clone());
    }
}

fn record(id: &str, body: &str) -> Value {
    json!({
        "messageId": id,
        "body": body,
        "attributes": { "SentTimestamp": "1750000000123" },
        "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
    })
}

/// Returns a record whose attribute has no value of its type.
fn unreadable_record(id: &str) -> Value {
    let mut record = record(id, "{}");
    record["messageAttributes"] = json!({ "a": { "dataType": "Binary", "stringValue": "CANARY" } });
    record
}

fn failures(ids: &[&str]) -> Value {
    let failures: Vec<_> = ids.iter().map(|id| json!({ "itemIdentifier": id })).collect();
    json!({ "batchItemFailures": failures })
}

#[tokio::test]
async fn an_unreadable_record_is_reported_and_the_others_are_processed() {
    let records = [
        record("a", "{}"),
        unreadable_record("b"),
        record("c", "fails"),
        unreadable_record("d"),
        record("e", "{}"),
    ];
    let (answer, given, noted) = outcome(&records).await;
    assert_eq!(answer, Ok(failures(&["b", "c", "d"])), "SQS deletes all other messages");
    assert_eq!(given, ["a", "c", "e"]);
    assert_eq!(noted, ["b", "d"]);
}

/// If the group continued, its later messages would overtake the unreadable one.
#[tokio::test]
async fn an_unreadable_record_stops_its_group_in_an_ordered_batch() {
    let in_group = |mut record: Value, group: &str| {
        record["attributes"]["MessageGroupId"] = group.into();
        record
    };
    let records = [
        in_group(record("1", "{}"), "a"),
        in_group(unreadable_record("2"), "a"),
        in_group(record("3", "{}"), "a"),
        in_group(record("4", "{}"), "b"),
        in_group(record("5", "{}"), "a"),
    ];
    let mut group_unknown = records.clone();
    group_unknown[1] = unreadable_record("2");
    for (records, called, reported) in [
        (&records, &["1", "4"][..], &["2", "3", "5"][..]),
        // The unreadable record's group is unknown, so each later record might belong to it.
        (&group_unknown, &["1"], &["2", "3", "4", "5"]),
    ] {
        let (function, noted) = (OrderedFunction::default(), RecordingObserver::default());
        let event = json!({ "Records": records }).to_string();
        let answer = handle_invocation(&function, &noted, &(), &event, &context(1_750_000_030_000)).await;
        assert_eq!(serde_json::to_value(answer.unwrap()).unwrap(), failures(reported));
        assert_eq!(*function.0.0.lock().unwrap(), called);
        assert_eq!(*noted.0.lock().unwrap(), ["2"], "only the unreadable record is reported as unreadable");
    }
}

#[tokio::test]
async fn a_batch_with_only_unreadable_records_is_reported_in_full() {
    let (answer, given, _) = outcome(&[unreadable_record("a"), unreadable_record("b")]).await;
    assert_eq!((answer, given), (Ok(failures(&["a", "b"])), vec![]));
}

#[tokio::test]
async fn a_record_without_an_id_fails_the_invocation_before_any_call() {
    for unnamed in [json!({ "body": "CANARY" }), json!({ "messageId": "", "body": "CANARY" })] {
        let (answer, given, noted) = outcome(&[record("a", "{}"), unnamed]).await;
        let why = "record 1 of the event has no messageId, so it could not be reported as failed";
        assert_eq!(answer, Err(why.to_owned()), "SQS then deletes no message");
        assert_eq!((given.len(), noted.len()), (0, 0));
    }
}

#[tokio::test]
async fn a_panic_fails_the_invocation_without_revealing_its_message() {
    struct PanickingFunction;
    impl Function for PanickingFunction {
        async fn process_batch(&self, _: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            panic!("CANARY")
        }
    }
    let event = json!({ "Records": [record("a", "{}")] }).to_string();
    let error =
        handle_invocation(&PanickingFunction, &RecordingObserver::default(), &(), &event, &context(0)).await;
    let Diagnostic { error_type, error_message } = error.unwrap_err().into();
    assert_eq!(error_type, "Panic");
    assert_eq!(error_message, "the function panicked; SQS delivers the whole batch again");
}

/// A warm-up plugin that invokes the function shows this error.
#[tokio::test]
async fn an_event_that_is_not_from_sqs_fails_with_a_named_error() {
    for event in [
        r#"{"source":"serverless-plugin-warmup"}"#,
        "{}",
        "null",
        "[]",
        r#"{"Records":[{"eventSource":"aws:s3"}]}"#,
    ] {
        let error = handle_invocation(
            &RecordingFunction::default(),
            &RecordingObserver::default(),
            &(),
            event,
            &context(0),
        )
        .await;
        let Diagnostic { error_type, error_message } = error.unwrap_err().into();
        assert_eq!(error_type, "NotAnSqsEvent", "{event}");
        assert_eq!(
            error_message,
            "expected an SQS event, {\"Records\":[…]}; invoke this function through an event source mapping on its \
             queue, and leave it out of warm-up plugins and schedules"
        );
    }
}

fn response(failed: &[&str]) -> String {
    serde_json::to_string(&BatchResponse::new(failed.iter().map(ToString::to_string))).unwrap()
}

#[test]
fn failed_records_are_listed_as_an_event_source_mapping_expects() {
    assert_eq!(response(&["a"]), r#"{"batchItemFailures":[{"itemIdentifier":"a"}]}"#);
    assert_eq!(
        response(&["b", "a", "b"]),
        r#"{"batchItemFailures":[{"itemIdentifier":"a"},{"itemIdentifier":"b"}]}"#
    );
}

#[test]
fn a_batch_without_failures_has_an_empty_failure_list() {
    assert_eq!(response(&[]), r#"{"batchItemFailures":[]}"#);
}

/// A guest that always returns this response.
struct RespondingGuest(Result<&'static str, &'static str>);

impl Guest for RespondingGuest {
    fn begin_invocation(&self, _: &str, _: Option<&str>) {}

    fn is_own_queue(&self, queue_arn: &str) -> bool {
        queue_arn == "arn:aws:sqs:eu-central-1:123456789012:orders"
    }

    async fn handle_other_event(
        &self,
        event: &str,
        _: &Context,
        end: Timestamp,
    ) -> Option<Result<Box<RawValue>, Diagnostic>> {
        assert_eq!(end.timestamp_millis(), 1_750_000_030_000);
        assert!(!event.contains(":orders"), "{event}");
        let failed = |text: &str| Diagnostic { error_type: text.to_owned(), error_message: text.to_owned() };
        Some(self.0.map(|text| RawValue::from_string(text.to_owned()).unwrap()).map_err(failed))
    }

    async fn resume_after_restore(&self) {}
}

/// If redeliver handled this batch, and the other queue's mapping lacked `ReportBatchItemFailures`, a message with an
/// unconfirmed hand-off would be deleted.
#[tokio::test]
async fn a_batch_from_another_queue_is_passed_to_the_guest() {
    let function = RecordingFunction::default();
    let from_refunds = |mut record: Value| {
        record["eventSourceARN"] = "arn:aws:sqs:eu-central-1:123456789012:refunds".into();
        record
    };
    let guest = RespondingGuest(Ok("null"));
    for (records, answer, given) in [
        (json!([record("a", "{}")]), r#"{"batchItemFailures":[]}"#, &["a"][..]),
        (json!([from_refunds(record("b", "{}"))]), "null", &["a"]),
        (json!([from_refunds(unreadable_record("c"))]), "null", &["a"]),
    ] {
        let event = json!({ "Records": records }).to_string();
        let outcome = handle_invocation(
            &function,
            &RecordingObserver::default(),
            &guest,
            &event,
            &context(1_750_000_030_000),
        )
        .await;
        assert_eq!(serde_json::to_string(&outcome.unwrap()).unwrap(), answer);
        assert_eq!(*function.0.lock().unwrap(), given);
    }
}

#[tokio::test]
async fn an_event_from_another_service_is_passed_to_the_guest_whose_error_is_not_logged() {
    let invoke = async |answer| {
        let event = r#"{"Records":[{"eventSource":"aws:s3"}]}"#;
        handle_invocation(
            &RecordingFunction::default(),
            &RecordingObserver::default(),
            &RespondingGuest(answer),
            event,
            &context(1_750_000_030_000),
        )
        .await
    };
    let answer = serde_json::to_string(&invoke(Ok(r#"{ "n": 1.0 }"#)).await.unwrap()).unwrap();
    assert_eq!(answer, r#"{ "n": 1.0 }"#);
    let error = invoke(Err("canary")).await.unwrap_err();
    assert_eq!(format!("{error:?}"), "the function's own error");
    assert_eq!(Diagnostic::from(error).error_message, "canary");
}

/// If the guest received the batch, its response would be returned to Lambda, and a batch with unknown outcomes would
/// be deleted.
#[tokio::test]
async fn a_record_without_an_id_fails_the_batch_and_bypasses_the_guest() {
    let with_source = json!({ "eventSource": "aws:sqs", "body": "{}" });
    for unnamed in [with_source, json!({ "body": "{}" })] {
        let event = json!({ "Records": [record("a", "{}"), unnamed] }).to_string();
        let guest = RespondingGuest(Ok("null"));
        let answer = handle_invocation(
            &RecordingFunction::default(),
            &RecordingObserver::default(),
            &guest,
            &event,
            &context(0),
        )
        .await;
        let why = "record 1 of the event has no messageId, so it could not be reported as failed";
        assert_eq!(Diagnostic::from(answer.unwrap_err()).error_message, why);
    }
}

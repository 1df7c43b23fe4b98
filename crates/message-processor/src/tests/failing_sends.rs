//! If the reason for a failure cannot be sent, the record is reported as failed, and the source queue's redrive policy
//! moves the message.

use redeliver_core::failure::FAILURE;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::Attribute;
use redeliver_core::ports::{Queue as _, QueueSettings, RedriveSettings};
use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

/// Makes records 3 and 7 of ten fail.
fn setup_with_two_failures() -> Setup {
    Setup::new().failing(3, busy_error()).failing(7, busy_error())
}

fn always() -> FaultTrigger {
    FaultTrigger::Chance(1.0)
}

/// Returns the SQS message id and the error code of each unconfirmed send.
fn unconfirmed_sends(setup: &Setup) -> Vec<(String, String)> {
    let events = setup.world.seen.events();
    let codes = events.into_iter().filter_map(|event| match event {
        Event::NotConfirmed { sqs_message_id, code, .. } => Some((sqs_message_id, code)),
        _ => None,
    });
    codes.collect()
}

#[test]
fn a_failing_record_with_ten_attributes_is_handed_off_with_one_of_them_folded() {
    let setup = setup_with_two_failures();
    let mut records = ten_records();
    records[3].attributes = ten_attributes();
    assert_eq!(setup.process(records, 30), [""; 0]);
    let sent = setup.intermediate.sent_contents();
    assert_eq!((sent[0].attributes.len(), sent[0].trace_header.as_deref()), (10, None));
    let folded = &attribute_document(&sent[0].attributes, FAILURE)["folded_attributes"];
    assert_eq!(folded.as_object().unwrap().len(), 1);
    assert_eq!(
        redeliver_core::arrival::split_producer_attributes(sent[0].attributes.clone()).attributes,
        ten_attributes()
    );
}

#[test]
fn a_failing_record_that_sqs_would_refuse_is_left_to_be_redriven() {
    let setup = setup_with_two_failures();
    let mut records = ten_records();
    records[3].attributes.insert("a b".to_owned(), Attribute::string("x"));
    assert_eq!(setup.process(records, 30), ["sqs-3"]);
    assert_eq!(setup.intermediate.only_sent_content().body, nth_body(7), "the other record is handed off");
    assert_eq!(unconfirmed_sends(&setup), [("sqs-3".to_owned(), "AttributeName".to_owned())]);
}

/// Without the trace header, SQS would move the message without its reason, and the call might be repeated.
#[test]
fn a_failing_record_of_1_mib_is_handed_off_with_its_reason_in_the_trace_header() {
    let setup = setup_with_two_failures();
    let mut records = ten_records();
    records[3].body = body_of_size(3, MESSAGE_BYTES_MAX);
    assert_eq!(setup.process(records, 30), [""; 0]);
    let [full, other] = setup.intermediate.sent_contents().try_into().unwrap();
    assert_eq!((full.body.len(), full.attributes.is_empty()), (MESSAGE_BYTES_MAX, true));
    assert!(
        full.trace_header
            .unwrap()
            .starts_with("Root=1-00000000-000000000000000000000000;Sampled=0;Redeliver=")
    );
    assert_eq!((other.body, other.trace_header), (nth_body(7), None));
}

#[test]
fn a_failing_record_of_almost_1_mib_is_handed_off_with_its_details_cut() {
    let details = "long ".repeat(200);
    let setup = Setup::new().failing(1, HandlerError::transient("Db.Busy", &details));
    let body = body_of_size(1, MESSAGE_BYTES_MAX - 350);
    assert_eq!(setup.process(vec![nth_record(1, &*body)], 30), [""; 0]);
    let sent = setup.intermediate.only_sent_content();
    assert_eq!(sent.body, body);
    let document = attribute_document(&sent.attributes, FAILURE);
    assert_eq!(document["type"], "Db.Busy");
    assert_eq!(document["source_message_id"], "sqs-1");
    let cut = document["details"].as_str().unwrap();
    assert!(cut.starts_with("long ") && cut.ends_with('…'), "{cut}");
    let sent = redeliver_core::message::OutgoingMessage::new(sent).unwrap();
    assert_eq!(sent.size(), MESSAGE_BYTES_MAX, "as much of the details is kept as fits");
}

#[test]
fn ten_failing_records_totalling_1_mib_are_split_into_batches() {
    let setup = (0..10).fold(Setup::new(), |setup, n| setup.failing(n, busy_error()));
    let records = (0..10).map(|n| nth_record(n, body_of_size(n, MESSAGE_BYTES_MAX / 10))).collect();
    assert_eq!(setup.process(records, 30), [""; 0]);
    assert_eq!(setup.intermediate.receive_all().len(), 10);
    assert_eq!(setup.world.sqs.request_counts()["SendMessageBatch"], 2);
}

#[test]
fn a_refused_hand_off_is_reported_immediately() {
    let setup = setup_with_two_failures();
    setup.world.fail_sends(&setup.intermediate, FaultScope::Request, always(), Injection::Sender);
    assert_eq!(setup.process(ten_records(), 30), ["sqs-3", "sqs-7"]);
    assert_eq!(setup.world.elapsed_seconds(), 0);
    assert_eq!(setup.intermediate.sent_contents().len(), 2, "a retry would fail in the same way");
}

#[test]
fn only_the_refused_entry_of_a_batch_is_reported() {
    let setup = setup_with_two_failures();
    setup.world.fail_sends(
        &setup.intermediate,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![1]),
        Injection::Sender,
    );
    assert_eq!(setup.process(ten_records(), 30), ["sqs-3"]);
    let arrived: Vec<_> = setup.intermediate.receive_all().into_iter().map(|record| record.body).collect();
    assert_eq!(arrived, [nth_body(7)]);
    assert_eq!(unconfirmed_sends(&setup), [("sqs-3".to_owned(), "InvalidParameterValue".to_owned())]);
}

#[test]
fn an_endlessly_throttled_send_is_reported_before_the_deadline() {
    let setup = setup_with_two_failures();
    setup.world.fail_sends(&setup.intermediate, FaultScope::Request, always(), Injection::Throttled);
    assert_eq!(setup.process(ten_records(), 30), ["sqs-3", "sqs-7"]);
    assert!((20..30).contains(&setup.world.elapsed_seconds()), "{} s", setup.world.elapsed_seconds());
    assert!(setup.intermediate.receive_all().is_empty());
}

#[test]
fn a_send_error_that_ends_in_time_is_not_reported() {
    for (injection, failing) in [
        (Injection::Throttled, vec![1, 2, 3, 4]),
        (Injection::Service, vec![1]),
        (Injection::LostRequest, vec![1]),
    ] {
        let setup = setup_with_two_failures();
        setup.world.fail_sends(
            &setup.intermediate,
            FaultScope::Request,
            FaultTrigger::Numbers(failing),
            injection,
        );
        assert_eq!(setup.process(ten_records(), 30), [""; 0], "{injection:?}");
        let arrived: Vec<_> =
            setup.intermediate.receive_all().into_iter().map(|record| record.body).collect();
        assert_eq!(arrived, [nth_body(3), nth_body(7)], "each record is sent once");
    }
}

#[test]
fn a_throttled_entry_is_sent_again_without_the_others() {
    let setup = setup_with_two_failures();
    setup.world.fail_sends(
        &setup.intermediate,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![2]),
        Injection::Throttled,
    );
    assert_eq!(setup.process(ten_records(), 30), [""; 0]);
    let sent: Vec<_> = setup.intermediate.sent_contents().into_iter().map(|content| content.body).collect();
    assert_eq!(sent, [nth_body(3), nth_body(7), nth_body(7)]);
}

#[test]
fn a_lost_response_creates_a_copy_but_no_failure_if_the_retry_succeeds() {
    let setup = setup_with_two_failures();
    setup.world.fail_sends(
        &setup.intermediate,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![1]),
        Injection::LostResponse,
    );
    assert_eq!(setup.process(ten_records(), 30), [""; 0]);
    let arrived: Vec<_> = setup.intermediate.receive_all().into_iter().map(|record| record.body).collect();
    assert_eq!(arrived, [nth_body(3), nth_body(3), nth_body(7)]);
}

#[test]
fn hand_offs_without_any_response_are_reported_although_they_arrived() {
    let setup = setup_with_two_failures();
    setup.world.fail_sends(&setup.intermediate, FaultScope::Request, always(), Injection::LostResponse);
    assert_eq!(setup.process(ten_records(), 30), ["sqs-3", "sqs-7"], "at least once: a copy, but no loss");
    assert_eq!(setup.intermediate.receive_all().len(), 4, "each record is sent twice, but not more often");
}

#[test]
fn an_unanswered_hand_off_is_sent_twice_and_a_redrive_adds_a_copy() {
    // The maximum in docs/guarantees.md, for one receive: 2 × 1 + 1.
    let world = FunctionWorld::new();
    let intermediate = world.add_queue("intermediate");
    let redrive = RedriveSettings { target_arn: intermediate.queue.arn().to_owned(), max_receive_count: 1 };
    let visibility = VisibilitySeconds::new(180).unwrap();
    let settings = QueueSettings { visibility, redrive: Some(redrive), ..QueueSettings::default() };
    let source = world.add_queue_with_settings("redriven", &settings);
    let record = send_and_receive(&source, Content { body: nth_body(3), ..Content::default() });
    let silent = intermediate.clone().with_pauses(Duration::ZERO, Duration::from_secs(3600));
    let setup =
        Setup { handler: setup_with_two_failures().handler, intermediate: silent, world, ..Setup::new() };
    let setup =
        Setup { handler: ScriptedHandler { clock: setup.world.clock.clone(), ..setup.handler }, ..setup };
    assert_eq!(setup.process(vec![record.clone()], 30), [record.sqs_message_id]);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(180)));
    assert!(source.receive_all().is_empty(), "SQS has moved the message");
    let arrived: Vec<_> = intermediate.receive_all().into_iter().map(|record| record.body).collect();
    assert_eq!(arrived, [nth_body(3), nth_body(3), nth_body(3)]);
}

#[test]
fn a_queue_that_never_answers_is_abandoned_before_the_deadline() {
    let setup = setup_with_two_failures();
    let never = Duration::from_secs(3600);
    let setup =
        Setup { intermediate: setup.intermediate.clone().with_pauses(never, Duration::ZERO), ..setup };
    assert_eq!(setup.process(ten_records(), 30), ["sqs-3", "sqs-7"]);
    assert_eq!(setup.world.clock.now() - start_time(), chrono::TimeDelta::milliseconds(29_500));
}

#[test]
fn a_failing_queue_does_not_affect_the_other_queue() {
    let setup = Setup::new().failing(3, busy_error());
    setup.world.fail_sends(&setup.annotation, FaultScope::Request, always(), Injection::Throttled);
    let mut records = ten_records();
    records[5].body = "{}".to_owned();
    assert_eq!(setup.process(records, 30), ["sqs-5"]);
    assert_eq!(setup.intermediate.receive_all().len(), 1);
}

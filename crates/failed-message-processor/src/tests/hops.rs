//! Long delays, for which a message hops on its own queue.

use redeliver_core::arrival::split_producer_attributes;
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

const HOURS: &str = r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":7200,"jitter":"none"}}"#;

#[test]
fn a_long_delay_is_a_hop_with_its_due_time_and_an_unchanged_body() {
    let setup = Setup::with_policy(HOURS);
    let producer = producer_attributes();
    let mut record = handed_off_message(1, nth_body(1), &busy_failure(1));
    record.attributes.extend(producer.clone());
    record.message_group_id = Some("tenant".to_owned());
    record.trace_header = Some("Root=1".to_owned());
    assert!(setup.process(vec![record]).is_empty());
    assert!(setup.source.sent_contents().is_empty() && setup.annotation.sent_contents().is_empty());
    let hop = setup.intermediate.only_sent_content();
    assert_eq!((hop.body, hop.delay.get()), (nth_body(1), 900));
    assert_eq!(
        (hop.message_group_id.as_deref(), hop.trace_header.as_deref()),
        (Some("tenant"), Some("Root=1"))
    );
    // The message failed a second ago.
    assert_eq!(
        attribute_document(&hop.attributes, FAILURE),
        with_members(busy_failure(1), json!({"due_at": format_time_at(7199)}))
    );
    let mut attributes = hop.attributes;
    attributes.remove(FAILURE);
    assert_eq!(attributes, producer);
    assert_eq!(setup.world.seen.events(), [Event::Hopped { messages: 1 }]);
}

#[test]
fn a_batchs_confirmed_hops_are_reported_in_one_event() {
    let setup = Setup::with_policy(HOURS);
    setup.world.fail_sends(
        &setup.intermediate,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![4]),
        Injection::Sender,
    );
    assert_eq!(
        setup.process((0..10).map(|n| handed_off_message(n, nth_body(n), &busy_failure(n))).collect()),
        ["sqs-3"]
    );
    let events = setup.world.seen.events();
    assert!(events.contains(&Event::Hopped { messages: 9 }), "{events:?}");
    assert_eq!(events.len(), 2, "one event for the hops, and one for the unconfirmed hop: {events:?}");
}

#[test]
fn a_hop_ignores_the_body_and_ends_when_the_message_is_due() {
    let setup = Setup::with_policy(HOURS);
    let hopping = |due: i64| with_members(busy_failure(1), json!({"due_at": format_time_at(due)}));
    assert!(setup.process(vec![handed_off_message(1, "not even JSON", &hopping(901))]).is_empty());
    assert_eq!(setup.intermediate.only_sent_content().body, "not even JSON");
    assert_eq!(
        attribute_document(&setup.intermediate.only_sent_content().attributes, FAILURE),
        hopping(901),
        "no attribute is added"
    );

    let setup = Setup::with_policy(HOURS);
    assert!(setup.process(vec![handed_off_message(1, nth_body(1), &hopping(900))]).is_empty());
    let resend = setup.source.only_sent_content();
    assert_eq!(resend.delay.get(), 900);
    assert!(!resend.attributes.contains_key(FAILURE));
    let metadata = MessageSchema::default().parse_envelope(&resend.body).unwrap().metadata;
    assert_eq!((metadata.retry_attempt, metadata.retry_history.len()), (1, 1));
    let events = setup.world.seen.events();
    let [Event::RetryScheduled { delay_seconds, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(delay_seconds.get(), 901, "counted from the failure");
}

#[test]
fn a_body_that_became_invalid_while_waiting_gets_a_verdict() {
    let setup = Setup::with_policy(HOURS);
    let hopping = with_members(busy_failure(1), json!({"due_at": format_time_at(10)}));
    assert!(setup.process(vec![handed_off_message(1, "not even JSON", &hopping)]).is_empty());
    let verdict = setup.verdict();
    assert_eq!(verdict["verdict"], "INVALID_MESSAGE_FORMAT");
    assert_eq!(verdict.get("due_at"), None);
}

/// Returns a message that reached the intermediate DLQ without a recorded reason.
fn unexplained_message(body: impl Into<String>) -> ReceivedMessage {
    ReceivedMessage { queue_arn: INTERMEDIATE_ARN.to_owned(), ..nth_record(1, body) }
}

#[test]
fn a_hop_folds_and_restores_ten_attributes() {
    let setup = Setup::with_policy(HOURS);
    let record = ReceivedMessage { attributes: ten_attributes(), ..unexplained_message(nth_body(1)) };
    assert!(setup.process(vec![record]).is_empty());
    let hop = setup.intermediate.only_sent_content();
    assert_eq!(hop.attributes.len(), 10);
    assert_eq!(split_producer_attributes(hop.attributes.clone()).attributes, ten_attributes());

    let again = Setup::with_policy(HOURS);
    again.world.clock.block_on(again.world.clock.sleep(Duration::from_secs(7000)));
    let record = ReceivedMessage {
        attributes: hop.attributes,
        queue_arn: INTERMEDIATE_ARN.to_owned(),
        ..busy_message(hop.body)
    };
    assert!(again.process(vec![record]).is_empty());
    assert_eq!(again.source.only_sent_content().attributes, ten_attributes());
    assert_eq!(again.source.only_sent_content().delay.get(), 200);
}

fn busy_message(body: String) -> ReceivedMessage {
    nth_record(1, body)
}

#[test]
fn a_message_with_little_room_hops_with_its_due_time_and_error_kind() {
    let setup = Setup::with_policy(HOURS);
    // The retry's metadata fits, but not the whole document.
    let whole = body_of_size(1, MESSAGE_BYTES_MAX - 150);
    assert!(setup.process(vec![unexplained_message(whole.clone())]).is_empty());
    assert!(setup.annotation.sent_contents().is_empty());
    let hop = setup.intermediate.only_sent_content();
    assert_eq!((hop.body, hop.delay.get()), (whole, 900));
    let failure = attribute_document(&hop.attributes, FAILURE);
    assert_eq!((&failure["type"], &failure["kind"]), (&json!("Redrive"), &json!("transient")));
    assert_eq!(
        (&failure["due_at"], &failure["source_queue_arn"]),
        (&json!(format_time_at(7200)), &Value::Null)
    );
}

#[test]
fn an_unconfirmed_hop_leaves_the_message_in_place() {
    let setup = Setup::with_policy(HOURS);
    setup.world.fail_sends(
        &setup.intermediate,
        redeliver_embedded::FaultScope::Request,
        redeliver_embedded::FaultTrigger::Chance(1.0),
        redeliver_embedded::Injection::Throttled,
    );
    let records = vec![
        handed_off_message(1, nth_body(1), &busy_failure(1)),
        handed_off_message(2, "rubbish", &busy_failure(2)),
    ];
    assert_eq!(setup.process(records), ["sqs-1"], "the verdict in the same batch is not affected");
}

#[test]
fn a_forged_due_time_on_a_moved_message_is_ignored() {
    let setup = Setup::with_policy(HOURS);
    let forged = with_members(busy_failure(1), json!({"due_at": format_time_at(7100)}));
    let record = ReceivedMessage {
        attributes: Attributes::from([(FAILURE.to_owned(), Attribute::string(forged.to_string()))]),
        ..redriven_message(1, nth_body(1))
    };
    assert!(setup.process(vec![record]).is_empty());
    let sent = setup.source.only_sent_content();
    assert!((2..=5).contains(&sent.delay.get()));
    assert!(sent.attributes.is_empty());
}

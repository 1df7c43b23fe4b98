//! Waiting records, which hop on their own queue.

use redeliver_embedded::{FaultScope, FaultTrigger, Injection};

use super::*;

#[test]
fn a_record_that_is_not_due_waits_unchanged_on_its_own_queue() {
    let setup = Setup::new(panic_if_invoked);
    let body = destination_record(1, &payload(1), 0);
    let mut record = received_record(1, body.clone());
    record.attributes = producer_attributes();
    record.attributes.insert(FAILURE.to_owned(), Attribute::string(r#"{"verdict":"MESSAGE_EXPIRED"}"#));
    record.message_group_id = Some("tenant".to_owned());
    record.trace_header = Some("Root=1".to_owned());
    assert!(setup.process(vec![record]).is_empty());
    let hop = setup.retry.only_sent_content();
    assert_eq!((hop.body, hop.delay.get()), (body, 900));
    assert_eq!(
        (hop.message_group_id.as_deref(), hop.trace_header.as_deref()),
        (Some("tenant"), Some("Root=1"))
    );
    assert_eq!(hop.attributes, producer_attributes(), "there is no `Failure`");
    assert_eq!(setup.world.seen.events(), [Event::Hopped { messages: 1 }]);
}

#[test]
fn the_last_hop_has_the_remaining_delay_rounded_up() {
    let setup = Setup::new(panic_if_invoked);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_millis(999_500)));
    assert!(setup.process(vec![received_record(1, destination_record(1, &payload(1), 0))]).is_empty());
    assert_eq!(setup.retry.only_sent_content().delay.get(), 1);
}

#[test]
fn an_unconfirmed_hop_fails_only_its_own_record() {
    let setup = Setup::new(accept_event);
    setup.world.fail_sends(
        &setup.retry,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![1]),
        Injection::Sender,
    );
    let waiting = |n| received_record(n, destination_record(n, &payload(n), 0));
    let failed = setup.process(vec![waiting(1), due_record(2), waiting(3)]);
    assert_eq!(failed, ["sqs-1"]);
    assert_eq!(setup.calls().len(), 1);
    let not_confirmed = setup.world.seen.events().into_iter().find_map(|event| match event {
        Event::NotConfirmed { sqs_message_id, send, .. } => Some((sqs_message_id, send)),
        _ => None,
    });
    assert_eq!(not_confirmed, Some(("sqs-1".to_owned(), "hop")));
    assert!(setup.world.seen.events().contains(&Event::Hopped { messages: 1 }), "only confirmed hops");
}

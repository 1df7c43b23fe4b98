//! An outage for one key holds only that key's messages.

use redeliver_core::decide::breaker::{Hold, HoldReason, Outage};
use redeliver_core::message::Attribute;

use super::*;
use crate::outcome::{AttemptOutcome, HeldSummary, summarize_held};

const A: &str = "a";
const B: &str = "b";

fn tenant_record(tenant: &str, n: usize) -> ReceivedMessage {
    record_in_group(tenant, nth_record(n, nth_body(n)))
}

fn record_in_group(tenant: &str, record: ReceivedMessage) -> ReceivedMessage {
    ReceivedMessage { message_group_id: Some(tenant.to_owned()), ..record }
}

/// Makes the calls for messages 0 to 99, which have key A, fail. The other messages have key B and succeed.
fn fail_tenant_a(setup: Setup) -> Setup {
    fail_every_call(setup)
}

fn calls_for_b(setup: &Setup) -> usize {
    setup.handler.called_message_ids().iter().filter(|called| **called >= nth_id(100)).count()
}

#[test]
fn only_the_tenant_with_failing_calls_is_held() {
    let setup = fail_tenant_a(Setup::new());
    for batch in 0..9 {
        let mut records: Vec<_> = (0..9).map(|n| tenant_record(A, batch * 10 + n)).collect();
        records.push(tenant_record(B, 100 + batch));
        setup.process(records, 30);
    }
    assert_eq!(calls_for_b(&setup), 9);
    // The second batch opened A's circuit.
    assert_eq!(
        (count_messages(&setup, FAILED), count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)),
        (9, 9, 63)
    );
}

#[test]
fn fifty_failures_after_ten_successes_hold_only_the_failing_tenant() {
    let setup = fail_tenant_a(Setup::new());
    setup.process((100..110).map(|n| tenant_record(B, n)).collect(), 30);
    (0..5).for_each(|batch| {
        drop(setup.process((0..10).map(|n| tenant_record(A, batch * 10 + n)).collect(), 30))
    });
    setup.process((110..120).map(|n| tenant_record(B, n)).collect(), 30);
    assert_eq!(calls_for_b(&setup), 20);
}

#[test]
fn a_held_message_in_a_new_environment_holds_only_its_tenant() {
    let setup = fail_tenant_a(Setup::new());
    let mut records = vec![record_in_group(A, held_message(0, 600, 700))];
    records.extend((100..109).map(|n| tenant_record(B, n)));
    setup.process(records, 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!(kinds_and_types(&setup), pairs([CALLED]), "A's message was the probe of A's circuit");
}

#[test]
fn a_tenants_outage_holds_no_other_tenant_in_any_order() {
    for order in 0..200_usize {
        let setup = fail_tenant_a(Setup::new());
        // The messages of A and B, shuffled by a step coprime to 127.
        let step = order % 126 + 1;
        let mut numbers: Vec<_> = (0..127).map(|place| (place * step + order) % 127).collect();
        numbers.rotate_left(order % 127);
        let records = numbers.iter().map(|n| tenant_record(if *n < 100 { A } else { B }, *n));
        let records: Vec<_> = records.collect();
        for batch in records.chunks(10) {
            setup.process(batch.to_vec(), 30);
        }
        assert_eq!(calls_for_b(&setup), 27, "{order}");
    }
}

/// If tenants waited for each other's probes, a tenant whose calls hang would block all others in its batch until the
/// end of the invocation.
#[test]
fn no_tenant_waits_for_another_tenants_probe() {
    let setup = Setup::new().on(0, Step::Hang);
    let mut records =
        vec![record_in_group(A, held_message(0, 600, 700)), record_in_group(A, held_message(1, 600, 700))];
    records.extend((100..108).map(|n| tenant_record(B, n)));
    setup.process(records, 30);
    assert_eq!(calls_for_b(&setup), 8);
    assert_eq!(kinds_and_types(&setup), pairs([("held", "Timeout"), NOT_CALLED]));
}

#[test]
fn no_tenant_waits_for_another_tenants_turn() {
    let refused = HandlerError::transient(ErrorType::HttpStatus(429), "HTTP 429");
    let setup = Setup::new().failing(0, refused).on(100, Step::Take(10));
    setup.process(vec![tenant_record(A, 0)], 30);
    setup.process(
        vec![tenant_record(B, 100), tenant_record(A, 1), tenant_record(B, 101), tenant_record(B, 102)],
        30,
    );
    assert_eq!(setup.handler.called_message_ids()[1..], [nth_id(100), nth_id(101), nth_id(102), nth_id(1)]);
}

#[test]
fn messages_without_a_key_have_their_own_circuit() {
    let setup = setup_with_open_circuit();
    setup.process((100..110).map(|n| tenant_record(B, n)).chain(records(10..20)).collect(), 30);
    assert_eq!(calls_for_b(&setup), 10);
    assert_eq!(setup.handler.calls().len(), 20);
}

/// With one circuit per tenant, an outage of the target would cost a thousand tenants ten thousand calls.
#[test]
fn failures_for_several_tenants_indicate_that_the_target_is_down() {
    let setup = fail_every_call(Setup::new());
    setup.process((0..10).map(|n| tenant_record(&format!("tenant-{n}"), n)).collect(), 30);
    setup.process((100..110).map(|n| tenant_record(B, n)).collect(), 30);
    assert_eq!(setup.handler.calls().len(), 10);
    assert_eq!((count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)), (10, 10));
}

#[test]
fn an_attribute_may_name_the_tenant() {
    let setup = fail_tenant_a(Setup::with_policy(r#"{"circuit_breaker":{"per":"attribute:tenant"}}"#));
    let tenant_message = |tenant: &str, n: usize| ReceivedMessage {
        attributes: Attributes::from([("tenant".to_owned(), Attribute::string(tenant))]),
        ..tenant_record("all messages of one group", n)
    };
    setup.process((0..10).map(|n| tenant_message(A, n)).collect(), 30);
    setup.process((100..110).map(|n| tenant_message(B, n)).collect(), 30);
    assert_eq!(calls_for_b(&setup), 10);
    setup.process((10..20).map(|n| tenant_message(A, n)).collect(), 30);
    assert_eq!(setup.handler.calls().len(), 20, "the first ten messages of A");
}

#[test]
fn a_circuit_for_the_whole_target_holds_all_messages() {
    let setup = fail_tenant_a(Setup::with_policy(r#"{"circuit_breaker":{"per":"target"}}"#));
    setup.process((0..10).map(|n| tenant_record(A, n)).collect(), 30);
    setup.process((100..110).map(|n| tenant_record(B, n)).collect(), 30);
    assert_eq!(calls_for_b(&setup), 0);
    assert_eq!((count_messages(&setup, CALLED), count_messages(&setup, NOT_CALLED)), (10, 10));
}

#[test]
fn holds_for_two_tenants_are_dated_from_the_earlier_outage() {
    let held = |reason, seconds| {
        let since = start_time() + chrono::TimeDelta::seconds(seconds);
        let outage = Outage { since, first_failures: 10 };
        AttemptOutcome::Held { hold: Hold { reason, outage, delay: Duration::from_secs(1) }, error: None }
    };
    let outcomes = [held(HoldReason::Down, 5), held(HoldReason::RateLimited, -5), held(HoldReason::Down, 0)];
    let HeldSummary { count, since, .. } = summarize_held(HoldReason::Down, outcomes.iter()).unwrap();
    assert_eq!((count, since), (2, start_time()));
}

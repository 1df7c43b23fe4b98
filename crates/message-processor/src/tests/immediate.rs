//! Immediate retries in the same invocation.

use super::*;

const TWICE: &str = r#"{"immediate":{"max_attempts":2,"delay_ms":100}}"#;

fn immediate_retry_events(setup: &Setup) -> Vec<(i64, Event)> {
    let events = setup.world.seen.timed_events().into_iter();
    let retried = events.filter(|(_, event)| matches!(event, Event::RetriedImmediately { .. }));
    retried.map(|(at, event)| ((at - start_time()).num_milliseconds(), event)).collect()
}

#[test]
fn a_blip_spends_no_delayed_retry() {
    let setup = Setup::with_policy(TWICE).on(1, Step::Blip(1));
    assert!(setup.process(vec![nth_record(1, nth_body(1))], 30).is_empty());
    assert!(setup.intermediate.sent_contents().is_empty());
    assert_eq!(setup.handler.called_message_ids(), [nth_id(1), nth_id(1)]);
    let error_type = "Db.Busy".to_owned();
    let event = Event::RetriedImmediately { message_id: nth_id(1), retry_attempt: 0, error_type };
    assert_eq!(immediate_retry_events(&setup), [(100, event)]);
    let processed =
        Event::Processed { message_id: nth_id(1), retry_attempt: 0, age_seconds: 10.1, target_seconds: 0.1 };
    assert!(setup.world.seen.events().contains(&processed));
}

#[test]
fn an_error_that_is_not_a_blip_is_handed_off_after_the_last_call() {
    let setup = Setup::with_policy(TWICE).failing(1, busy_error());
    assert!(setup.process(vec![nth_record(1, nth_body(1))], 30).is_empty());
    assert_eq!(setup.handler.calls().len(), 3);
    assert_eq!(immediate_retry_events(&setup).into_iter().map(|(at, _)| at).collect::<Vec<_>>(), [100, 200]);
    let handed_off = attribute_document(
        &setup.intermediate.only_sent_content().attributes,
        redeliver_core::failure::FAILURE,
    );
    assert_eq!(handed_off["type"], "Db.Busy");
}

#[test]
fn a_panic_is_retried_immediately() {
    let setup = Setup::with_policy(TWICE).on(1, Step::PanicInside);
    assert!(setup.process(vec![nth_record(1, nth_body(1))], 30).is_empty());
    assert_eq!(setup.handler.calls().len(), 3);
}

#[test]
fn immediate_retries_need_a_policy_and_a_nonpermanent_error() {
    let setup = Setup::new().failing(1, busy_error());
    setup.process(vec![nth_record(1, nth_body(1))], 30);
    assert_eq!(setup.handler.calls().len(), 1);
    let setup = Setup::with_policy(TWICE).failing(1, HandlerError::permanent("Gone", ""));
    setup.process(vec![nth_record(1, nth_body(1))], 30);
    assert_eq!(setup.handler.calls().len(), 1);
}

#[test]
fn no_immediate_retry_starts_past_the_call_deadline() {
    let policy = r#"{"immediate":{"max_attempts":10,"delay_ms":10000}}"#;
    let setup = Setup::with_policy(policy).failing(1, busy_error());
    assert!(setup.process(vec![nth_record(1, nth_body(1))], 30).is_empty());
    assert_eq!(setup.handler.calls().len(), 3, "calls at 0, 10 and 20 s; calls end at 25 s");
    let handed_off = attribute_document(
        &setup.intermediate.only_sent_content().attributes,
        redeliver_core::failure::FAILURE,
    );
    assert_eq!(handed_off["type"], "Db.Busy", "the known error is not replaced by Timeout");
}

#[test]
fn a_hanging_immediate_retry_keeps_the_known_error() {
    for step in [Step::FailThenHang, Step::FailThenNotStart] {
        let setup = Setup::with_policy(TWICE).on(1, step);
        assert!(setup.process(vec![nth_record(1, nth_body(1))], 30).is_empty());
        assert_eq!(setup.handler.calls().len(), 2);
        let handed_off = attribute_document(
            &setup.intermediate.only_sent_content().attributes,
            redeliver_core::failure::FAILURE,
        );
        assert_eq!((&handed_off["type"], &handed_off["kind"]), (&"Db.Busy".into(), &"transient".into()));
    }
}

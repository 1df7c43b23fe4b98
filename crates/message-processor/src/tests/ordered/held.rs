//! An outage: the order of a group whose messages have several circuits, and what a hold costs.

use redeliver_core::message::Attribute;

use super::*;

fn down() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503")
}

fn of(tenant: &str, group: &str, n: usize) -> ReceivedMessage {
    ReceivedMessage {
        attributes: Attributes::from([("tenant".to_owned(), Attribute::string(tenant))]),
        message_group_id: Some(group.to_owned()),
        ..record(n, body(n))
    }
}

/// Ten calls of tenant a, each of a group of its own, have opened its circuit.
fn a_is_down() -> Setup {
    let policy = Policy::from_json(r#"{"circuit_breaker":{"per":"attribute:tenant"}}"#).unwrap();
    let setup = (0..10).fold(setup(10), |setup, n| setup.failing(n, down()));
    let setup = Setup { policy, ..setup };
    setup.process((0..10).map(|n| of("a", &format!("group-{n}"), n)).collect(), 30);
    assert_eq!((setup.handler.calls().len(), held(&setup)), (10, 10));
    setup
}

/// The number of holds that were told.
fn held(setup: &Setup) -> u32 {
    let held = |event| if let Event::Held { messages, .. } = event { messages } else { 0 };
    setup.world.seen.events().into_iter().map(held).sum()
}

#[test]
fn an_outage_stops_its_group_like_any_failure() {
    let setup = a_is_down().failing(20, down());
    setup.process(vec![of("b", "one", 20), of("b", "one", 21), of("b", "two", 22)], 30);
    assert_eq!(setup.handler.called()[10..], [id(20), id(22)]);
}

#[test]
fn nothing_overtakes_a_held_message_although_its_own_tenant_is_up() {
    let setup = a_is_down();
    setup.process(vec![of("a", "one", 20), of("b", "one", 21), of("b", "two", 22)], 30);
    assert_eq!(setup.handler.called()[10..], [id(22)]);
    assert_eq!(held(&setup), 11);
}

#[test]
fn nothing_overtakes_a_message_that_waits_for_the_probe_of_another_group() {
    let setup = a_is_down().on(20, Step::Take(3));
    setup.sleep(600);
    setup.process(vec![of("a", "one", 20), of("a", "two", 21), of("b", "two", 22)], 30);
    assert_eq!(setup.handler.called()[10..], [id(20), id(21), id(22)]);
}

#[test]
fn nothing_overtakes_a_message_that_another_one_of_its_tenant_keeps_waiting() {
    let setup = a_is_down().on(20, Step::Take(3));
    setup.sleep(600);
    let waits = [of("a", "two", 21), of("a", "three", 22), of("b", "three", 23)];
    setup.process([vec![of("a", "one", 20)], waits.into()].concat(), 30);
    assert_eq!(setup.handler.called()[10..12], [id(20), id(21)]);
}

/// It would stay hidden for longer than the message that it waits for.
#[test]
fn a_message_behind_a_call_that_is_cut_off_is_not_held() {
    let setup = a_is_down().on(20, Step::Hang).on(22, Step::Hang);
    setup.sleep(600);
    setup.process(vec![of("b", "one", 20), of("a", "one", 21), of("a", "two", 22)], 30);
    assert_eq!(setup.handler.called()[10..], [id(20), id(22)]);
    assert_eq!(held(&setup), 11, "message 22 was the probe, and failed");
}

/// As above.
#[test]
fn a_message_behind_one_that_was_not_started_is_not_held() {
    let setup = Setup { max_concurrency: 1, ..a_is_down() }.on(20, Step::Hang);
    setup.process(vec![of("b", "one", 20), of("b", "two", 21), of("a", "two", 22)], 1);
    assert_eq!(setup.handler.called()[10..], [id(20)]);
    assert_eq!(held(&setup), 10);
}

#[test]
fn a_message_that_waited_for_days_behind_others_is_held_from_its_first_receive() {
    let setup = a_is_down();
    let days_ago = start() - chrono::TimeDelta::days(2);
    let received_first = |at, n| ReceivedMessage {
        sent_at: days_ago,
        first_received_at: Some(at),
        ..of("a", &format!("group-{n}"), n)
    };
    setup.process(vec![received_first(start(), 20), received_first(days_ago, 21)], 30);
    assert_eq!(setup.handler.called()[10..], [id(21)], "only this one is at its hold limit");
}

#[test]
fn a_hold_is_told_and_spends_no_attempt_of_a_batch_of_ten() {
    let setup = (0..10).fold(setup(10), |setup, n| setup.failing(n, down()));
    let setup = Setup { policy: Strategy::Ordered.definition().policy("{}").unwrap(), ..setup };
    (0..10).for_each(|n| setup.produce_in(&format!("group-{n}"), [n]));
    let environment = setup.processor();
    while setup.world.elapsed() < 3600 {
        setup.next_turn(&environment);
    }
    let told = retries_told(&setup);
    assert!(told.len() > 20, "{told:?}");
    assert!(
        told.iter().all(|(_, retry_attempt, spends_attempt)| (*retry_attempt, *spends_attempt) == (0, false))
    );
    assert!(setup.handler.calls().iter().all(|call| call.retry_attempt == 0));
}

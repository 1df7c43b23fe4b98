//! An outage: the order within a group whose messages belong to several circuits, and the cost of a hold.

use redeliver_core::message::Attribute;

use super::*;

fn down_error() -> HandlerError {
    HandlerError::transient(ErrorType::HttpStatus(503), "HTTP 503")
}

fn tenant_record_in(tenant: &str, group: &str, n: usize) -> ReceivedMessage {
    ReceivedMessage {
        attributes: Attributes::from([("tenant".to_owned(), Attribute::string(tenant))]),
        message_group_id: Some(group.to_owned()),
        ..nth_record(n, nth_body(n))
    }
}

impl Setup {
    /// Creates a message-processor whose breaker has no evidence.
    fn create_environment(&self) -> Environment {
        Environment { breaker: SharedBreaker::from_policy(&self.policy), ..self.processor() }
    }
}

/// Creates a setup in which ten calls for tenant a, each in a different group, have opened its circuit.
fn setup_with_tenant_a_down() -> Setup {
    let policy = Policy::from_json(r#"{"circuit_breaker":{"per":"attribute:tenant"}}"#).unwrap();
    let setup = (0..10).fold(setup(10), |setup, n| setup.failing(n, down_error()));
    let setup = Setup { policy, ..setup };
    setup.process((0..10).map(|n| tenant_record_in("a", &format!("group-{n}"), n)).collect(), 30);
    assert_eq!((setup.handler.calls().len(), count_holds(&setup)), (10, 10));
    setup
}

/// Returns the number of holds that were reported.
fn count_holds(setup: &Setup) -> u32 {
    let held = |event| if let Event::Held { messages, .. } = event { messages } else { 0 };
    setup.world.seen.events().into_iter().map(held).sum()
}

#[test]
fn an_outage_error_stops_the_group_like_any_other_failure() {
    let setup = setup_with_tenant_a_down().failing(20, down_error());
    setup.process(
        vec![
            tenant_record_in("b", "one", 20),
            tenant_record_in("b", "one", 21),
            tenant_record_in("b", "two", 22),
        ],
        30,
    );
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20), nth_id(22)]);
}

#[test]
fn a_message_for_an_available_tenant_does_not_overtake_a_held_message() {
    let setup = setup_with_tenant_a_down();
    setup.process(
        vec![
            tenant_record_in("a", "one", 20),
            tenant_record_in("b", "one", 21),
            tenant_record_in("b", "two", 22),
        ],
        30,
    );
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(22)]);
    assert_eq!(count_holds(&setup), 11);
}

#[test]
fn no_message_overtakes_one_waiting_for_another_groups_probe() {
    let setup = setup_with_tenant_a_down().on(20, Step::Take(3));
    setup.sleep(600);
    setup.process(
        vec![
            tenant_record_in("a", "one", 20),
            tenant_record_in("a", "two", 21),
            tenant_record_in("b", "two", 22),
        ],
        30,
    );
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20), nth_id(21), nth_id(22)]);
}

#[test]
fn no_message_overtakes_one_waiting_for_a_message_of_its_tenant() {
    let setup = setup_with_tenant_a_down().on(20, Step::Take(3));
    setup.sleep(600);
    let waits = [
        tenant_record_in("a", "two", 21),
        tenant_record_in("a", "three", 22),
        tenant_record_in("b", "three", 23),
    ];
    setup.process([vec![tenant_record_in("a", "one", 20)], waits.into()].concat(), 30);
    assert_eq!(setup.handler.called_message_ids()[10..12], [nth_id(20), nth_id(21)]);
}

/// If it were held, it would remain hidden longer than the message for which it waits.
#[test]
fn a_message_behind_a_call_that_is_cut_off_is_not_held() {
    let setup = setup_with_tenant_a_down().on(20, Step::Hang).on(22, Step::Hang);
    setup.sleep(600);
    setup.process(
        vec![
            tenant_record_in("b", "one", 20),
            tenant_record_in("a", "one", 21),
            tenant_record_in("a", "two", 22),
        ],
        30,
    );
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20), nth_id(22)]);
    assert_eq!(count_holds(&setup), 11, "message 22 was the probe, and failed");
}

/// If it were held, it would remain hidden longer than the message for which it waits.
#[test]
fn a_message_behind_an_unstarted_message_is_not_held() {
    let setup = Setup { max_concurrency: 1, ..setup_with_tenant_a_down() }.on(20, Step::Hang);
    setup.process(
        vec![
            tenant_record_in("b", "one", 20),
            tenant_record_in("b", "two", 21),
            tenant_record_in("a", "two", 22),
        ],
        1,
    );
    assert_eq!(setup.handler.called_message_ids()[10..], [nth_id(20)]);
    assert_eq!(count_holds(&setup), 10);
}

#[test]
fn a_message_that_waited_for_days_behind_others_is_held_from_its_first_receive() {
    let setup = setup_with_tenant_a_down();
    let days_ago = start_time() - chrono::TimeDelta::days(2);
    let received_first = |at, n| ReceivedMessage {
        sent_at: days_ago,
        first_received_at: Some(at),
        ..tenant_record_in("a", &format!("group-{n}"), n)
    };
    setup.process(vec![received_first(start_time(), 20), received_first(days_ago, 21)], 30);
    assert_eq!(
        setup.handler.called_message_ids()[10..],
        [nth_id(21)],
        "only this message is at its hold limit"
    );
}

#[test]
fn a_hold_is_reported_and_spends_no_attempt_in_batches_of_ten() {
    let setup = (0..10).fold(setup(10), |setup, n| setup.failing(n, down_error()));
    let setup = Setup { policy: Strategy::Ordered.definition().parse_policy("{}").unwrap(), ..setup };
    (0..10).for_each(|n| setup.send_to_group(&format!("group-{n}"), [n]));
    let environment = setup.processor();
    while setup.world.elapsed_seconds() < 3600 {
        setup.poll_until_nonempty(&environment);
    }
    let reported = reported_retries(&setup);
    assert!(reported.len() > 20, "{reported:?}");
    assert!(
        reported
            .iter()
            .all(|(_, retry_attempt, spends_attempt)| (*retry_attempt, *spends_attempt) == (0, false))
    );
    assert!(setup.handler.calls().iter().all(|call| call.retry_attempt == 0));
}

/// A single group does not open a circuit in new environments. If its holds did not grow, an unavailable target would
/// be called every two seconds.
#[test]
fn holds_after_not_now_grow_with_the_time_since_the_first_receive() {
    for batch_size in [1, 10] {
        let setup = setup_with_policy(batch_size, "{}").failing(0, down_error());
        setup.send_to_group("a", [0, 1]);
        let (mut waits, mut called) = (Vec::new(), 0);
        while setup.world.elapsed_seconds() < 3600 {
            let (seconds, _) = setup.poll_until_nonempty(&setup.create_environment());
            waits.push(seconds);
            called += 1;
        }
        assert_eq!(
            setup.handler.called_message_ids(),
            vec![nth_id(0); called],
            "the rest of the group waits behind it"
        );
        assert_eq!(waits[..4], [0, 2, 4, 8]);
        assert!(waits.windows(2).skip(4).all(|pair| pair[0] < pair[1] || pair[1] > 550), "{waits:?}");
        assert_eq!(setup.annotation.sent_contents(), []);
        assert!(reported_retries(&setup).iter().all(|(_, _, spends_attempt)| !spends_attempt));
    }
}

#[test]
fn an_ordered_message_at_its_hold_limit_is_given_up_on_after_not_now() {
    let setup = setup_with_policy(1, "{}").failing(0, down_error()).failing(1, down_error());
    let received_first = |seconds, n| ReceivedMessage {
        first_received_at: Some(start_time() - chrono::TimeDelta::seconds(seconds)),
        ..tenant_record_in("a", &format!("group-{n}"), n)
    };
    assert_eq!(setup.process(vec![received_first(86_399, 0)], 30), ["sqs-0"]);
    assert_eq!(setup.process(vec![received_first(86_400, 1)], 30), [""; 0]);
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!(
        (&verdict["verdict"], &verdict["type"], &verdict["explanation"]),
        (
            &json!("HOLD_TIME_EXCEEDED"),
            &json!("HttpStatus.503"),
            &json!("Held for 86400 s without a successful call (hold_seconds_max is 86400)")
        )
    );
}

/// The metric shows that the head of a group has been held for hours.
#[test]
fn the_longest_hold_counts_from_the_first_receive_or_first_call() {
    for (batch_size, expected) in [(1, [0, 2, 6]), (10, [0, 2, 6])] {
        let setup = setup_with_policy(batch_size, "{}").failing(0, down_error());
        setup.sleep(100);
        setup.send_to_group("a", [0]);
        let environment = setup.processor();
        (0..3).for_each(|_| drop(setup.poll_until_nonempty(&environment)));
        let longest = |event| match event {
            Event::NotNow { longest_hold_seconds, .. } => Some(longest_hold_seconds),
            _ => None,
        };
        let longest: Vec<_> = setup.world.seen.events().into_iter().filter_map(longest).collect();
        assert_eq!(longest, expected, "batches of {batch_size}");
    }
    let setup = setup_with_policy(10, "{}").failing(0, down_error());
    let hours_ago = start_time() - chrono::TimeDelta::hours(2);
    setup.process(
        vec![ReceivedMessage { first_received_at: Some(hours_ago), ..tenant_record_in("a", "one", 0) }],
        30,
    );
    let not_now =
        Event::NotNow { messages: 1, error_type: "HttpStatus.503".to_owned(), longest_hold_seconds: 7200 };
    assert!(setup.world.seen.events().contains(&not_now), "held by other environments");
}

/// The messages in a batch are received together, so the whole group is as old as its first message.
#[test]
fn a_message_that_waited_a_day_in_batches_is_still_held_after_a_503() {
    let policy = r#"{"circuit_breaker":{"opens_on":["Db.Busy"]}}"#;
    let setup = setup_with_policy(10, policy).failing(0, down_error()).on(1, Step::Blip(1));
    setup.send_to_group("a", [0, 1]);
    let environment = setup.processor();
    while setup.annotation.sent_contents().is_empty() {
        setup.poll_until_nonempty(&environment);
    }
    assert!((86_400..87_300).contains(&setup.world.elapsed_seconds()), "{}", setup.world.elapsed_seconds());
    let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
    assert_eq!((&verdict["verdict"], setup.retry_numbers(1).len()), (&json!("HOLD_TIME_EXCEEDED"), 0));
    while setup.poll_within(&environment, 1000).is_some() {}
    assert_eq!(setup.retry_numbers(1), [0, 0], "the message is held once and then processed");
    assert_eq!(setup.annotation.sent_contents().len(), 1);
}

#[test]
fn a_message_past_its_maximum_age_waits_until_its_retry_after_ends() {
    for batch_size in [1, 10] {
        let policy = r#"{"max_age_seconds":600}"#;
        let refused = HandlerError::transient(ErrorType::HttpStatus(429), "HTTP 429");
        let refused = refused.retry_after(Duration::from_secs(800));
        let setup = setup_with_policy(batch_size, policy).failing(0, refused);
        setup.send_to_group("a", [0]);
        let environment = setup.processor();
        let mut turns = 0;
        while setup.annotation.sent_contents().is_empty() {
            setup.poll_until_nonempty(&environment);
            turns += 1;
            let called = if setup.world.elapsed_seconds() < 800 { 1 } else { 2 };
            assert_eq!(setup.handler.calls().len(), called, "at second {}", setup.world.elapsed_seconds());
        }
        assert!((800..=880).contains(&setup.world.elapsed_seconds()) && turns < 20, "{turns} turns");
        let verdict = attribute_document(&setup.annotation.only_sent_content().attributes, FAILURE);
        let (reason, error_type) = (json!("MESSAGE_EXPIRED"), json!("HttpStatus.429"));
        assert_eq!((&verdict["verdict"], &verdict["type"]), (&reason, &error_type));
    }
}

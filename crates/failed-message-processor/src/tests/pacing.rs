//! Pacing: the delay of a re-send depends on the number of waiting messages.

use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::OutgoingMessage;
use redeliver_core::message::packing::pack;
use redeliver_core::policy::RedeliveryRate;
use redeliver_embedded::{Action, FaultPlan, FaultRule, Injection, Scope, When};

use super::*;

/// A minute after each failure, at most ten messages a second.
const PACED: &str =
    r#"{"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"},"max_redelivery_per_second":10}"#;

/// Adds this many delayed messages to the source queue.
fn wait(setup: &Setup, count: usize) {
    let delayed = |n| Content { body: body(n), delay: DelaySeconds::MAX, ..Content::default() };
    let messages: Vec<_> = (0..count).map(|n| OutgoingMessage::new(delayed(n)).unwrap()).collect();
    for batch in pack(&messages) {
        let sent = setup.world.clock.block_on(setup.source.queue.send_batch(batch));
        assert!(sent.iter().all(Result::is_ok));
    }
}

fn failed(n: usize) -> ReceivedMessage {
    handed_off(n, body(n), &busy(n))
}

/// The delay of the re-send of message n while this many wait.
fn delay_of(n: usize, waiting: u64) -> u16 {
    let key = Key { message_id: Uuid::parse_str(&id(n)).unwrap(), generation: 0, attempt: 1 };
    let window = Window::of(waiting, RedeliveryRate::new(10.0).unwrap());
    window.stretched(DelaySeconds::new(60).unwrap(), key).get()
}

fn count_requests(setup: &Setup) -> u64 {
    setup.world.sqs.requests().get("GetQueueAttributes").copied().unwrap_or(0)
}

fn fail_counting(setup: &Setup, injection: Injection) {
    let rule = FaultRule {
        action: Action::GetQueueAttributes,
        queue: None,
        scope: Scope::Request,
        when: When::Chance(1.0),
        injection,
    };
    setup.world.sqs.set_faults(FaultPlan::new(1).with(rule));
}

#[test]
fn where_nobody_waits_a_retry_comes_by_the_policy() {
    let setup = Setup::with_policy(PACED);
    assert!(setup.process((0..10).map(failed).collect()).is_empty());
    assert!(setup.source.sent().iter().all(|message| message.delay.get() == 60));
    assert_eq!(count_requests(&setup), 1, "one for the batch");
    let events = setup.world.seen.events();
    assert!(events.iter().all(|event| matches!(event, Event::RetryScheduled { .. })), "{events:?}");
}

#[test]
fn a_policy_without_a_rate_asks_for_no_count() {
    let setup = Setup::new();
    setup.process(vec![failed(1)]);
    assert_eq!(count_requests(&setup), 0);
}

#[test]
fn where_many_wait_the_delays_are_stretched_and_it_is_told_once() {
    let setup = Setup::with_policy(PACED);
    wait(&setup, 3000);
    assert!(setup.process((0..10).map(failed).collect()).is_empty());
    let delays: Vec<_> = setup.source.sent().iter().map(|message| message.delay.get()).collect();
    assert_eq!(delays, (0..10).map(|n| delay_of(n, 3000)).collect::<Vec<_>>());
    let events = setup.world.seen.events();
    let (last, retries) = events.split_last().unwrap();
    assert_eq!(*last, Event::Paced { waiting: 3000, paced: 10, rate_is_held: true });
    let reported = retries.iter().map(|event| match event {
        Event::RetryScheduled { delay_seconds, .. } => delay_seconds.get(),
        other => panic!("{other:?}"),
    });
    assert_eq!(reported.collect::<Vec<_>>(), delays);
}

#[test]
fn what_sqs_moved_is_paced_like_all_others() {
    let setup = Setup::with_policy(PACED);
    wait(&setup, 3000);
    setup.process(vec![redriven(1, body(1))]);
    let window = Window::of(3000, RedeliveryRate::new(10.0).unwrap());
    let delay = window.stretched(DelaySeconds::ZERO, key(1, 0, 1)).get();
    assert!(delay > 5, "longer than its own: {delay}");
    assert_eq!(setup.source.only().delay.get(), delay);
    let events = setup.world.seen.events();
    assert_eq!(events.last(), Some(&Event::Paced { waiting: 3000, paced: 1, rate_is_held: true }));
}

#[test]
fn what_is_held_near_its_end_is_paced_by_its_own_short_delay() {
    let setup = Setup::with_policy(&PACED.replace(":10}", r#":10,"max_age_seconds":110}"#));
    wait(&setup, 3000);
    let held = |n| {
        let failure = with(busy(n), json!({ "type": "CircuitOpen", "kind": "held" }));
        handed_off(n, body_with(n, r#""held_seconds":100"#), &failure)
    };
    setup.process((0..10).map(held).collect());
    // A hundred seconds are left, of which a hold takes half; the longest hold of 750 s would not be stretched.
    let window = Window::of(3000, RedeliveryRate::new(10.0).unwrap());
    let half = DelaySeconds::new(50).unwrap();
    let expected: Vec<_> = (0..10).map(|n| window.stretched(half, key(n, 0, 1)).get().min(100)).collect();
    assert!(expected.contains(&100));
    let delays: Vec<_> = setup.source.sent().iter().map(|message| message.delay.get()).collect();
    assert_eq!(delays, expected);
}

#[test]
fn a_rate_that_cannot_be_held_is_told() {
    let setup = Setup::with_policy(&PACED.replace(":10}", ":0.1}"));
    wait(&setup, 100);
    setup.process(vec![failed(1)]);
    let events = setup.world.seen.events();
    assert_eq!(events[1], Event::Paced { waiting: 100, paced: 1, rate_is_held: false });
    assert!(setup.source.only().delay.get() >= 450);
}

#[test]
fn a_count_serves_for_five_seconds() {
    let setup = Setup::with_policy(PACED);
    let processor = setup.processor();
    let process = |n| {
        let deadline = setup.world.clock.now() + Duration::from_secs(30);
        setup.world.clock.block_on(processor.batch_item_failures(vec![failed(n)], deadline))
    };
    process(1);
    wait(&setup, 3000);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_millis(4999)));
    process(2);
    assert_eq!(count_requests(&setup), 1);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_millis(1)));
    process(3);
    assert_eq!(count_requests(&setup), 2);
    let delays: Vec<_> = setup.source.sent().iter().map(|message| message.delay.get()).collect();
    // The two re-sends wait, too.
    assert_eq!(delays, [60, 60, delay_of(3, 3002)]);
}

#[test]
fn a_count_that_fails_holds_nothing_up_and_the_last_one_stands() {
    let setup = Setup::with_policy(PACED);
    fail_counting(&setup, Injection::Throttled);
    assert!(setup.process(vec![failed(1)]).is_empty());
    assert_eq!(setup.source.only().delay.get(), 60, "nothing is known");
    let code = match &setup.world.seen.events()[0] {
        Event::NotCounted { code } => code.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code, "RequestThrottled");

    let setup = Setup::with_policy(PACED);
    wait(&setup, 3000);
    let processor = setup.processor();
    for (n, injection) in [(1, None), (2, Some(Injection::Service)), (3, Some(Injection::LostAnswer))] {
        if let Some(injection) = injection {
            fail_counting(&setup, injection);
        }
        let deadline = setup.world.clock.now() + Duration::from_secs(30);
        let response = setup.world.clock.block_on(processor.batch_item_failures(vec![failed(n)], deadline));
        assert!(response.is_empty());
        setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(5)));
    }
    let delays: Vec<_> = setup.source.sent().iter().map(|message| message.delay.get()).collect();
    assert_eq!(delays, [1, 2, 3].map(|n| delay_of(n, 3000)));
}

#[test]
fn a_count_that_takes_too_long_is_not_waited_for() {
    let mut setup = Setup::with_policy(PACED);
    wait(&setup, 3000);
    setup.source = setup.source.clone().slow(Duration::from_millis(2500), Duration::ZERO);
    assert!(setup.process(vec![failed(1)]).is_empty());
    assert_eq!(setup.world.seen.events()[0], Event::NotCounted { code: "Timeout".to_owned() });
    // Two seconds, plus those of the send.
    assert_eq!(setup.world.elapsed(), 4);
    assert_eq!(setup.source.only().delay.get(), 60);
}

#[test]
fn a_count_takes_at_most_a_quarter_of_the_time_that_is_left() {
    let mut setup = Setup::with_policy(PACED);
    setup.source = setup.source.clone().slow(Duration::from_millis(1500), Duration::ZERO);
    assert!(setup.process_within(Duration::from_secs(4), vec![failed(1)]).is_empty());
    let events = setup.world.seen.timed();
    let one_second_later = start() + Duration::from_secs(1);
    assert_eq!(events[0], (one_second_later, Event::NotCounted { code: "Timeout".to_owned() }));
}

#[test]
fn a_count_of_long_ago_says_nothing() {
    let setup = Setup::with_policy(PACED);
    wait(&setup, 3000);
    let processor = setup.processor();
    let process = |n| {
        let deadline = setup.world.clock.now() + Duration::from_secs(30);
        setup.world.clock.block_on(processor.batch_item_failures(vec![failed(n)], deadline));
        setup.source.sent().last().unwrap().delay.get()
    };
    assert_eq!(process(1), delay_of(1, 3000));
    fail_counting(&setup, Injection::Throttled);
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(899)));
    assert_eq!(process(2), delay_of(2, 3000));
    setup.world.clock.block_on(setup.world.clock.sleep(Duration::from_secs(5)));
    assert_eq!(process(3), 60);
}

#[test]
fn only_a_re_send_that_is_confirmed_is_told_as_paced() {
    let setup = Setup::with_policy(PACED);
    wait(&setup, 3000);
    setup.world.fail_sends(&setup.source, Scope::Entry, When::Numbers(vec![4]), Injection::Sender);
    assert_eq!(setup.process((0..10).map(failed).collect()), ["sqs-3"]);
    let events = setup.world.seen.events();
    assert_eq!(*events.last().unwrap(), Event::Paced { waiting: 3000, paced: 9, rate_is_held: true });
}

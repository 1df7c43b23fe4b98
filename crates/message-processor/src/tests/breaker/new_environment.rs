//! Environments that learn of an outage from a message that was held.

use super::*;

/// One held message of no key, and nine new ones.
fn held_and_nine(sent_before: i64) -> Vec<ReceivedMessage> {
    let mut batch = vec![held(0, 600, sent_before)];
    batch.extend(records(1..10));
    batch
}

#[test]
fn a_new_environment_believes_a_message_that_was_held_a_moment_ago() {
    let setup = outage(Setup::new());
    setup.process(held_and_nine(700), 30);
    assert_eq!(setup.handler.called(), [id(0)], "one probe instead of ten calls that fail");
    assert_eq!((count(&setup, CALLED), count(&setup, NOT_CALLED)), (1, 9));
    let details = format!("not called: the target has been down since {}", moment(-2000));
    assert_eq!(setup.failures()[1]["details"], details);
    let delays: Vec<_> =
        setup.failures().iter().map(|failure| failure["retry_after_seconds"].as_u64()).collect();
    assert!(
        delays.iter().all(|delay| (500..=667).contains(&delay.unwrap())),
        "a third of 2000 s: {delays:?}"
    );
}

#[test]
fn what_says_that_it_was_held_and_was_not_is_not_believed() {
    // A hold of 0 s, and an outage that begins after the send, are ignored.
    for (held_seconds, sent_before) in [(0, 700), (600, 2001)] {
        let setup = outage(Setup::new());
        let mut batch = vec![held(0, held_seconds, sent_before)];
        batch.extend(records(1..10));
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len(), 10, "{held_seconds} {sent_before}");
    }
}

#[test]
fn what_was_held_long_ago_says_nothing() {
    for (sent_before, calls) in [(1799, 1), (1800, 10)] {
        let setup = outage(Setup::new());
        setup.process(held_and_nine(sent_before), 30);
        assert_eq!(setup.handler.calls().len(), calls, "{sent_before}");
    }
}

/// Its own fault would hold the messages of others in each new environment.
#[test]
fn a_held_message_whose_own_call_failed_teaches_nobody() {
    let past = r#"{"attempt":0,"failed_at":"2026-07-25T16:50:00Z","error_type":"HttpStatus.503","error_details":""}"#;
    for failed in [format!(r#""retry_history":[{past}],"#), r#""retry_attempt":1,"#.to_owned()] {
        let setup = Setup::new().failing(0, down());
        let mut batch = held_and_nine(700);
        batch[0].body = batch[0].body.replace(r#""held_since""#, &format!(r#"{failed}"held_since""#));
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len(), 10, "{failed}");
    }
}

#[test]
fn a_report_from_before_the_target_was_found_back_says_nothing_and_a_newer_one_does() {
    let setup = open();
    let setup = healed(setup);
    setup.sleep(15);
    setup.process(records(10..11), 30);
    assert_eq!(closings(&setup), 1, "at second 15");
    setup.sleep(60);
    setup.process(vec![held(0, 600, 10), held(1, 600, -15)], 30);
    assert_eq!(closings(&setup), 1, "both were held before");
    setup.sleep(60);
    setup.process(vec![held(0, 600, 10), held(1, 600, -16)], 30);
    assert_eq!(closings(&setup), 2, "another environment has found it down since");
}

/// Otherwise one environment's outage would stop all others, whatever they know themselves.
#[test]
fn an_environment_that_had_an_answer_half_a_minute_ago_knows_better() {
    for (seconds, calls) in [(29, 10), (30, 1)] {
        let setup = (1..11).fold(Setup::new(), |setup, n| setup.failing(n, down()));
        // A circuit of its own is there only after trouble.
        setup.process(records(1..2), 30);
        setup.process(records(11..12), 30);
        let before = setup.handler.calls().len();
        setup.sleep(seconds);
        let batch = vec![held(2, 600, -1)].into_iter().chain(records(3..12)).collect();
        setup.process(batch, 30);
        assert_eq!(setup.handler.calls().len() - before, calls, "{seconds}");
    }
}

#[test]
fn the_others_of_a_batch_wait_for_the_probe_and_then_for_their_turn() {
    let setup = Setup::new().on(0, Step::Take(2));
    setup.process(held_and_nine(700), 30);
    assert_eq!(setup.world.elapsed(), 2);
    assert_eq!(setup.handler.called(), [id(0), id(1)]);
    assert_eq!(count(&setup, ("held", "RateLimited")), 8);
}

//! `on_give_up: block`: a given-up message blocks its group until a person intervenes, or until the queue's retention
//! ends.

use redeliver_core::blocked::BlockedNotice;
use redeliver_core::ports::{EntryError, Fault, VisibilityControl as _};

use super::*;

const BLOCKING: &str = r#"{"circuit_breaker":false,"max_age_seconds":3600,"max_attempts":1,"on_give_up":"block",
    "backoff":{"kind":"schedule","delays_seconds":[5],"jitter":"none"}}"#;
/// 12 hours minus the queue's visibility timeout.
const HIDDEN: u64 = 43_200 - 180;

/// Creates a setup in which the first message in group a has used up its attempts and blocks the group.
fn blocked_setup() -> (Setup, Environment) {
    let setup = setup_with_policy(1, BLOCKING).failing(0, busy_error());
    setup.send_to_group("a", [0, 1]);
    let environment = setup.processor();
    assert_eq!(setup.poll_once(&environment)[0], 0);
    assert_eq!(setup.poll_until_nonempty(&environment).0, 5);
    (setup, environment)
}

impl Setup {
    /// Returns the batch received after this many seconds, and checks that nothing is received a second earlier.
    fn poll_after(&self, environment: &Environment, seconds: u64) -> Vec<usize> {
        self.sleep(seconds - 1);
        assert!(self.poll_once(environment).is_empty());
        self.sleep(1);
        self.poll_once(environment)
    }

    /// Makes the message visible, as a person does to have it processed again.
    fn make_visible(&self, handle: &str) -> Result<(), EntryError> {
        let entries = [(handle.to_owned(), VisibilitySeconds::ZERO)];
        let changed = self.source.queue.change_visibility_batch(&entries);
        self.world.clock.block_on(changed).remove(0)
    }
}

#[test]
fn a_given_up_message_blocks_its_group_and_sends_a_notice() {
    let (setup, environment) = blocked_setup();
    let blocked_at = setup.world.clock.now();
    setup.sleep(60);
    let [notice] = &setup.blocked.receive_all()[..] else { panic!("not exactly one notice") };
    assert_eq!((notice.body.as_str(), notice.message_group_id.as_deref()), (&*nth_body(0), Some("a")));
    let failure = attribute_document(&notice.attributes, FAILURE);
    assert_eq!(failure["verdict"], "RETRY_ATTEMPT_EXCEEDED");
    assert_eq!(failure["attempts"], 1);
    let read = BlockedNotice::from_record(notice).unwrap();
    assert_eq!(read.waiting_since, blocked_at - Duration::from_secs(5));
    assert_eq!(
        read.verdict.full_explanation(),
        "Max retry attempts 1 exceeded; last error Db.Busy: come later"
    );
    setup.send_to_group("b", [2]);
    assert_eq!(setup.poll_once(&environment), [2], "other groups continue");
    assert_eq!(setup.poll_after(&environment, HIDDEN - 60)[0], 0);
    assert_eq!(setup.annotation.sent_contents(), []);
    let sqs_message_id = read.verdict.case.unwrap().failure.delivery.source_message_id;
    let error_type = "RETRY_ATTEMPT_EXCEEDED";
    let reported = setup.world.seen.events();
    assert!(reported.contains(&Event::Blocked {
        message_id: Some(nth_id(0)),
        sqs_message_id,
        error_type,
        request_id: None
    }));
    assert!(!reported.iter().any(|event| matches!(event, Event::GivenUp { .. })));
}

#[test]
fn a_blocking_message_is_retried_twice_a_day() {
    let (setup, environment) = blocked_setup();
    assert_eq!(setup.poll_after(&environment, HIDDEN)[0], 0);
    assert_eq!(setup.retry_numbers(0).len(), 3, "called once more");
    assert_eq!(setup.blocked.sent_contents().len(), 2);
    let environment = Environment {
        handler: ScriptedHandler { steps: BTreeMap::new(), ..environment.handler },
        ..environment
    };
    assert_eq!(setup.poll_after(&environment, HIDDEN)[0], 0);
    assert_eq!(setup.retry_numbers(0).len(), 4);
    assert_eq!(setup.poll_until_nonempty(&environment), (0, vec![1]));
    assert_eq!(setup.retry_numbers(1).len(), 1);
    assert_eq!(setup.annotation.sent_contents(), []);
}

#[test]
fn the_handle_in_a_notice_makes_its_message_visible_immediately() {
    let (setup, environment) = blocked_setup();
    setup.sleep(60);
    let BlockedNotice { receipt_handle, .. } =
        BlockedNotice::from_record(&setup.blocked.receive_all()[0]).unwrap();
    setup.make_visible(&receipt_handle).unwrap();
    assert_eq!(setup.poll_until_nonempty(&environment), (0, vec![0]));
    assert_eq!(
        setup.make_visible(&receipt_handle).unwrap_err().fault,
        Fault::Sender,
        "the handle is out of date"
    );
}

/// If the message were hidden without a notice, it would block its group unnoticed.
#[test]
fn a_message_whose_notice_is_refused_is_not_hidden() {
    let at_once = BLOCKING.replace(r#""max_attempts":1"#, r#""max_attempts":0"#);
    let setup = setup_with_policy(1, &at_once).failing(0, busy_error());
    setup.send_to_group("a", [0, 1]);
    setup.world.fail_sends(&setup.blocked, FaultScope::Request, FaultTrigger::Chance(1.0), Injection::Sender);
    let environment = setup.processor();
    assert_eq!(setup.poll_once(&environment), [0]);
    assert_eq!(setup.poll_until_nonempty(&environment), (180, vec![0]), "the queue's own visibility timeout");
}

#[test]
fn an_invalid_message_blocks_its_group() {
    let setup = setup_with_policy(1, BLOCKING);
    setup.send_to_group("a", [0]);
    setup.send_bodies_to_group("a", [(1, r#"{"data":{"n":1}}"#.to_owned())]);
    setup.send_to_group("a", [2]);
    let environment = setup.processor();
    assert_eq!((setup.poll_once(&environment), setup.poll_once(&environment)), (vec![0], vec![1]));
    let [notice] = &setup.blocked.sent_contents()[..] else { panic!("not exactly one notice") };
    assert_eq!(attribute_document(&notice.attributes, FAILURE)["verdict"], "INVALID_MESSAGE_SCHEMA");
    assert_eq!(setup.poll_after(&environment, HIDDEN), [1]);
    assert_eq!(setup.handler.called_message_ids(), [nth_id(0)], "2 waits behind it");
}

#[test]
fn a_blocking_message_is_given_up_at_the_end_of_its_retention() {
    let (setup, environment) = blocked_setup();
    // A week in steps of 12 hours minus the visibility timeout, then the remainder.
    for _ in 0..14 {
        assert_eq!(setup.poll_after(&environment, HIDDEN), [0]);
    }
    assert_eq!(setup.annotation.sent_contents(), []);
    assert_eq!(setup.poll_after(&environment, 7 * 24 * 3600 - 180 - 5 - 14 * HIDDEN), [0]);
    assert_eq!(setup.blocked.sent_contents().len(), 15);
    let failure = attribute_document(&setup.annotation.sent_contents()[0].attributes, FAILURE);
    assert_eq!(failure["verdict"], "RETRY_ATTEMPT_EXCEEDED");
    assert_eq!(failure.get("receipt_handle"), None);
    assert_eq!(setup.poll_until_nonempty(&environment), (0, vec![1]));
}

#[test]
fn an_invalid_message_that_cannot_stay_does_not_block_its_group() {
    let setup = setup_with_policy(10, BLOCKING);
    setup.send_bodies_to_group("a", [(0, r#"{"data":{"n":0}}"#.to_owned())]);
    setup.send_to_group("a", [1]);
    setup.sleep(14 * 24 * 3600 - 180);
    let environment = setup.processor();
    assert_eq!(setup.poll_once(&environment), [0, 1]);
    assert_eq!((setup.annotation.sent_contents().len(), setup.blocked.sent_contents().len()), (1, 0));
    assert_eq!(setup.handler.called_message_ids(), [nth_id(1)]);
}

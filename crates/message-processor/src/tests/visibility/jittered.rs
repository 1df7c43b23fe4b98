//! Random delays, many receives, generations, and time limits.

use redeliver_core::decide::backoff::{JitterKey, retry_delay};
use redeliver_core::message::metadata::format_rfc3339;

use super::*;

fn jittered_setup(members: &str) -> Setup {
    Setup {
        strategy: Strategy::Visibility,
        ..Setup::with_policy(&format!(r#"{{"max_attempts":20{members}}}"#))
    }
}

impl Setup {
    /// Returns the policy's delay before this retry of message 1.
    fn delay(&self, generation: u32, attempt: u32) -> u64 {
        let message_id = MessageSchema::default().parse_envelope(&nth_body(1)).unwrap().metadata.message_id;
        let key = JitterKey { message_id, generation, attempt };
        retry_delay(&self.policy, key).get().into()
    }

    /// Sends message 1 with additional metadata members, and receives it.
    fn receive_with_metadata(&self, members: &str, attributes: Attributes) -> ReceivedMessage {
        let body = format!(r#"{{"metadata":{{"message_id":"{}"{members}}},"data":{{}}}}"#, nth_id(1));
        send_and_receive(&self.source, Content { body, attributes, ..Content::default() })
    }

    /// Returns the `Failure` document in the only verdict.
    fn verdict(&self) -> serde_json::Value {
        attribute_document(&self.annotation.only_sent_content().attributes, FAILURE)
    }
}

/// Returns the attributes of a message that the console moved back from the final DLQ.
fn redriven_attributes() -> Attributes {
    let record = json!({
        "stage": "message-processor",
        "cause": { "type": "Db.Busy", "message": "come later" },
        "dead_lettered_at": format_time_at(-1000),
        "sqs_message_id": "sqs-0",
        "fingerprint": "0123456789abcdef",
    });
    Attributes::from([
        ("DeadLetter".to_owned(), Attribute::string(record.to_string())),
        ("ErrorType".to_owned(), Attribute::string("RETRY_ATTEMPT_EXCEEDED")),
        ("ErrorDetails".to_owned(), Attribute::string("Max retry attempts 20 exceeded")),
    ])
}

#[test]
fn each_of_twenty_retries_comes_after_its_own_delay() {
    let setup = jittered_setup("").failing(1, busy_error());
    let mut record = setup.receive_with_metadata("", Attributes::new());
    for attempt in 1..=20 {
        assert_eq!(setup.process(vec![record], 30).len(), 1, "the message remains on its queue");
        let (seconds, next) = setup.wait_until_visible();
        assert_eq!((seconds, next.receive_count), (setup.delay(0, attempt), attempt + 1));
        record = next;
    }
    assert!(setup.process(vec![record], 30).is_empty(), "the message is given up");
    let calls: Vec<_> = setup.handler.calls().iter().map(|call| call.retry_attempt).collect();
    assert_eq!(calls, (0..=20).collect::<Vec<_>>());
    let verdict = setup.verdict();
    assert_eq!((&verdict["verdict"], &verdict["attempts"]), (&json!("RETRY_ATTEMPT_EXCEEDED"), &json!(20)));
}

#[test]
fn each_generation_has_its_own_delays() {
    for (members, attributes, generation) in [
        ("", redriven_attributes(), 1),
        (r#","redrive_generation":2"#, redriven_attributes(), 3),
        (r#","redrive_generation":2"#, Attributes::new(), 2),
    ] {
        let setup = jittered_setup("").failing(1, busy_error());
        let record = setup.receive_with_metadata(members, attributes);
        assert_eq!(setup.process(vec![record], 30).len(), 1);
        assert_eq!(setup.handler.calls()[0].redrive_generation, generation);
        assert_eq!(setup.wait_until_visible().0, setup.delay(generation, 1), "generation {generation}");
    }
}

#[test]
fn a_message_that_came_back_is_as_old_as_its_new_generation() {
    let old = format!(r#","retry_attempt":5,"first_sent_time":"{}""#, format_time_at(-9000));
    let setup = jittered_setup(r#","max_age_seconds":1000"#).failing(1, busy_error());
    let record = setup.receive_with_metadata(&old, redriven_attributes());
    assert_eq!(setup.process(vec![record], 30).len(), 1, "none of its 1000 s has passed");

    let setup = jittered_setup("").failing(1, HandlerError::permanent("Gone", ""));
    let record = setup.receive_with_metadata(&old, redriven_attributes());
    assert!(setup.process(vec![record], 30).is_empty());
    let verdict = setup.verdict();
    assert_eq!(
        (&verdict["verdict"], &verdict["new_generation"], &verdict["attempts"]),
        (&json!("NON_RETRYABLE_ERROR"), &json!(true), &json!(0))
    );
}

#[test]
fn retention_counts_from_the_send_to_this_queue_not_the_first_send() {
    let setup = jittered_setup("").failing(1, busy_error());
    let eight_days_ago = format_time_at(-8 * 24 * 3600);
    let retried = format!(r#","retry_attempt":1,"first_sent_time":"{eight_days_ago}""#);
    let record = setup.receive_with_metadata(&retried, Attributes::new());
    assert_eq!(setup.process(vec![record], 30).len(), 1, "the queue keeps it for another seven days");
    assert_eq!(setup.wait_until_visible().0, setup.delay(0, 1));
}

#[test]
fn a_delay_and_its_limits_count_from_the_end_of_the_call() {
    // The call is cut off after 25 s, five seconds before the deadline.
    let hidden = |limit: i64, micros: i64| {
        let setup = jittered_setup("").on(1, Step::Hang);
        let due = 25 + i64::try_from(setup.delay(0, 1)).unwrap() + limit;
        let expires =
            start_time() + chrono::TimeDelta::seconds(due) + chrono::TimeDelta::microseconds(micros);
        let expires = format!(r#","expires_at":"{}""#, format_rfc3339(expires));
        let record = setup.receive_with_metadata(&expires, Attributes::new());
        let is_kept = setup.process(vec![record], 30).len() == 1;
        assert_eq!(setup.annotation.sent_contents().is_empty(), is_kept);
        is_kept
    };
    assert!(hidden(0, 0) && hidden(0, 1) && hidden(1, 0));
    assert!(!hidden(0, -1) && !hidden(-1, 0));
}

//! The strategy `visibility`, and immediate retries.

use std::time::Duration;

use super::*;
use crate::limits::VisibilitySeconds;
use crate::policy::Immediate;

/// Decides at second 10 on a message first sent at second 0, on a queue with a visibility timeout of 180 s.
fn on_queue(policy: &Policy, body: &str, hand_off: &HandOff, receive_count: u32) -> Result<u16, GiveUp> {
    let record = ReceivedMessage { body: body.to_owned(), sent_at: at(0), receive_count, ..received(None) };
    let failed = failed_record(record, hand_off, None);
    decide_on_queue(policy, &failed, Attempts::from_receives(&failed.accepted), queue_times(100_000), at(10))
        .map(VisibilitySeconds::get)
}

#[test]
fn the_queues_receives_are_the_attempts() {
    let policy = policy(
        r#"{"max_attempts":3,"backoff":{"kind":"schedule","delays_seconds":[1,20,300],"jitter":"none"}}"#,
    );
    let after = |receive_count| on_queue(&policy, &body(""), &transient(), receive_count);
    assert_eq!([1, 2, 3].map(|count| after(count).unwrap()), [1, 20, 300]);
    let exceeded = GiveUp {
        reason: DeadLetterReason::RetryAttemptExceeded,
        explanation: "Max retry attempts 3 exceeded".to_owned(),
    };
    assert_eq!(after(4), Err(exceeded));
    assert_eq!(
        on_queue(&policy, &body(r#""retry_attempt":3"#), &transient(), 1),
        Ok(1),
        "what the body says is of another strategy"
    );
}

#[test]
fn a_delay_is_twelve_hours_less_the_queues_visibility_timeout_at_most() {
    let long =
        policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":43200,"jitter":"none"}}"#);
    assert_eq!(on_queue(&long, &body(""), &transient(), 1), Ok(43_200 - 180));
    let own = asking_for(100_000);
    assert_eq!(on_queue(&long, &body(""), &own, 1), Ok(43_200 - 180));
}

#[test]
fn a_hidden_message_with_a_permanent_error_or_too_old_is_given_up() {
    let permanent = HandOff { answer: Classification::without_delay(FailureClass::Permanent), ..transient() };
    let reason = |failure: &HandOff, body: &str| {
        on_queue(&minutes(), body, failure, 1).map_err(|give_up| give_up.reason)
    };
    assert_eq!(reason(&permanent, &body("")), Err(DeadLetterReason::NonRetryableError));
    let expires = format!(r#""expires_at":"{}""#, format_rfc3339(at(69)));
    assert_eq!(reason(&transient(), &body(&expires)), Err(DeadLetterReason::MessageExpired));
    let expires = format!(r#""expires_at":"{}""#, format_rfc3339(at(70)));
    assert_eq!(reason(&transient(), &body(&expires)), Ok(60));
    assert_eq!(
        reason(&transient(), &body(r#""max_attempts":0"#)),
        Err(DeadLetterReason::RetryAttemptExceeded)
    );
}

#[test]
fn a_snoozed_or_not_started_message_spends_a_receive() {
    let not_started =
        HandOff { answer: Classification::without_delay(FailureClass::NotStarted), ..transient() };
    let answer = Classification { kind: FailureClass::Snooze.into(), retry_after_seconds: Some(5) };
    let snooze = HandOff { answer, ..transient() };
    assert_eq!(on_queue(&minutes(), &body(""), &not_started, 3), Ok(60));
    assert_eq!(on_queue(&minutes(), &body(""), &snooze, 3), Ok(5));
    for failure in [not_started, snooze] {
        let reason = on_queue(&minutes(), &body(""), &failure, 4).map_err(|give_up| give_up.reason);
        assert_eq!(reason, Err(DeadLetterReason::RetryAttemptExceeded));
    }
}

#[test]
fn a_retry_beyond_the_queues_retention_is_given_up_in_time() {
    let decided = |sent_at, retention| {
        let hand_off = HandOff { delivery: Delivery { sent_at, ..delivery() }, ..transient() };
        let failed = failed(&body(""), &hand_off, None);
        decide_on_queue(
            &minutes(),
            &failed,
            Attempts::from_receives(&failed.accepted),
            queue_times(retention),
            at(10),
        )
        .map(VisibilitySeconds::get)
    };
    // Hidden at second 10 for 60 s, followed by a visibility timeout of 180 s.
    assert_eq!(decided(at(0), 250), Ok(60));
    let give_up = decided(at(0), 249).unwrap_err();
    assert_eq!(give_up.reason, DeadLetterReason::MessageExpired);
    assert_eq!(
        give_up.explanation,
        format!(
            "The next retry at {} is too close to the end of the queue's retention at {}",
            format_rfc3339(at(70)),
            format_rfc3339(at(249))
        )
    );
    assert_eq!(decided(at(5), 245), Ok(60), "it runs from the send");
}

/// A queue with a visibility timeout of 180 s and this retention.
fn queue_times(retention_seconds: u64) -> QueueTimes {
    QueueTimes {
        visibility_timeout: VisibilitySeconds::new(180).unwrap(),
        retention: Duration::from_secs(retention_seconds),
    }
}

#[test]
fn a_transient_error_is_retried_at_once_with_an_immediate_policy() {
    let quick = r#""immediate":{"max_attempts":2,"delay_ms":100}"#;
    let twice = Some(Immediate { max_attempts: 2, delay: Duration::from_millis(100) });
    let with = |members: &str| policy(&format!("{{{quick}{members}}}"));
    let busy = HandlerError::transient("Db.Busy", "");
    assert_eq!(immediate_retries(&minutes(), &busy), None);
    assert_eq!(immediate_retries(&with(""), &busy), twice);
    assert_eq!(immediate_retries(&with(r#","non_retryable":["Db.*"]"#), &busy), None);
    assert_eq!(immediate_retries(&with(r#","retryable":["Http*"]"#), &busy), None);
    let wrong = HandlerError::permanent("Db.Busy", "");
    assert_eq!(immediate_retries(&with(""), &wrong), None);
    assert_eq!(
        immediate_retries(&with(r#","retryable":["Db.*"]"#), &wrong),
        twice,
        "the policy's lists count"
    );
    let second = Duration::from_secs(1);
    assert_eq!(immediate_retries(&with(""), &busy.retry_after(second)), None, "it asked for a delay");
    assert_eq!(immediate_retries(&with(""), &HandlerError::snooze("Later", "", second)), None);
}

//! The strategy `visibility`, and immediate retries.

use std::time::Duration;

use super::*;
use crate::limits::VisibilitySeconds;
use crate::policy::ImmediateRetries;

/// Decides, at second 10, what happens to a message first sent at second 0, on a queue with a visibility timeout of 180
/// s.
fn decide_after_receives(
    policy: &Policy,
    body: &str,
    hand_off: &HandOff,
    receive_count: u32,
) -> Result<u16, GiveUp> {
    let record =
        ReceivedMessage { body: body.to_owned(), sent_at: at(0), receive_count, ..received_message(None) };
    let failed = failed_record(record, hand_off, None);
    decide_visibility_timeout(
        policy,
        &failed,
        Attempts::from_receives(&failed.accepted),
        queue_times(100_000),
        at(10),
    )
    .map(VisibilitySeconds::get)
}

#[test]
fn each_receive_counts_as_an_attempt() {
    let policy = policy(
        r#"{"max_attempts":3,"backoff":{"kind":"schedule","delays_seconds":[1,20,300],"jitter":"none"}}"#,
    );
    let visibility_after =
        |receive_count| decide_after_receives(&policy, &body(""), &transient_failure(), receive_count);
    assert_eq!([1, 2, 3].map(|count| visibility_after(count).unwrap()), [1, 20, 300]);
    let exceeded = GiveUp {
        reason: DeadLetterReason::RetryAttemptExceeded,
        explanation: "Max retry attempts 3 exceeded".to_owned(),
    };
    assert_eq!(visibility_after(4), Err(exceeded));
    assert_eq!(
        decide_after_receives(&policy, &body(r#""retry_attempt":3"#), &transient_failure(), 1),
        Ok(1),
        "the count in the body belongs to another strategy"
    );
}

#[test]
fn a_delay_is_at_most_twelve_hours_minus_the_visibility_timeout() {
    let long_policy =
        policy(r#"{"long_delays":true,"backoff":{"kind":"fixed","delay_seconds":43200,"jitter":"none"}}"#);
    assert_eq!(decide_after_receives(&long_policy, &body(""), &transient_failure(), 1), Ok(43_200 - 180));
    let retry_after = failure_with_retry_after(100_000);
    assert_eq!(decide_after_receives(&long_policy, &body(""), &retry_after, 1), Ok(43_200 - 180));
}

#[test]
fn a_hidden_message_is_given_up_on_for_a_permanent_error_or_its_age() {
    let permanent = HandOff {
        classification: Classification::without_delay(FailureClass::Permanent),
        ..transient_failure()
    };
    let reason = |failure: &HandOff, body: &str| {
        decide_after_receives(&one_minute_policy(), body, failure, 1).map_err(|give_up| give_up.reason)
    };
    assert_eq!(reason(&permanent, &body("")), Err(DeadLetterReason::NonRetryableError));
    let expires = format!(r#""expires_at":"{}""#, format_rfc3339(at(69)));
    assert_eq!(reason(&transient_failure(), &body(&expires)), Err(DeadLetterReason::MessageExpired));
    let expires = format!(r#""expires_at":"{}""#, format_rfc3339(at(70)));
    assert_eq!(reason(&transient_failure(), &body(&expires)), Ok(60));
    assert_eq!(
        reason(&transient_failure(), &body(r#""max_attempts":0"#)),
        Err(DeadLetterReason::RetryAttemptExceeded)
    );
}

#[test]
fn snoozes_and_unstarted_calls_count_as_attempts() {
    let not_started = HandOff {
        classification: Classification::without_delay(FailureClass::NotStarted),
        ..transient_failure()
    };
    let classification = Classification { kind: FailureClass::Snooze.into(), retry_after_seconds: Some(5) };
    let snooze = HandOff { classification, ..transient_failure() };
    assert_eq!(decide_after_receives(&one_minute_policy(), &body(""), &not_started, 3), Ok(60));
    assert_eq!(decide_after_receives(&one_minute_policy(), &body(""), &snooze, 3), Ok(5));
    for failure in [not_started, snooze] {
        let reason = decide_after_receives(&one_minute_policy(), &body(""), &failure, 4)
            .map_err(|give_up| give_up.reason);
        assert_eq!(reason, Err(DeadLetterReason::RetryAttemptExceeded));
    }
}

#[test]
fn a_message_is_given_up_on_before_the_queues_retention_ends() {
    let decide_with_retention = |sent_at, retention| {
        let hand_off = HandOff { delivery: Delivery { sent_at, ..delivery() }, ..transient_failure() };
        let failed = failed_message(&body(""), &hand_off, None);
        decide_visibility_timeout(
            &one_minute_policy(),
            &failed,
            Attempts::from_receives(&failed.accepted),
            queue_times(retention),
            at(10),
        )
        .map(VisibilitySeconds::get)
    };
    // Hidden at second 10 for 60 s, followed by a visibility timeout of 180 s.
    assert_eq!(decide_with_retention(at(0), 250), Ok(60));
    let give_up = decide_with_retention(at(0), 249).unwrap_err();
    assert_eq!(give_up.reason, DeadLetterReason::MessageExpired);
    assert_eq!(
        give_up.explanation,
        format!(
            "The next retry at {} is too close to the end of the queue's retention at {}",
            format_rfc3339(at(70)),
            format_rfc3339(at(249))
        )
    );
    assert_eq!(decide_with_retention(at(5), 245), Ok(60), "counted from the send");
}

/// Returns the settings of a queue with a visibility timeout of 180 s and this retention.
fn queue_times(retention_seconds: u64) -> QueueTimes {
    QueueTimes {
        visibility_timeout: VisibilitySeconds::new(180).unwrap(),
        retention: Duration::from_secs(retention_seconds),
    }
}

#[test]
fn a_transient_error_is_retried_immediately_if_the_policy_allows_it() {
    let quick = r#""immediate":{"max_attempts":2,"delay_ms":100}"#;
    let two_retries = Some(ImmediateRetries { max_attempts: 2, delay: Duration::from_millis(100) });
    let policy_with_members = |members: &str| policy(&format!("{{{quick}{members}}}"));
    let busy = HandlerError::transient("Db.Busy", "");
    assert_eq!(immediate_retries(&one_minute_policy(), &busy), None);
    assert_eq!(immediate_retries(&policy_with_members(""), &busy), two_retries);
    assert_eq!(immediate_retries(&policy_with_members(r#","non_retryable":["Db.*"]"#), &busy), None);
    assert_eq!(immediate_retries(&policy_with_members(r#","retryable":["Http*"]"#), &busy), None);
    let permanent = HandlerError::permanent("Db.Busy", "");
    assert_eq!(immediate_retries(&policy_with_members(""), &permanent), None);
    assert_eq!(
        immediate_retries(&policy_with_members(r#","retryable":["Db.*"]"#), &permanent),
        two_retries,
        "the policy's lists apply"
    );
    let second = Duration::from_secs(1);
    assert_eq!(
        immediate_retries(&policy_with_members(""), &busy.retry_after(second)),
        None,
        "a delay was requested"
    );
    assert_eq!(immediate_retries(&policy_with_members(""), &HandlerError::snooze("Later", "", second)), None);
}

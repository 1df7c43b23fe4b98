//! Age, history and size limits.

use super::*;

#[test]
fn first_sent_time_is_kept_from_the_first_delivery() {
    let first = resend(&one_minute_policy(), &body(""), &transient_failure());
    // A re-send is a new SQS message with a new `SentTimestamp`.
    let hand_off = HandOff { delivery: Delivery { sent_at: at(70), ..delivery() }, ..transient_failure() };
    match decide(&one_minute_policy(), &failed_message(first.body(), &hand_off, None), at(80)) {
        Decision::Resend(second) => {
            assert_eq!(second.first_sent, at(0));
            assert_eq!(metadata(&second).first_sent_time, Some(at(0)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_first_sent_time_without_retries_is_ignored() {
    let forged = body(r#""first_sent_time":"2020-01-01T00:00:00Z""#);
    assert_eq!(resend(&one_minute_policy(), &forged, &transient_failure()).first_sent, at(0));
    let forged = body(r#""retry_attempt":0,"first_sent_time":"2020-01-01T00:00:00Z""#);
    assert_eq!(resend(&one_minute_policy(), &forged, &transient_failure()).first_sent, at(0));
}

#[test]
fn a_first_sent_time_after_the_delivery_is_ignored() {
    let forged = body(r#""retry_attempt":1,"first_sent_time":"2026-07-25T17:20:00.000001Z""#);
    assert_eq!(resend(&one_minute_policy(), &forged, &transient_failure()).first_sent, at(0));
    let exact = body(r#""retry_attempt":1,"first_sent_time":"2026-07-25T17:20:00Z""#);
    assert_eq!(resend(&one_minute_policy(), &exact, &transient_failure()).first_sent, at(0));
    let earlier = body(r#""retry_attempt":1,"first_sent_time":"2026-07-25T17:19:59Z""#);
    assert_eq!(resend(&one_minute_policy(), &earlier, &transient_failure()).first_sent, at(-1));
}

#[test]
fn a_message_expires_if_its_next_retry_would_be_after_max_age() {
    // Decided at second 10 and re-sent with a delay of 60 s: the next retry is due at second 70.
    let policy_with_max_age = |age: u32| {
        policy(&format!(
            r#"{{"backoff":{{"kind":"fixed","delay_seconds":60,"jitter":"none"}},"max_age_seconds":{age}}}"#
        ))
    };
    assert_eq!(resend(&policy_with_max_age(70), &body(""), &transient_failure()).delay.get(), 60);
    assert_eq!(
        give_up(&policy_with_max_age(69), &body(""), &transient_failure()),
        GiveUp {
            reason: DeadLetterReason::MessageExpired,
            explanation: "The next retry, at 2026-07-25T17:21:10.000000Z, would be too late: max_age_seconds ends at 2026-07-25T17:21:09.000000Z".to_owned(),
        }
    );
    let retried = body(r#""retry_attempt":1,"first_sent_time":"2026-07-25T17:19:00Z""#);
    assert_eq!(resend(&policy_with_max_age(130), &retried, &transient_failure()).retry_attempt, 2);
    assert_eq!(
        give_up(&policy_with_max_age(129), &retried, &transient_failure()).reason,
        DeadLetterReason::MessageExpired
    );
}

#[test]
fn a_message_expires_if_its_next_retry_would_be_after_expires_at() {
    let in_time = body(r#""expires_at":"2026-07-25T19:21:10+02:00""#);
    assert_eq!(resend(&one_minute_policy(), &in_time, &transient_failure()).retry_attempt, 1);
    let given_up = give_up(
        &one_minute_policy(),
        &body(r#""expires_at":"2026-07-25T17:21:09.999999Z""#),
        &transient_failure(),
    );
    assert_eq!(given_up.reason, DeadLetterReason::MessageExpired);
    assert_eq!(
        given_up.explanation,
        "The next retry, at 2026-07-25T17:21:10.000000Z, would be too late: metadata.expires_at ends at 2026-07-25T17:21:09.999999Z"
    );
}

#[test]
fn the_earlier_of_the_two_age_limits_applies() {
    let policy =
        policy(r#"{"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"},"max_age_seconds":70}"#);
    let earlier = give_up(&policy, &body(r#""expires_at":"2026-07-25T17:20:30Z""#), &transient_failure());
    assert!(earlier.explanation.contains("metadata.expires_at"));
    assert_eq!(
        resend(&policy, &body(r#""expires_at":"2027-01-01T00:00:00Z""#), &transient_failure()).retry_attempt,
        1
    );
}

#[test]
fn a_snoozed_message_can_expire() {
    let given_up = give_up(&one_minute_policy(), &body(r#""expires_at":"2026-07-25T17:20:15Z""#), &snooze());
    assert_eq!(given_up.reason, DeadLetterReason::MessageExpired);
}

#[test]
fn exceeded_attempts_take_precedence_over_expiry() {
    let both = body(r#""retry_attempt":3,"expires_at":"2020-01-01T00:00:00Z""#);
    assert_eq!(
        give_up(&one_minute_policy(), &both, &transient_failure()).reason,
        DeadLetterReason::RetryAttemptExceeded
    );
}

#[test]
fn history_keeps_the_last_five_failures_newest_last() {
    let policy_with_many_attempts = policy(r#"{"max_attempts":1000}"#);
    let mut message = body("");
    for attempt in 0..8 {
        let error = failure(&HandlerError::transient("E", format!("failure {attempt}")));
        message = resend(&policy_with_many_attempts, &message, &error).body().to_owned();
        let history = MessageSchema::default().parse_envelope(&message).unwrap().metadata.retry_history;
        let first = (attempt + 1_u32).saturating_sub(5);
        let expected: Vec<_> = (first..=attempt)
            .map(|attempt| PastFailure::new(attempt, at(5), "E", &format!("failure {attempt}")))
            .collect();
        assert_eq!(history, expected);
    }
}

#[test]
fn history_details_are_at_most_256_bytes_and_legal() {
    let error = failure(&HandlerError::transient("E", "é\u{FFFE}\0".repeat(200)));
    let resend = resend(&one_minute_policy(), &body(""), &error);
    let past = &metadata(&resend).retry_history[0];
    assert!((250..=256).contains(&past.error_details.len()), "{}", past.error_details.len());
    assert!(resend.body().chars().all(crate::limits::is_legal));
}

#[test]
fn history_records_a_failure_from_the_future_at_the_time_of_the_decision() {
    let ahead = HandOff { delivery: Delivery { failed_at: at(1000), ..delivery() }, ..transient_failure() };
    let resend = resend(&one_minute_policy(), &body(""), &ahead);
    assert_eq!(parse_rfc3339(&metadata(&resend).retry_history[0].failed_at), Some(at(10)));
}

/// Returns a body of exactly `bytes` bytes with these metadata members.
fn body_with_size(bytes: usize, members: &str) -> String {
    let empty = format!(r#"{{"metadata":{{"message_id":"{ID}"{members}}},"data":{{"s":""}}}}"#);
    empty.replace(r#""s":"""#, &format!(r#""s":"{}""#, "x".repeat(bytes - empty.len())))
}

fn decide_with_attributes(attributes_bytes: usize, body: &str) -> Decision {
    let failed = failed_message_with_attributes(attributes_bytes, body, &transient_failure());
    decide(&policy(r#"{"max_attempts":1000}"#), &failed, at(10))
}

/// The members that a first retry adds: the attempt, two timestamps, and a history of one failure.
const FIRST_RETRY: &str = concat!(
    r#","retry_attempt":1,"next_retry_time":"2026-07-25T17:21:10.000000Z","first_sent_time":"2026-07-25T17:20:00.000000Z""#,
    r#","retry_history":[{"attempt":0,"failed_at":"2026-07-25T17:20:05.000000Z","error_type":"HttpStatus.503","error_details":"HTTP 503"}]"#
);
const BARE_RETRY_BYTES: usize = 114;

#[test]
fn history_is_dropped_before_a_message_is_too_large() {
    let history = FIRST_RETRY.find(r#","retry_history""#).unwrap();
    assert_eq!(FIRST_RETRY[..history].len(), BARE_RETRY_BYTES);
    let measure_resend =
        |bytes, attributes| match decide_with_attributes(attributes, &body_with_size(bytes, "")) {
            Decision::Resend(resend) => {
                assert!(resend.body().len() + attributes <= MESSAGE_BYTES_MAX);
                Ok((resend.body().len() - bytes, metadata(&resend).retry_history.len()))
            }
            Decision::GiveUp(give_up) => Err(give_up.reason),
            Decision::Hop(_) => panic!("there are no long delays"),
        };
    let room_for_all = MESSAGE_BYTES_MAX - FIRST_RETRY.len();
    assert_eq!(measure_resend(room_for_all, 0), Ok((FIRST_RETRY.len(), 1)));
    assert_eq!(measure_resend(room_for_all + 1, 0), Ok((BARE_RETRY_BYTES, 0)));
    assert_eq!(measure_resend(room_for_all - 500, 501), Ok((BARE_RETRY_BYTES, 0)), "attributes count");
    assert_eq!(measure_resend(MESSAGE_BYTES_MAX - BARE_RETRY_BYTES, 0), Ok((BARE_RETRY_BYTES, 0)));
    assert_eq!(
        measure_resend(MESSAGE_BYTES_MAX - BARE_RETRY_BYTES + 1, 0),
        Err(DeadLetterReason::MessageTooLarge)
    );
    assert_eq!(measure_resend(MESSAGE_BYTES_MAX, 0), Err(DeadLetterReason::MessageTooLarge));
    assert_eq!(measure_resend(1000, MESSAGE_BYTES_MAX - 1000), Err(DeadLetterReason::MessageTooLarge));
}

/// A trace must not cause its message to be given up on.
#[test]
fn the_last_attempt_link_is_dropped_before_a_message_gets_too_large() {
    const LAST_ATTEMPT_MEMBER: &str =
        r#","last_attempt_traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01""#;
    let measure_resend = |bytes| match decide_with_attributes(0, &body_with_size(bytes, LAST_ATTEMPT_MEMBER))
    {
        Decision::Resend(resend) => {
            let metadata = metadata(&resend);
            Ok((metadata.retry_history.len(), metadata.last_attempt.is_some()))
        }
        Decision::GiveUp(give_up) => Err(give_up.reason),
        Decision::Hop(_) => panic!("there are no long delays"),
    };
    assert_eq!(measure_resend(MESSAGE_BYTES_MAX - FIRST_RETRY.len()), Ok((1, true)));
    assert_eq!(measure_resend(MESSAGE_BYTES_MAX - BARE_RETRY_BYTES), Ok((0, true)));
    assert_eq!(measure_resend(MESSAGE_BYTES_MAX - BARE_RETRY_BYTES + 1), Ok((0, false)));
    assert_eq!(
        measure_resend(MESSAGE_BYTES_MAX - BARE_RETRY_BYTES + LAST_ATTEMPT_MEMBER.len()),
        Ok((0, false))
    );
    assert_eq!(
        measure_resend(MESSAGE_BYTES_MAX - BARE_RETRY_BYTES + LAST_ATTEMPT_MEMBER.len() + 1),
        Err(DeadLetterReason::MessageTooLarge)
    );
}

#[test]
fn history_is_dropped_oldest_first() {
    let entry = |attempt: u32| {
        format!(
            r#"{{"attempt":{attempt},"failed_at":"2026-07-25T17:20:05.000000Z","error_type":"E","error_details":"{}"}}"#,
            "d".repeat(200)
        )
    };
    let entries: Vec<_> = (0..5).map(entry).collect();
    let members = format!(r#","retry_attempt":5,"retry_history":[{}]"#, entries.join(","));
    let message = body_with_size(MESSAGE_BYTES_MAX - 3000, &members);
    // The re-send adds two timestamps and the newest failure, and drops the oldest of the six failures.
    let newest = r#",{"attempt":5,"failed_at":"2026-07-25T17:20:05.000000Z","error_type":"HttpStatus.503","error_details":"HTTP 503"}"#;
    let entry_bytes = entry(0).len() + 1;
    let added_bytes = BARE_RETRY_BYTES - r#","retry_attempt":1"#.len() + newest.len();
    let history_after_resend = |attributes: usize| match decide_with_attributes(attributes, &message) {
        Decision::Resend(resend) => {
            metadata(&resend).retry_history.iter().map(|past| past.attempt).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let full = 3000 + entry_bytes - added_bytes;
    assert_eq!(history_after_resend(full), [1, 2, 3, 4, 5]);
    assert_eq!(history_after_resend(full + 1), [2, 3, 4, 5]);
    assert_eq!(history_after_resend(full + entry_bytes), [2, 3, 4, 5]);
    assert_eq!(history_after_resend(full + entry_bytes + 1), [3, 4, 5]);
    assert_eq!(history_after_resend(full + 4 * entry_bytes), [5]);
    assert_eq!(history_after_resend(full + 4 * entry_bytes + 1), [0_u32; 0]);
}

#[test]
fn the_explanation_for_an_oversized_message_names_its_size_and_the_limit() {
    match decide_with_attributes(0, &body_with_size(MESSAGE_BYTES_MAX, "")) {
        Decision::GiveUp(give_up) => assert_eq!(
            give_up.explanation,
            "With its retry metadata, the message is 1048690 bytes long; the SQS limit is 1048576"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn extreme_timestamps_never_overflow() {
    let old = body(
        r#""retry_attempt":1,"first_sent_time":"0000-01-01T00:00:00Z","expires_at":"9999-12-31T23:59:59Z""#,
    );
    let policy = policy(r#"{"max_age_seconds":1209600}"#);
    assert_eq!(give_up(&policy, &old, &transient_failure()).reason, DeadLetterReason::MessageExpired);
}

#[test]
fn a_message_does_not_wait_again_within_5_s_of_its_age_limit() {
    let limit = AgeLimit::from_limits(&policy(r#"{"max_age_seconds":100}"#), None, at(0)).unwrap();
    assert_eq!([94, 95, 100, 101].map(|seconds| limit.is_near(at(seconds))), [false, true, true, true]);
}

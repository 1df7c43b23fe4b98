mod envelopes;
mod records;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::message::metadata::parse_rfc3339;

const ORDERS: &str = "arn:aws:lambda:us-east-2:123456789012:function:orders";
const REQUEST_ID: &str = "e4b46cbf-b738-4880-8a18-f61cca4b6f5f";
const FAILED_AT: &str = "2019-11-14T18:16:05.568Z";

/// Returns the example record from the AWS Lambda Developer Guide, with this payload.
fn record(payload: &str) -> String {
    format!(
        r#"{{"version":"1.0","timestamp":"{FAILED_AT}","requestContext":{{"requestId":"{REQUEST_ID}","functionArn":"{ORDERS}:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":1}},"requestPayload":{payload},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}},"responsePayload":{{"errorMessage":"order 7 is locked","errorType":"OrderLocked"}}}}"#
    )
}

fn envelope(attempt: &str, initial: &str, payload: &str) -> String {
    format!(
        r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial}}},"_original_payload":{payload}}}"#
    )
}

fn failed_at() -> Timestamp {
    parse_rfc3339(FAILED_AT).unwrap()
}

fn functions() -> FunctionArns {
    FunctionArns::parse(ORDERS).unwrap()
}

fn fixed_delay_policy(seconds: u32) -> Policy {
    Policy::from_json(&format!(
        r#"{{"long_delays":true,"max_attempts":3,"max_age_seconds":86400,"backoff":{{"kind":"fixed","delay_seconds":{seconds},"jitter":"none"}}}}"#
    ))
    .unwrap()
}

/// Decides on this record, `after_millis` milliseconds after the failure.
fn decide_record(policy: &Policy, body: &str, after_millis: i64) -> InvocationDecision {
    let now = failed_at() + TimeDelta::milliseconds(after_millis);
    decide_invocation(policy, &functions(), &FailedInvocation::parse(body).unwrap(), false, now)
}

fn expect_give_up(decision: InvocationDecision) -> (DeadLetterReason, String) {
    let InvocationDecision::GiveUp(GiveUp { reason, explanation }) = decision else { panic!("{decision:?}") };
    (reason, explanation)
}

#[test]
fn the_first_failure_is_retried_as_attempt_1_with_the_records_timestamp() {
    let payload = r#"{ "n":1e400, "é":"\u00e9", "n":0.10 }"#;
    let InvocationDecision::Invoke(invocation) =
        decide_record(&fixed_delay_policy(5), &record(payload), 5000)
    else {
        panic!()
    };
    assert_eq!(invocation.payload, envelope("1", "1573755365", payload));
    assert_eq!(invocation.retry, EventRetry { attempt: 1, initial_timestamp: 1_573_755_365 });
    assert_eq!(invocation.total_delay.get(), 5);
}

#[test]
fn the_next_failure_increments_the_attempt_and_keeps_time_and_payload() {
    let body = record(&envelope("1", "1573750000", "[1.0]"));
    let InvocationDecision::Invoke(invocation) = decide_record(&fixed_delay_policy(5), &body, 5000) else {
        panic!()
    };
    assert_eq!(invocation.payload, envelope("2", "1573750000", "[1.0]"));
}

#[test]
fn an_early_record_hops_for_the_remaining_time_or_900_s() {
    let hop_delay = |after_millis| match decide_record(&fixed_delay_policy(2000), &record("{}"), after_millis)
    {
        InvocationDecision::Hop(delay) => Some(delay.get()),
        InvocationDecision::Invoke(_) => None,
        other => panic!("{other:?}"),
    };
    let moments = [-1000, 0, 1_099_999, 1_100_000, 1_999_000, 1_999_001, 1_999_999, 2_000_000];
    let delays = [Some(900), Some(900), Some(900), Some(900), Some(1), Some(1), Some(1), None];
    assert_eq!(moments.map(hop_delay), delays);
}

#[test]
fn the_delay_depends_on_the_policy_the_request_id_and_the_attempt() {
    let policy = Policy::from_json(DEFAULT_POLICY).unwrap();
    for attempt in 1..=20 {
        let payload = if attempt == 1 {
            "{}".to_owned()
        } else {
            envelope(&(attempt - 1).to_string(), "1573755000", "{}")
        };
        let message_id = Uuid::parse_str(REQUEST_ID).unwrap();
        let expected = retry_delay(&policy, JitterKey { message_id, generation: 0, attempt });
        let decide_after = |seconds: i64| decide_record(&policy, &record(&payload), 1000 * seconds);
        match decide_after(0) {
            InvocationDecision::Hop(first) => {
                let (seconds, one) = (i64::from(expected.get()), DelaySeconds::new(1).unwrap());
                assert_eq!(i64::from(first.get()), seconds.min(900));
                assert_eq!(decide_after(seconds - 1), InvocationDecision::Hop(one));
                assert!(matches!(decide_after(seconds), InvocationDecision::Invoke(_)));
            }
            InvocationDecision::Invoke(invocation) => {
                assert_eq!((invocation.total_delay, expected.get()), (expected, 0))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_default_policy_retries_for_a_day() {
    let policy = Policy::from_json(DEFAULT_POLICY).unwrap();
    assert_eq!((policy.max_attempts, policy.max_age_seconds), (1000, Some(86_400)));
    assert!(policy.long_delays);
    assert_eq!(policy.backoff.longest_delay(policy.delay_limit()), RetryDelay::MAX);
}

#[test]
fn an_event_is_retried_at_most_max_attempts_times() {
    let decide_attempt =
        |attempt| decide_record(&fixed_delay_policy(0), &record(&envelope(attempt, "1573755000", "{}")), 0);
    assert!(matches!(decide_attempt("2"), InvocationDecision::Invoke(_)));
    let (reason, explanation) = expect_give_up(decide_attempt("3"));
    assert_eq!(reason, DeadLetterReason::RetryAttemptExceeded);
    assert_eq!(explanation, "Max retry attempts 3 exceeded");
    assert_eq!(expect_give_up(decide_attempt("1000")).0, DeadLetterReason::RetryAttemptExceeded);
    let without_attempts = Policy { max_attempts: 0, ..fixed_delay_policy(0) };
    assert_eq!(
        expect_give_up(decide_record(&without_attempts, &record("{}"), 0)).0,
        DeadLetterReason::RetryAttemptExceeded
    );
}

#[test]
fn a_retry_that_would_exceed_the_maximum_age_is_not_made() {
    // The first failure was 86,395 s before this one, so the age limit is 5 s after it.
    let first = (failed_at().timestamp() + 5 - 86_400).to_string();
    let body = record(&envelope("1", &first, "{}"));
    assert!(matches!(decide_record(&fixed_delay_policy(4), &body, 0), InvocationDecision::Hop(_)));
    let (reason, explanation) = expect_give_up(decide_record(&fixed_delay_policy(5), &body, 0));
    assert_eq!(reason, DeadLetterReason::MessageExpired);
    assert_eq!(
        explanation,
        "The next retry, at 2019-11-14T18:16:10.568000Z, would be too late: max_age_seconds ends at 2019-11-14T18:16:10.000000Z"
    );
    // A wait in the queue does not extend the limit, either.
    assert!(matches!(decide_record(&fixed_delay_policy(4), &body, 4432), InvocationDecision::Invoke(_)));
    assert_eq!(
        expect_give_up(decide_record(&fixed_delay_policy(4), &body, 4433)).0,
        DeadLetterReason::MessageExpired
    );
}

#[test]
fn an_unlisted_function_is_not_invoked_even_after_a_redrive() {
    let body = record("{}").replace(":function:orders:", ":function:orders-2:");
    let failed = FailedInvocation::parse(&body).unwrap();
    for came_back in [false, true] {
        let (reason, explanation) = expect_give_up(decide_invocation(
            &fixed_delay_policy(0),
            &functions(),
            &failed,
            came_back,
            failed_at(),
        ));
        assert_eq!(reason, DeadLetterReason::NonRetryableError);
        assert!(explanation.starts_with("/requestContext/functionArn is not in FUNCTION_ARNS"));
    }
}

#[test]
fn the_policys_lists_match_the_functions_own_error_type() {
    let policy = |lists: &str| Policy::from_json(&format!(r#"{{{lists},"max_attempts":3}}"#)).unwrap();
    for (lists, is_given_up) in [
        (r#""non_retryable":["Order*"]"#, true),
        (r#""non_retryable":["Other"]"#, false),
        (r#""retryable":["OrderLocked"]"#, false),
        (r#""retryable":["Other"]"#, true),
    ] {
        let decision = decide_record(&policy(lists), &record("{}"), 900_000);
        assert_eq!(matches!(decision, InvocationDecision::GiveUp(_)), is_given_up, "{lists}");
        if is_given_up {
            assert_eq!(expect_give_up(decision), (DeadLetterReason::NonRetryableError, String::new()));
        }
    }
}

#[test]
fn a_record_redriven_from_the_final_dlq_is_invoked_immediately() {
    let body = record(&envelope("3", "1573750000", "[1.0]"));
    let now = failed_at() + TimeDelta::days(9);
    let InvocationDecision::Invoke(invocation) = decide_invocation(
        &fixed_delay_policy(600),
        &functions(),
        &FailedInvocation::parse(&body).unwrap(),
        true,
        now,
    ) else {
        panic!()
    };
    assert_eq!(invocation.payload, envelope("1", &now.timestamp().to_string(), "[1.0]"));
    assert_eq!(invocation.total_delay, RetryDelay::ZERO);
}

/// If a record from the future were not given up on, it would hop until its failure time.
#[test]
fn a_record_from_the_future_is_given_up_on_unless_clock_skew_explains_it() {
    for (timestamp, is_given_up) in [
        ("9999-12-31T23:59:59.999Z", true),
        ("2019-11-14T18:21:05.569Z", true),
        ("2019-11-14T18:21:05.568Z", false),
    ] {
        let body = record("{}").replace(FAILED_AT, timestamp);
        let decision = decide_record(&fixed_delay_policy(0), &body, 0);
        assert_eq!(matches!(decision, InvocationDecision::GiveUp(_)), is_given_up, "{timestamp}");
        if is_given_up {
            let future = (DeadLetterReason::InvalidMessageFormat, "/timestamp is in the future".to_owned());
            assert_eq!(expect_give_up(decision), future);
        }
    }
}

proptest! {
    /// However late each hop is received, every receive computes the same due time, no invocation is early, and the
    /// wait ends.
    #[test]
    fn no_invocation_is_early_and_every_wait_ends(
        request_id in any::<u128>(),
        made in 0..20_u32,
        late_millis in proptest::collection::vec(0..20_000_i64, 200),
    ) {
        let policy = Policy { max_age_seconds: None, ..Policy::from_json(DEFAULT_POLICY).unwrap() };
        let request_id = Uuid::from_u128(request_id);
        let payload = if made == 0 { "{}".to_owned() } else { envelope(&made.to_string(), "1573755000", "{}") };
        let body = record(&payload).replace(REQUEST_ID, &request_id.to_string());
        let expected = retry_delay(&policy, JitterKey { message_id: request_id, generation: 0, attempt: made + 1 });
        let due = failed_at() + TimeDelta::seconds(expected.get().into());
        let failed = FailedInvocation::parse(&body).unwrap();
        let mut now = failed_at();
        let mut hops = 0;
        let mut lateness = late_millis.into_iter();
        let invocation = loop {
            now += TimeDelta::milliseconds(lateness.next().unwrap());
            match decide_invocation(&policy, &functions(), &failed, false, now) {
                InvocationDecision::Hop(delay) => {
                    prop_assert!(delay > DelaySeconds::ZERO);
                    let waits = TimeDelta::seconds(delay.get().into());
                    let rest = due - now;
                    prop_assert!(delay == DelaySeconds::MAX && rest >= waits
                        || rest <= waits && waits - rest < TimeDelta::seconds(1));
                    now += waits;
                    hops += 1;
                }
                InvocationDecision::Invoke(invocation) => break invocation,
                InvocationDecision::GiveUp(give_up) => panic!("{give_up:?}"),
            }
        };
        prop_assert!(now >= due);
        prop_assert!(now - due <= TimeDelta::seconds(21), "{}", now - due);
        prop_assert!(hops <= 43_200 / 900 + 1);
        prop_assert_eq!(invocation.total_delay, expected);
        prop_assert_eq!(invocation.retry.attempt, made + 1);
    }

    /// A chain of failures ends after the policy's retries, regardless of the payload.
    #[test]
    fn retries_never_exceed_the_policy_and_never_change_the_payload(
        payload in envelopes::any_json(),
        max_attempts in 0..12_u32,
    ) {
        let policy = Policy { max_attempts, ..fixed_delay_policy(0) };
        prop_assume!(read_payload(&payload).0.is_none());
        let mut current = payload.clone();
        let mut retries = 0;
        loop {
            match decide_record(&policy, &record(&current), 0) {
                InvocationDecision::Invoke(invocation) => {
                    retries += 1;
                    let expected = EventRetry { attempt: retries, initial_timestamp: failed_at().timestamp() };
                    prop_assert_eq!(read_payload(&invocation.payload), (Some(expected), payload.as_str()));
                    current = invocation.payload;
                }
                InvocationDecision::GiveUp(give_up) => {
                    prop_assert_eq!(give_up.reason, DeadLetterReason::RetryAttemptExceeded);
                    prop_assert_eq!(retries, max_attempts);
                    break;
                }
                InvocationDecision::Hop(hop) => panic!("{hop:?}"),
            }
        }
    }
}

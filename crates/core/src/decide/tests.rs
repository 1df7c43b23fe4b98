mod budget;
mod floor;
mod jittered;
mod limits;
mod long_delays;
mod on_queue;

use chrono::TimeDelta;

use super::*;
use crate::arrival::Arrival;
use crate::decide::backoff::{retry_after_delay, retry_delay};
use crate::failure::{Classification, Delivery, DlqReturn, Stage};
use crate::handler::HandlerError;
use crate::json::forward_compatible::OpenEnum;
use crate::message::metadata::{Holds, Metadata, format_rfc3339, parse_rfc3339};
use crate::message::origin::Origin;
use crate::message::schema::MessageSchema;
use crate::message::{Attribute, ReceivedMessage};
use crate::testing::{SOURCE_ARN, at, delivery, received_message};

const ID: &str = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";

/// Returns a body whose metadata has these members in addition to its id, such as `"retry_attempt":1`.
pub(crate) fn body(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"metadata":{{"message_id":"{ID}"{comma}{members}}},"data":{{"n":1e400}}}}"#)
}

pub(crate) fn policy(document: &str) -> Policy {
    Policy::from_json(document).unwrap()
}

/// Returns a policy with three retries, each exactly one minute after the failure.
pub(crate) fn one_minute_policy() -> Policy {
    policy(r#"{"max_attempts":3,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#)
}

fn failure(error: &HandlerError) -> HandOff {
    HandOff::from_handler_error(error, delivery())
}

/// Returns [`transient_failure`] for a message that was sent back from the final DLQ.
fn transient_failure_after_dlq_return(generation_before: Option<u32>) -> HandOff {
    let delivery =
        Delivery { came_back: Some(DlqReturn { last_attempt: None, generation_before }), ..delivery() };
    HandOff { delivery, ..transient_failure() }
}

/// Returns [`transient_failure`] with a delay requested by the target.
fn failure_with_retry_after(seconds: u64) -> HandOff {
    let classification = Classification {
        retry_after_seconds: Some(seconds),
        ..Classification::without_delay(FailureClass::Transient)
    };
    HandOff { classification, ..transient_failure() }
}

fn transient_failure() -> HandOff {
    failure(&HandlerError::transient("HttpStatus.503", "HTTP 503"))
}

fn permanent_failure() -> HandOff {
    failure(&HandlerError::permanent("HttpStatus.404", "HTTP 404"))
}

fn snooze() -> HandOff {
    failure(&HandlerError::snooze("NotYet", "later", std::time::Duration::from_secs(10)))
}

/// Decides, at second 10, what happens to a message that was sent at second 0.
fn decide_after_failure(policy: &Policy, body: &str, failure: &HandOff) -> Decision {
    decide(policy, &failed_message(body, failure, None), at(10))
}

/// Returns a message with this body, sent at second 0, after its failure and possibly a hop.
pub(crate) fn failed_message(body: &str, hand_off: &HandOff, due_at: Option<Timestamp>) -> FailedMessage {
    let record = ReceivedMessage { body: body.to_owned(), sent_at: at(0), ..received_message(None) };
    failed_record(record, hand_off, due_at)
}

fn failed_record(record: ReceivedMessage, hand_off: &HandOff, due_at: Option<Timestamp>) -> FailedMessage {
    let arrival = Arrival::from_record(record, at(10));
    let accepted = arrival.accept(&MessageSchema::default(), Some(&hand_off.delivery)).unwrap();
    let (hand_off, stage) = (hand_off.clone(), Stage::FailedMessageProcessor);
    FailedMessage { accepted, hand_off, due_at, stage, error_type: None, span: None }
}

/// Returns a failed message with this body and `attributes_bytes` bytes of attributes.
fn failed_message_with_attributes(attributes_bytes: usize, body: &str, hand_off: &HandOff) -> FailedMessage {
    // The name and the type use seven bytes.
    let attribute = |bytes| ("a".to_owned(), Attribute::string("x".repeat(bytes)));
    let attributes = attributes_bytes.checked_sub(7).map(attribute).into_iter().collect();
    let record = ReceivedMessage { body: body.to_owned(), attributes, ..received_message(None) };
    failed_record(record, hand_off, None)
}

fn resend(policy: &Policy, body: &str, failure: &HandOff) -> Resend {
    match decide_after_failure(policy, body, failure) {
        Decision::Resend(resend) => resend,
        other => panic!("{other:?}"),
    }
}

fn give_up(policy: &Policy, body: &str, failure: &HandOff) -> GiveUp {
    match decide_after_failure(policy, body, failure) {
        Decision::GiveUp(give_up) => give_up,
        other => panic!("{other:?}"),
    }
}

/// Returns a message that SQS moved.
fn record_moved_by_sqs() -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: "m".to_owned(),
        body: body(""),
        sent_at: at(0),
        receive_count: 2,
        ..received_message(Some(SOURCE_ARN))
    }
}

impl Resend {
    /// Returns the body of the re-sent envelope.
    fn body(&self) -> &str {
        let RewrittenPart::Body(body) = &self.rewritten else { panic!("{self:?}") };
        body
    }
}

fn metadata(resend: &Resend) -> Metadata {
    MessageSchema::default().parse_envelope(resend.body()).unwrap().metadata
}

#[test]
fn a_message_is_resent_as_retry_1_after_its_first_failure() {
    let resend = resend(&one_minute_policy(), &body(""), &transient_failure());
    assert_eq!(resend.retry_attempt, 1);
    assert_eq!(resend.delay.get(), 60);
    assert_eq!(resend.budget, Budget::Attempt);
    assert_eq!(resend.first_sent, at(0));
    assert_eq!(
        resend.body(),
        body(concat!(
            r#""retry_attempt":1,"next_retry_time":"2026-07-25T17:21:10.000000Z","#,
            r#""first_sent_time":"2026-07-25T17:20:00.000000Z","#,
            r#""retry_history":[{"attempt":0,"failed_at":"2026-07-25T17:20:05.000000Z","error_type":"HttpStatus.503","error_details":"HTTP 503"}]"#
        ))
    );
}

#[test]
fn each_failure_spends_an_attempt_up_to_the_policys_limit() {
    let mut message = body("");
    for attempt in 1..=3 {
        let resend = resend(&one_minute_policy(), &message, &transient_failure());
        assert_eq!(resend.retry_attempt, attempt);
        assert_eq!(metadata(&resend).retry_attempt, attempt);
        message = resend.body().to_owned();
    }
    assert_eq!(
        give_up(&one_minute_policy(), &message, &transient_failure()),
        GiveUp {
            reason: DeadLetterReason::RetryAttemptExceeded,
            explanation: "Max retry attempts 3 exceeded".to_owned(),
        }
    );
}

#[test]
fn a_message_with_too_many_attempts_is_given_up_on() {
    let given_up = give_up(&one_minute_policy(), &body(r#""retry_attempt":1000"#), &transient_failure());
    assert_eq!(given_up.reason, DeadLetterReason::RetryAttemptExceeded);
}

#[test]
fn a_policy_with_0_attempts_never_retries() {
    let given_up = give_up(&policy(r#"{"max_attempts":0}"#), &body(""), &transient_failure());
    assert_eq!(given_up.reason, DeadLetterReason::RetryAttemptExceeded);
    assert_eq!(given_up.explanation, "Max retry attempts 0 exceeded");
}

#[test]
fn the_delay_is_keyed_by_message_generation_and_attempt() {
    let default = Policy::default();
    assert_eq!(resend(&default, &body(""), &transient_failure()).delay.get(), 601);
    assert_eq!(resend(&default, &body(r#""retry_attempt":1"#), &transient_failure()).delay.get(), 250);
    let generation = body(r#""redrive_generation":1"#);
    assert_eq!(resend(&default, &generation, &transient_failure()).delay.get(), 29);
}

#[test]
fn deciding_twice_yields_the_same_decision() {
    let decision = decide_after_failure(&Policy::default(), &body(""), &transient_failure());
    assert_eq!(decide_after_failure(&Policy::default(), &body(""), &transient_failure()), decision);
}

#[test]
fn a_permanent_failure_is_given_up_on() {
    assert_eq!(
        give_up(&one_minute_policy(), &body(""), &permanent_failure()),
        GiveUp { reason: DeadLetterReason::NonRetryableError, explanation: String::new() }
    );
}

#[test]
fn non_retryable_takes_precedence_over_retryable() {
    let policy = policy(r#"{"retryable":["HttpStatus.*"],"non_retryable":["HttpStatus.5*"]}"#);
    let given_up = give_up(&policy, &body(""), &transient_failure());
    assert_eq!(given_up.reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn a_match_in_the_retryable_list_overrides_the_targets_response() {
    let policy = policy(r#"{"retryable":["HttpStatus.4*"]}"#);
    assert_eq!(resend(&policy, &body(""), &permanent_failure()).retry_attempt, 1);
}

#[test]
fn an_error_outside_the_retryable_list_is_permanent() {
    let policy = policy(r#"{"retryable":["HttpStatus.4*"]}"#);
    let given_up = give_up(&policy, &body(""), &transient_failure());
    assert_eq!(given_up.reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn without_a_match_the_targets_response_decides() {
    let policy = policy(r#"{"non_retryable":["Other"]}"#);
    assert_eq!(resend(&policy, &body(""), &transient_failure()).retry_attempt, 1);
    assert_eq!(give_up(&policy, &body(""), &permanent_failure()).reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn a_message_moved_by_sqs_is_resent_unless_the_policy_excludes_it() {
    let record = record_moved_by_sqs();
    let redriven = Arrival::from_record(record, at(10)).take_hand_off(at(10)).hand_off;
    let only_http = policy(r#"{"retryable":["HttpStatus.*"]}"#);
    assert_eq!(resend(&only_http, &body(""), &redriven).budget, Budget::Redrive);
    let non_retryable = policy(r#"{"non_retryable":["Redrive"]}"#);
    assert_eq!(give_up(&non_retryable, &body(""), &redriven).reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn an_unknown_failure_kind_is_transient() {
    let unheard_of =
        Classification { kind: OpenEnum::from_text("parked").unwrap(), retry_after_seconds: None };
    let failure = HandOff { classification: unheard_of, ..transient_failure() };
    assert_eq!(resend(&one_minute_policy(), &body(""), &failure).retry_attempt, 1);
}

#[test]
fn an_unstarted_call_is_not_classified_and_spends_no_attempt() {
    let policy = policy(
        r#"{"max_attempts":0,"retryable":["A"],"non_retryable":["*"],"backoff":{"kind":"fixed","delay_seconds":7,"jitter":"none"}}"#,
    );
    let resend = resend(&policy, &body(""), &HandOff::for_unstarted_call(delivery()));
    assert_eq!(resend.retry_attempt, 0);
    assert_eq!(resend.budget, Budget::Snooze);
    assert_eq!(resend.delay.get(), 7);
    assert_eq!(metadata(&resend).snooze_count, 1);
}

#[test]
fn a_snooze_has_its_own_delay_and_spends_no_attempt() {
    let resend = resend(&one_minute_policy(), &body(r#""retry_attempt":3"#), &snooze());
    assert_eq!((resend.retry_attempt, resend.budget), (3, Budget::Snooze));
    // 10 s plus up to 10 %, keyed by the next retry.
    let key = JitterKey { message_id: ID.parse().unwrap(), generation: 0, attempt: 4 };
    assert_eq!(resend.total_delay, retry_after_delay(10, RetryDelay::SHORT_MAX, key));
    assert_eq!(RetryDelay::from(resend.delay), resend.total_delay);
    assert!((10..=11).contains(&resend.delay.get()));
    assert_eq!(metadata(&resend).snooze_count, 1);
}

#[test]
fn snoozes_beyond_a_hundred_spend_attempts() {
    let hundredth = resend(&one_minute_policy(), &body(r#""snooze_count":99"#), &snooze());
    assert_eq!((hundredth.retry_attempt, hundredth.budget), (0, Budget::Snooze));
    assert_eq!(metadata(&hundredth).snooze_count, 100);

    let after = resend(&one_minute_policy(), hundredth.body(), &snooze());
    assert_eq!((after.retry_attempt, after.budget), (1, Budget::Attempt));
    assert_eq!(metadata(&after).snooze_count, 100);

    let spent = give_up(&one_minute_policy(), &body(r#""retry_attempt":3,"snooze_count":100"#), &snooze());
    assert_eq!(spent.reason, DeadLetterReason::RetryAttemptExceeded);
    let not_started = HandOff::for_unstarted_call(delivery());
    let spent = give_up(&one_minute_policy(), &body(r#""retry_attempt":3,"snooze_count":100"#), &not_started);
    assert_eq!(spent.reason, DeadLetterReason::RetryAttemptExceeded);
}

#[test]
fn a_snooze_loop_ends() {
    let mut message = body("");
    let mut deliveries = 0;
    while let Decision::Resend(resend) = decide_after_failure(&one_minute_policy(), &message, &snooze()) {
        deliveries += 1;
        assert!(resend.retry_attempt <= 3, "attempts never exceed the policy");
        message = resend.body().to_owned();
    }
    assert_eq!(deliveries, 103);
}

#[test]
fn a_new_generation_resets_counts_and_history() {
    let came_back = transient_failure_after_dlq_return(None);
    let old = concat!(
        r#""retry_attempt":3,"next_retry_time":"2026-07-01T00:00:00Z","first_sent_time":"2026-07-01T00:00:00Z","#,
        r#""retry_history":[{"attempt":2,"failed_at":"2026-07-01T00:00:00Z","error_type":"Old","error_details":"old"}],"#,
        r#""snooze_count":100"#
    );
    let resend = resend(&one_minute_policy(), &body(old), &came_back);
    assert_eq!((resend.retry_attempt, resend.first_sent), (1, at(0)));
    let metadata = metadata(&resend);
    assert_eq!(metadata.redrive_generation, Some(1));
    assert_eq!(metadata.snooze_count, 0);
    assert_eq!(metadata.first_sent_time, Some(at(0)));
    assert_eq!(metadata.retry_history, [PastFailure::new(0, at(5), "HttpStatus.503", "HTTP 503")]);
    assert!(!resend.body().contains("Old") && !resend.body().contains("2026-07-01"));
}

#[test]
fn generations_are_counted_up_to_a_hundred() {
    let came_back = transient_failure_after_dlq_return(None);
    for (before, after) in [(0, 1), (1, 2), (99, 100), (100, 100)] {
        let message = body(&format!(r#""redrive_generation":{before}"#));
        assert_eq!(
            metadata(&resend(&one_minute_policy(), &message, &came_back)).redrive_generation,
            Some(after)
        );
    }
    let kept = resend(&one_minute_policy(), &body(r#""redrive_generation":7"#), &transient_failure());
    assert_eq!(metadata(&kept).redrive_generation, Some(7), "a retry does not start a generation");
}

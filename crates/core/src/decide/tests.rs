mod budget;
mod floor;
mod jittered;
mod limits;
mod long_delays;
mod on_queue;

use chrono::TimeDelta;

use super::*;
use crate::arrival::Arrival;
use crate::decide::backoff::{retry_delay, target_delay};
use crate::failure::{Classification, Delivery, DlqReturn, Stage};
use crate::handler::HandlerError;
use crate::json::forward_compatible::OpenEnum;
use crate::message::metadata::{Holds, Metadata, format_rfc3339, parse_rfc3339};
use crate::message::origin::Origin;
use crate::message::schema::MessageSchema;
use crate::message::{Attribute, ReceivedMessage};
use crate::testing::{SOURCE_ARN, at, delivery, received};

const ID: &str = "6f1c0d3e-8a55-4c8e-9a3f-2b1d7e5f9a01";

/// A body whose metadata has these members in addition to its id, e.g. `"retry_attempt":1`.
pub(crate) fn body(members: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(r#"{{"metadata":{{"message_id":"{ID}"{comma}{members}}},"data":{{"n":1e400}}}}"#)
}

pub(crate) fn policy(document: &str) -> Policy {
    Policy::from_json(document).unwrap()
}

/// A policy with three retries, each exactly one minute after the failure.
pub(crate) fn minutes() -> Policy {
    policy(r#"{"max_attempts":3,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#)
}

fn failure(error: &HandlerError) -> HandOff {
    HandOff::from_handler_error(error, delivery())
}

/// The same hand-off after a redrive from the final DLQ.
fn came_back(generation_before: Option<u32>) -> HandOff {
    let delivery =
        Delivery { came_back: Some(DlqReturn { last_attempt: None, generation_before }), ..delivery() };
    HandOff { delivery, ..transient() }
}

/// The same hand-off with a delay that the target requested.
fn asking_for(seconds: u64) -> HandOff {
    let answer = Classification {
        retry_after_seconds: Some(seconds),
        ..Classification::without_delay(FailureClass::Transient)
    };
    HandOff { answer, ..transient() }
}

fn transient() -> HandOff {
    failure(&HandlerError::transient("HttpStatus.503", "HTTP 503"))
}

fn permanent() -> HandOff {
    failure(&HandlerError::permanent("HttpStatus.404", "HTTP 404"))
}

fn snooze() -> HandOff {
    failure(&HandlerError::snooze("NotYet", "later", std::time::Duration::from_secs(10)))
}

/// Decides at second 10 on a message that was sent at second 0.
fn decided(policy: &Policy, body: &str, failure: &HandOff) -> Decision {
    decide(policy, &failed(body, failure, None), at(10))
}

/// A message with this body that was sent at second 0, after its failure and possibly a hop.
pub(crate) fn failed(body: &str, hand_off: &HandOff, due_at: Option<Timestamp>) -> FailedMessage {
    let record = ReceivedMessage { body: body.to_owned(), sent_at: at(0), ..received(None) };
    failed_record(record, hand_off, due_at)
}

fn failed_record(record: ReceivedMessage, hand_off: &HandOff, due_at: Option<Timestamp>) -> FailedMessage {
    let arrival = Arrival::from_record(record, at(10));
    let accepted = arrival.accept(&MessageSchema::default(), Some(&hand_off.delivery)).unwrap();
    let (hand_off, stage) = (hand_off.clone(), Stage::FailedMessageProcessor);
    FailedMessage { accepted, hand_off, due_at, stage, error_type: None, span: None }
}

/// The same message with `attributes_bytes` of attributes.
fn failed_beside(attributes_bytes: usize, body: &str, hand_off: &HandOff) -> FailedMessage {
    // The name and the type take seven bytes.
    let attribute = |bytes| ("a".to_owned(), Attribute::string("x".repeat(bytes)));
    let attributes = attributes_bytes.checked_sub(7).map(attribute).into_iter().collect();
    let record = ReceivedMessage { body: body.to_owned(), attributes, ..received(None) };
    failed_record(record, hand_off, None)
}

fn resend(policy: &Policy, body: &str, failure: &HandOff) -> Resend {
    match decided(policy, body, failure) {
        Decision::Resend(resend) => resend,
        other => panic!("{other:?}"),
    }
}

fn give_up(policy: &Policy, body: &str, failure: &HandOff) -> GiveUp {
    match decided(policy, body, failure) {
        Decision::GiveUp(give_up) => give_up,
        other => panic!("{other:?}"),
    }
}

/// A message that SQS moved.
fn moved_by_sqs() -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: "m".to_owned(),
        body: body(""),
        sent_at: at(0),
        receive_count: 2,
        ..received(Some(SOURCE_ARN))
    }
}

/// The members of the re-sent body.
impl Resend {
    /// The body of an envelope.
    fn body(&self) -> &str {
        let Rewritten::Body(body) = &self.rewritten else { panic!("{self:?}") };
        body
    }
}

fn metadata(resend: &Resend) -> Metadata {
    MessageSchema::default().parse_envelope(resend.body()).unwrap().metadata
}

#[test]
fn the_first_failure_makes_retry_1() {
    let resend = resend(&minutes(), &body(""), &transient());
    assert_eq!(resend.retry_attempt, 1);
    assert_eq!(resend.delay.get(), 60);
    assert_eq!(resend.spends, Budget::Attempt);
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
fn each_failure_spends_an_attempt_until_the_policys_are_spent() {
    let mut message = body("");
    for attempt in 1..=3 {
        let resend = resend(&minutes(), &message, &transient());
        assert_eq!(resend.retry_attempt, attempt);
        assert_eq!(metadata(&resend).retry_attempt, attempt);
        message = resend.body().to_owned();
    }
    assert_eq!(
        give_up(&minutes(), &message, &transient()),
        GiveUp {
            reason: DeadLetterReason::RetryAttemptExceeded,
            explanation: "Max retry attempts 3 exceeded".to_owned(),
        }
    );
}

#[test]
fn a_message_beyond_the_policys_attempts_is_given_up() {
    let given_up = give_up(&minutes(), &body(r#""retry_attempt":1000"#), &transient());
    assert_eq!(given_up.reason, DeadLetterReason::RetryAttemptExceeded);
}

#[test]
fn a_policy_of_0_attempts_never_retries() {
    let given_up = give_up(&policy(r#"{"max_attempts":0}"#), &body(""), &transient());
    assert_eq!(given_up.reason, DeadLetterReason::RetryAttemptExceeded);
    assert_eq!(given_up.explanation, "Max retry attempts 0 exceeded");
}

#[test]
fn the_delay_is_keyed_by_message_generation_and_attempt() {
    let default = Policy::default();
    assert_eq!(resend(&default, &body(""), &transient()).delay.get(), 601);
    assert_eq!(resend(&default, &body(r#""retry_attempt":1"#), &transient()).delay.get(), 250);
    let generation = body(r#""redrive_generation":1"#);
    assert_eq!(resend(&default, &generation, &transient()).delay.get(), 29);
}

#[test]
fn the_same_failure_is_decided_the_same_way() {
    let decision = decided(&Policy::default(), &body(""), &transient());
    assert_eq!(decided(&Policy::default(), &body(""), &transient()), decision);
}

#[test]
fn a_permanent_failure_is_given_up() {
    assert_eq!(
        give_up(&minutes(), &body(""), &permanent()),
        GiveUp { reason: DeadLetterReason::NonRetryableError, explanation: String::new() }
    );
}

#[test]
fn a_non_retryable_match_is_permanent_even_where_retryable_matches_too() {
    let policy = policy(r#"{"retryable":["HttpStatus.*"],"non_retryable":["HttpStatus.5*"]}"#);
    let given_up = give_up(&policy, &body(""), &transient());
    assert_eq!(given_up.reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn a_retryable_match_is_transient_for_any_answer_of_the_target() {
    let policy = policy(r#"{"retryable":["HttpStatus.4*"]}"#);
    assert_eq!(resend(&policy, &body(""), &permanent()).retry_attempt, 1);
}

#[test]
fn an_error_outside_the_retryable_list_is_permanent() {
    let policy = policy(r#"{"retryable":["HttpStatus.4*"]}"#);
    let given_up = give_up(&policy, &body(""), &transient());
    assert_eq!(given_up.reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn without_a_match_the_targets_own_verdict_counts() {
    let policy = policy(r#"{"non_retryable":["Other"]}"#);
    assert_eq!(resend(&policy, &body(""), &transient()).retry_attempt, 1);
    assert_eq!(give_up(&policy, &body(""), &permanent()).reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn a_message_that_sqs_moved_comes_back_unless_the_policy_names_it() {
    let record = moved_by_sqs();
    let redriven = Arrival::from_record(record, at(10)).take_hand_off(at(10)).hand_off;
    let only_http = policy(r#"{"retryable":["HttpStatus.*"]}"#);
    assert_eq!(resend(&only_http, &body(""), &redriven).spends, Budget::Redrive);
    let never = policy(r#"{"non_retryable":["Redrive"]}"#);
    assert_eq!(give_up(&never, &body(""), &redriven).reason, DeadLetterReason::NonRetryableError);
}

#[test]
fn a_failure_kind_of_a_later_version_is_transient() {
    let unheard_of =
        Classification { kind: OpenEnum::from_text("parked").unwrap(), retry_after_seconds: None };
    let failure = HandOff { answer: unheard_of, ..transient() };
    assert_eq!(resend(&minutes(), &body(""), &failure).retry_attempt, 1);
}

#[test]
fn a_not_started_message_is_not_classified_and_spends_no_attempt() {
    let policy = policy(
        r#"{"max_attempts":0,"retryable":["A"],"non_retryable":["*"],"backoff":{"kind":"fixed","delay_seconds":7,"jitter":"none"}}"#,
    );
    let resend = resend(&policy, &body(""), &HandOff::for_not_started(delivery()));
    assert_eq!(resend.retry_attempt, 0);
    assert_eq!(resend.spends, Budget::Snooze);
    assert_eq!(resend.delay.get(), 7);
    assert_eq!(metadata(&resend).snooze_count, 1);
}

#[test]
fn a_snooze_comes_back_after_its_own_delay_and_spends_no_attempt() {
    let resend = resend(&minutes(), &body(r#""retry_attempt":3"#), &snooze());
    assert_eq!((resend.retry_attempt, resend.spends), (3, Budget::Snooze));
    // 10 s and up to 10 % more, keyed by the next retry.
    let key = JitterKey { message_id: ID.parse().unwrap(), generation: 0, attempt: 4 };
    assert_eq!(resend.waited, target_delay(10, RetryDelay::SHORT_MAX, key));
    assert_eq!(RetryDelay::from(resend.delay), resend.waited);
    assert!((10..=11).contains(&resend.delay.get()));
    assert_eq!(metadata(&resend).snooze_count, 1);
}

#[test]
fn snoozes_spend_attempts_after_a_hundred() {
    let hundredth = resend(&minutes(), &body(r#""snooze_count":99"#), &snooze());
    assert_eq!((hundredth.retry_attempt, hundredth.spends), (0, Budget::Snooze));
    assert_eq!(metadata(&hundredth).snooze_count, 100);

    let after = resend(&minutes(), hundredth.body(), &snooze());
    assert_eq!((after.retry_attempt, after.spends), (1, Budget::Attempt));
    assert_eq!(metadata(&after).snooze_count, 100);

    let spent = give_up(&minutes(), &body(r#""retry_attempt":3,"snooze_count":100"#), &snooze());
    assert_eq!(spent.reason, DeadLetterReason::RetryAttemptExceeded);
    let not_started = HandOff::for_not_started(delivery());
    let spent = give_up(&minutes(), &body(r#""retry_attempt":3,"snooze_count":100"#), &not_started);
    assert_eq!(spent.reason, DeadLetterReason::RetryAttemptExceeded);
}

#[test]
fn a_loop_of_snoozes_ends() {
    let mut message = body("");
    let mut deliveries = 0;
    while let Decision::Resend(resend) = decided(&minutes(), &message, &snooze()) {
        deliveries += 1;
        assert!(resend.retry_attempt <= 3, "attempts never exceed the policy");
        message = resend.body().to_owned();
    }
    assert_eq!(deliveries, 103);
}

#[test]
fn a_new_generation_starts_at_zero() {
    let came_back = came_back(None);
    let old = concat!(
        r#""retry_attempt":3,"next_retry_time":"2026-07-01T00:00:00Z","first_sent_time":"2026-07-01T00:00:00Z","#,
        r#""retry_history":[{"attempt":2,"failed_at":"2026-07-01T00:00:00Z","error_type":"Old","error_details":"old"}],"#,
        r#""snooze_count":100"#
    );
    let resend = resend(&minutes(), &body(old), &came_back);
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
    let came_back = came_back(None);
    for (before, after) in [(0, 1), (1, 2), (99, 100), (100, 100)] {
        let message = body(&format!(r#""redrive_generation":{before}"#));
        assert_eq!(metadata(&resend(&minutes(), &message, &came_back)).redrive_generation, Some(after));
    }
    let kept = resend(&minutes(), &body(r#""redrive_generation":7"#), &transient());
    assert_eq!(metadata(&kept).redrive_generation, Some(7), "a retry does not begin a generation");
}

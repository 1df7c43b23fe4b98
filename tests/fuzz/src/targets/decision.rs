//! Policy, failure and the members of a message's `metadata` together: the loop makes progress and ends, and a re-sent
//! message is valid.

use chrono::TimeDelta;
use redeliver_core::accepted::FailedMessage;
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::backoff::{JitterKey, retry_delay};
use redeliver_core::decide::{Budget, Decision, Resend, decide};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::failure::{FAILURE, FailureClass, HandOff, HandedOffFailure, Stage};
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::metadata::{HISTORY_MAX, parse_rfc3339};
use redeliver_core::message::origin::Origin;
use redeliver_core::message::schema::RewrittenPart;
use redeliver_core::message::{Attribute, Attributes, ReceivedMessage, Timestamp};
use redeliver_core::policy::Policy;

use super::split_parts;
use crate::json;
use crate::messages::{ID, fixed_now, open_arrival, received_record, schema};

/// The number of retry rounds, enough to see progress.
const ROUNDS: usize = 4;

pub(super) fn check(input: &str) {
    let [policy, failure, metadata] = split_parts(input);
    let policy = Policy::from_json(policy).unwrap_or_default();
    let failure = Attributes::from([(FAILURE.to_owned(), Attribute::string(failure))]);
    let data = r#"{"n":1e400, "é":"\u00e9\ud800"}"#;
    let mut body = format!(r#"{{"metadata":{{"message_id":"{ID}"{metadata}}},"data":{data}}}"#);
    // The latest time that the event decoder accepts.
    let latest = Timestamp::from_timestamp_millis(253_402_300_799_999).expect("a moment of the year 9999");
    for sent_at in [fixed_now(), Timestamp::UNIX_EPOCH, latest] {
        let HandedOffFailure { hand_off, due_at } =
            open_arrival(failure.clone(), sent_at).take_hand_off(fixed_now());
        for _ in 0..ROUNDS {
            match next_body(&policy, &hand_off, due_at, &body) {
                Some(next) => body = next,
                None => break,
            }
        }
    }
}

fn failed_delivery(
    body: &str,
    attributes: Attributes,
    hand_off: &HandOff,
    due_at: Option<Timestamp>,
) -> Option<FailedMessage> {
    let record = ReceivedMessage { body: body.to_owned(), ..received_record(attributes, None, fixed_now()) };
    let accepted =
        Arrival::from_record(record, fixed_now()).accept(schema(), Some(&hand_off.delivery)).ok()?;
    let (hand_off, stage) = (hand_off.clone(), Stage::FailedMessageProcessor);
    Some(FailedMessage { span: None, accepted, hand_off, due_at, stage, error_type: None })
}

/// Returns the body of the re-send, if any.
fn next_body(policy: &Policy, hand_off: &HandOff, due_at: Option<Timestamp>, body: &str) -> Option<String> {
    let bare = failed_delivery(body, Attributes::new(), hand_off, due_at)?;
    let before = bare.accepted.metadata().clone();
    let now = fixed_now();
    // A body of 1 MiB is slow to check, so only one in sixteen is made that large.
    let sizes = [MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX - body.len()];
    for attributes_bytes in sizes.into_iter().filter(|_| body.len().is_multiple_of(16)) {
        // The name and the type are seven bytes long.
        let attribute = Attribute::string("x".repeat(attributes_bytes - 7));
        let full = failed_delivery(body, [("a".to_owned(), attribute)].into(), hand_off, due_at)?;
        if let Decision::Resend(resend) = decide(policy, &full, now) {
            assert!(resend_body(resend).len() + attributes_bytes <= MESSAGE_BYTES_MAX, "too large: {body:?}");
        }
    }
    let decided = decide(policy, &bare, now);
    assert_eq!(decided, decide(policy, &bare, now), "a copy has another decision");
    let resend = match decided {
        Decision::Resend(resend) => resend,
        Decision::Hop(due) => {
            assert!(policy.long_delays, "a hop without long delays: {body:?}");
            let seconds = (due - now).num_seconds();
            assert!((900..=43_200).contains(&seconds), "{seconds} s: {body:?}");
            return None;
        }
        Decision::GiveUp(given_up) => {
            if given_up.reason == DeadLetterReason::RetryAttemptExceeded {
                let most =
                    before.max_attempts.map_or(policy.max_attempts, |most| most.min(policy.max_attempts));
                assert!(before.retry_attempt >= most, "given up too early: {body:?}");
            }
            return None;
        }
    };
    assert!(
        hand_off.classification.known_class() != FailureClass::Permanent || policy.retryable.is_some(),
        "{body:?}"
    );
    let sent = resend_body(resend.clone());
    let after = schema().parse_envelope(&sent).unwrap_or_else(|invalid| panic!("{invalid}: {sent:?}"));
    let after = after.metadata;
    assert_eq!(resend.retry_attempt, after.retry_attempt);
    // Each re-send increments exactly one limited counter.
    let spent = |budget| u32::from(resend.budget == budget);
    assert_eq!(after.retry_attempt, before.retry_attempt + spent(Budget::Attempt));
    assert_eq!(after.snooze_count, before.snooze_count + spent(Budget::Snooze));
    assert_eq!(after.redrive_count, before.redrive_count + spent(Budget::Redrive));
    // Holds written by a producer do not count.
    let held_before = before.holds.trusted_seconds(hand_off.delivery.origin);
    let held_after = after.holds.trusted_seconds(Origin::Resent);
    let held = held_after.checked_sub(held_before).expect("holds only grow");
    assert_eq!(held > 0, resend.budget == Budget::Hold, "no progress: {body:?}");
    let outage = after.holds.trusted_outage(Origin::Resent, Timestamp::MAX_UTC);
    assert_eq!(outage.is_some(), resend.budget == Budget::Hold, "{body:?}");
    assert!(
        resend.budget != Budget::Attempt || hand_off.classification.known_class() != FailureClass::Unanswered,
        "{body:?}"
    );
    assert!(after.retry_attempt <= policy.max_attempts.max(before.retry_attempt), "{body:?}");
    assert!((usize::from(held == 0)..=HISTORY_MAX).contains(&after.retry_history.len()));
    let latest = now + resend.delay.duration();
    let node = json::parse_json(&sent).expect("the body is valid");
    let metadata = node.member("metadata").map(|member| &member.value);
    let time = metadata.and_then(|metadata| metadata.member("next_retry_time")?.value.string());
    let due = time.as_deref().and_then(parse_rfc3339).expect("the time is valid");
    let rounded = if policy.long_delays { TimeDelta::seconds(1) } else { TimeDelta::zero() };
    assert!(due <= latest && latest - due <= rounded, "due at {due}, held back until {latest}: {body:?}");
    assert!(due >= now && u64::from(resend.total_delay.get()) <= 43_200);
    if resend.budget == Budget::Attempt
        && hand_off.classification.known_class() != FailureClass::Snooze
        && due_at.is_none()
    {
        let (message_id, generation) = (before.message_id, before.generation());
        let key = JitterKey { message_id, generation, attempt: before.retry_attempt + 1 };
        assert!(resend.total_delay >= retry_delay(policy, key), "before the backoff is over: {body:?}");
    }
    let first_sent = resend.first_sent;
    let limits =
        [before.expires_at, policy.max_age_seconds.map(|age| first_sent + TimeDelta::seconds(age.into()))];
    assert!(limits.into_iter().flatten().all(|limit| due <= limit), "past its maximum age: {body:?}");
    let data = |body: &str| {
        let node = json::parse_json(body).expect("the body is valid");
        node.member("data").map(|data| body[data.value.at.clone()].to_owned())
    };
    assert_eq!(data(&sent), data(body), "the data has changed");
    Some(sent)
}

/// Returns the body of a re-sent envelope.
fn resend_body(resend: Resend) -> String {
    let RewrittenPart::Body(body) = resend.rewritten else { panic!("an envelope's state is in its body") };
    body
}

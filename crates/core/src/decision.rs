//! The decision on a failed message: another retry, or not.

mod due;
mod stay;

use chrono::TimeDelta;

use crate::backoff::{Key, bounds, delay, target_delay};
use crate::envelope::Envelope;
use crate::failure::{Failure, Kind, REDRIVE};
use crate::handler::HandlerError;
use crate::limits::{DelaySeconds, MESSAGE_BYTES_MAX, RetryDelay};
use crate::message::Timestamp;
use crate::metadata::{HISTORY_MAX, PastFailure, RetryMetadata, SNOOZES_MAX, rfc3339};
use crate::pacing::{Pace, Window};
use crate::policy::{Globs, Immediate, Policy};
use crate::reason::DeadLetterReason;
pub(crate) use due::Due;
pub use stay::{HidingQueue, Stayed, decide_on_queue, may_be_called};

/// What is decided on.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    /// The message.
    pub envelope: &'a Envelope<'a>,
    /// Why it failed.
    pub failure: &'a Failure,
    /// `SentTimestamp` of the delivery that failed.
    pub sent_at: Timestamp,
    /// Bytes that the producer's attributes take of the message's limit.
    pub attributes_bytes: usize,
}

/// What is to be done with a failed message.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Send it to the source queue again.
    Resend(Resend),
    /// Its retry is due later than `DelaySeconds` can say: send it to the intermediate DLQ again, with this due time.
    Hop(Timestamp),
    /// Dead-letter it.
    GiveUp(GiveUp),
}

/// A re-send.
#[derive(Clone, Debug, PartialEq)]
pub struct Resend {
    /// The body with its new metadata.
    pub body: String,
    /// How long the queue holds it back.
    pub delay: DelaySeconds,
    /// The whole delay: more than the queue's where the message has hopped.
    pub waited: RetryDelay,
    /// Whether it is longer than the policy's backoff, or the target, has asked for: too many wait.
    pub pace: Pace,
    /// `metadata.retry_attempt` of the re-sent message.
    pub retry_attempt: u32,
    /// A snooze spends none.
    pub spends_attempt: bool,
    /// When the message was first sent.
    pub first_sent: Timestamp,
}

/// A message that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveUp {
    /// The code of the final record.
    pub reason: DeadLetterReason,
    /// Why, beside the last error; may be empty.
    pub explanation: String,
}

/// Decides. Pure: the same message, failure, policy, window and moment give the same answer. The window is that of
/// `max_redelivery_per_second`; without one nothing is paced.
#[must_use]
pub fn decide(policy: &Policy, failed: Failed<'_>, window: Option<Window>, now: Timestamp) -> Decision {
    // That its metadata fits is seen to before it hops, not after hours of waiting.
    let decided = next_retry(policy, failed, window, now).and_then(|retry| {
        let (due, delay) = (retry.due, retry.due.delay_from(now));
        let resend = fit(failed, retry, delay.unwrap_or(DelaySeconds::MAX))?;
        Ok(if delay.is_some() { Decision::Resend(resend) } else { Decision::Hop(due.at) })
    });
    decided.unwrap_or_else(Decision::GiveUp)
}

/// How the target is called again at once, if it is: what it answered is a blip by the policy's lists, and it asked for no
/// delay of its own.
#[must_use]
pub fn retries_at_once(policy: &Policy, error: &HandlerError) -> Option<Immediate> {
    let immediate = policy.immediate?;
    let failure = Failure::of_error(error);
    let blip = failure.retry_after_seconds.is_none() && classify(policy, &failure) == Kind::Transient;
    blip.then_some(immediate)
}

/// When a hopping message is due, where that is more than one hop away: it hops again, and nothing else need be looked at.
#[must_use]
pub fn hops_on(policy: &Policy, failure: &Failure, now: Timestamp) -> Option<Timestamp> {
    let due = Due::of_hop(policy, failure, now)?;
    due.delay_from(now).is_none().then_some(due.at)
}

/// The next retry, before it is known whether its metadata fits.
struct Retry {
    metadata: RetryMetadata,
    due: Due,
    pace: Pace,
    spends_attempt: bool,
}

fn next_retry(
    policy: &Policy,
    failed: Failed<'_>,
    window: Option<Window>,
    now: Timestamp,
) -> Result<Retry, GiveUp> {
    let Failed { failure, envelope, sent_at, .. } = failed;
    let before = envelope.metadata.clone();
    let before =
        if failure.new_generation { before.into_next_generation(failure.generation_before) } else { before };
    let first_sent = before.first_sent(sent_at);
    let kind = classify(policy, failure);
    if kind == Kind::Permanent {
        return Err(GiveUp { reason: DeadLetterReason::NonRetryableError, explanation: String::new() });
    }
    let spends_attempt = kind == Kind::Transient || before.snooze_count >= SNOOZES_MAX;
    if spends_attempt {
        check_attempts(policy, before.max_attempts, before.retry_attempt)?;
    }
    let key = Key {
        message_id: before.message_id,
        generation: before.generation(),
        attempt: before.retry_attempt + 1,
    };
    let hopped = Due::of_hop(policy, failure, now);
    let own = hopped.unwrap_or_else(|| Due::after(delay_before(policy, failure, key), policy, failure, now));
    let limit = AgeLimit::of(policy, before.expires_at, first_sent);
    check_age(limit, own.at)?;
    let pace = window.map_or(Pace::Own, |window| {
        if hopped.is_none() && failure.retry_after_seconds.is_none() {
            return window.pace(&bounds(policy, key.attempt));
        }
        let left = own.delay_from(now).map_or(own.delay, |left| RetryDelay::saturating(left.get().into()));
        window.pace(&(left..=left))
    });
    let due = match window {
        Some(window) if pace != Pace::Own => own.stretched(window, key, limit.map(|limit| limit.at), now),
        _ => own,
    };
    let metadata = RetryMetadata {
        retry_attempt: before.retry_attempt + u32::from(spends_attempt),
        next_retry_time: due.at,
        first_sent_time: first_sent,
        retry_history: history(&before.retry_history, before.retry_attempt, failure, now),
        snooze_count: before.snooze_count + u32::from(!spends_attempt),
        redrive_generation: before.redrive_generation,
    };
    Ok(Retry { metadata, due, pace, spends_attempt })
}

/// The delay before the retry of this key: the target's own, or the policy's.
fn delay_before(policy: &Policy, failure: &Failure, key: Key) -> RetryDelay {
    match failure.retry_after_seconds {
        Some(asked) => target_delay(asked, policy.delay_limit(), key),
        None => delay(policy, key),
    }
}

/// Whether one more retry is allowed after so many: by the policy, and by the producer where that is fewer.
pub(crate) fn check_attempts(policy: &Policy, by_producer: Option<u32>, made: u32) -> Result<(), GiveUp> {
    let by_producer = by_producer.filter(|max| *max < policy.max_attempts);
    let max = by_producer.unwrap_or(policy.max_attempts);
    if made < max {
        return Ok(());
    }
    let whose = if by_producer.is_some() { " (metadata.max_attempts)" } else { "" };
    Err(GiveUp {
        reason: DeadLetterReason::RetryAttemptExceeded,
        explanation: format!("Max retry attempts {max} exceeded{whose}"),
    })
}

/// A `non_retryable` match is permanent; else a `retryable` match is transient whatever the target said; else, if
/// `retryable` is given, permanent; else the target's own verdict. What the target has not judged is not classified by
/// what it is not: a snooze, a message whose turn did not come, and one that SQS moved because nobody answered.
pub(crate) fn classify(policy: &Policy, failure: &Failure) -> Kind {
    let kind = failure.kind.unwrap_or(Kind::Transient);
    if matches!(kind, Kind::Snooze | Kind::NotStarted) {
        return kind;
    }
    let matches = |globs: &Globs| globs.matches(&failure.error_type);
    if policy.non_retryable.as_ref().is_some_and(matches) {
        return Kind::Permanent;
    }
    match &policy.retryable {
        Some(globs) if matches(globs) || failure.error_type == REDRIVE => Kind::Transient,
        Some(_) => Kind::Permanent,
        None => kind,
    }
}

/// The last moment at which a message may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AgeLimit {
    at: Timestamp,
    by: &'static str,
}

impl AgeLimit {
    /// The earlier one of the policy's and the producer's.
    pub(crate) fn of(policy: &Policy, expires_at: Option<Timestamp>, first_sent: Timestamp) -> Option<Self> {
        let by_policy = policy
            .max_age_seconds
            .map(|age| Self { at: first_sent + TimeDelta::seconds(i64::from(age)), by: "max_age_seconds" });
        let by_producer = expires_at.map(|at| Self { at, by: "metadata.expires_at" });
        by_policy.into_iter().chain(by_producer).min()
    }
}

/// Whether a retry at `next` comes in time.
pub(crate) fn check_age(limit: Option<AgeLimit>, next: Timestamp) -> Result<(), GiveUp> {
    match limit {
        Some(AgeLimit { at, by }) if next > at => Err(GiveUp {
            reason: DeadLetterReason::MessageExpired,
            explanation: format!(
                "The next retry at {} would come after {by} at {}",
                rfc3339(next),
                rfc3339(at)
            ),
        }),
        _ => Ok(()),
    }
}

fn history(before: &[PastFailure], attempt: u32, failure: &Failure, now: Timestamp) -> Vec<PastFailure> {
    let newest = PastFailure::new(attempt, failure.failed_at(now), &failure.error_type, &failure.details);
    let mut all: Vec<_> = before.iter().cloned().chain([newest]).collect();
    all.split_off(all.len().saturating_sub(HISTORY_MAX))
}

/// Writes the retry's metadata into the body, with as much history as the size limit leaves.
fn fit(failed: Failed<'_>, mut retry: Retry, delay: DelaySeconds) -> Result<Resend, GiveUp> {
    loop {
        let body = failed.envelope.with_retry_metadata(&retry.metadata);
        let bytes = body.len() + failed.attributes_bytes;
        if bytes <= MESSAGE_BYTES_MAX {
            let Retry { metadata, due, pace, spends_attempt } = retry;
            let RetryMetadata { retry_attempt, first_sent_time: first_sent, .. } = metadata;
            let waited = due.delay;
            return Ok(Resend { body, delay, waited, pace, retry_attempt, spends_attempt, first_sent });
        }
        if retry.metadata.retry_history.is_empty() {
            return Err(GiveUp {
                reason: DeadLetterReason::MessageTooLarge,
                explanation: format!(
                    "With its retry metadata the message has {bytes} bytes; SQS takes at most {MESSAGE_BYTES_MAX}"
                ),
            });
        }
        retry.metadata.retry_history.remove(0);
    }
}

#[cfg(test)]
mod tests;

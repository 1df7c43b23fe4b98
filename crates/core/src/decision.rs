//! The decision on a failed message: another retry, or not.

use chrono::TimeDelta;

use crate::backoff::{Key, delay, target_delay};
use crate::envelope::Envelope;
use crate::failure::{Failure, Kind, REDRIVE};
use crate::limits::{DelaySeconds, MESSAGE_BYTES_MAX};
use crate::message::Timestamp;
use crate::metadata::{HISTORY_MAX, Metadata, PastFailure, RetryMetadata, SNOOZES_MAX, rfc3339};
use crate::policy::Policy;
use crate::reason::DeadLetterReason;

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

/// Decides. Pure: the same message, failure, policy and moment give the same answer.
#[must_use]
pub fn decide(policy: &Policy, failed: Failed<'_>, now: Timestamp) -> Decision {
    match next_retry(policy, failed, now) {
        Ok(retry) => fit(failed, retry).map_or_else(Decision::GiveUp, Decision::Resend),
        Err(give_up) => Decision::GiveUp(give_up),
    }
}

/// The next retry, before it is known whether its metadata fits.
struct Retry {
    metadata: RetryMetadata,
    delay: DelaySeconds,
    spends_attempt: bool,
}

fn next_retry(policy: &Policy, failed: Failed<'_>, now: Timestamp) -> Result<Retry, GiveUp> {
    let Failed { failure, envelope, sent_at, .. } = failed;
    let before = envelope.metadata.clone();
    let before = if failure.new_generation { before.into_next_generation() } else { before };
    let first_sent = before.first_sent(sent_at);
    let kind = classify(policy, failure);
    if kind == Kind::Permanent {
        return Err(GiveUp { reason: DeadLetterReason::NonRetryableError, explanation: String::new() });
    }
    let spends_attempt = kind == Kind::Transient || before.snooze_count >= SNOOZES_MAX;
    if spends_attempt && before.retry_attempt >= policy.max_attempts {
        return Err(GiveUp {
            reason: DeadLetterReason::RetryAttemptExceeded,
            explanation: format!("Max retry attempts {} exceeded", policy.max_attempts),
        });
    }
    let key = Key {
        message_id: before.message_id,
        generation: before.generation(),
        attempt: before.retry_attempt + 1,
    };
    let delay =
        failure.retry_after_seconds.map_or_else(|| delay(policy, key), |asked| target_delay(asked, key));
    let next_retry_time = now + TimeDelta::seconds(i64::from(delay.get()));
    check_age(policy, &before, first_sent, next_retry_time)?;
    let metadata = RetryMetadata {
        retry_attempt: before.retry_attempt + u32::from(spends_attempt),
        next_retry_time,
        first_sent_time: first_sent,
        retry_history: history(&before.retry_history, before.retry_attempt, failure, now),
        snooze_count: before.snooze_count + u32::from(!spends_attempt),
        redrive_generation: before.redrive_generation,
    };
    Ok(Retry { metadata, delay, spends_attempt })
}

/// A `non_retryable` match is permanent; else a `retryable` match is transient whatever the target said; else, if
/// `retryable` is given, permanent; else the target's own verdict. What the target has not judged is not classified by
/// what it is not: a snooze, a message whose turn did not come, and one that SQS moved because nobody answered.
fn classify(policy: &Policy, failure: &Failure) -> Kind {
    let kind = failure.kind.unwrap_or(Kind::Transient);
    if matches!(kind, Kind::Snooze | Kind::NotStarted) {
        return kind;
    }
    let matches = |globs: &crate::policy::Globs| globs.matches(&failure.error_type);
    if policy.non_retryable.as_ref().is_some_and(matches) {
        return Kind::Permanent;
    }
    match &policy.retryable {
        Some(globs) if matches(globs) || failure.error_type == REDRIVE => Kind::Transient,
        Some(_) => Kind::Permanent,
        None => kind,
    }
}

fn check_age(
    policy: &Policy,
    metadata: &Metadata,
    first_sent: Timestamp,
    next: Timestamp,
) -> Result<(), GiveUp> {
    let by_policy = policy
        .max_age_seconds
        .map(|age| (first_sent + TimeDelta::seconds(i64::from(age)), "max_age_seconds"));
    let by_producer = metadata.expires_at.map(|moment| (moment, "metadata.expires_at"));
    match by_policy.into_iter().chain(by_producer).min() {
        Some((limit, name)) if next > limit => Err(GiveUp {
            reason: DeadLetterReason::MessageExpired,
            explanation: format!(
                "The next retry at {} would come after {name} at {}",
                rfc3339(next),
                rfc3339(limit)
            ),
        }),
        _ => Ok(()),
    }
}

fn history(before: &[PastFailure], attempt: u32, failure: &Failure, now: Timestamp) -> Vec<PastFailure> {
    let failed_at = failure.failed_at.as_deref().and_then(crate::metadata::parse_rfc3339).unwrap_or(now);
    let newest = PastFailure::new(attempt, failed_at, &failure.error_type, &failure.details);
    let mut all: Vec<_> = before.iter().cloned().chain([newest]).collect();
    all.split_off(all.len().saturating_sub(HISTORY_MAX))
}

/// Writes the retry's metadata into the body, with as much history as the size limit leaves.
fn fit(failed: Failed<'_>, mut retry: Retry) -> Result<Resend, GiveUp> {
    loop {
        let body = failed.envelope.with_retry_metadata(&retry.metadata);
        let bytes = body.len() + failed.attributes_bytes;
        if bytes <= MESSAGE_BYTES_MAX {
            let Retry { metadata, delay, spends_attempt } = retry;
            let RetryMetadata { retry_attempt, first_sent_time: first_sent, .. } = metadata;
            return Ok(Resend { body, delay, retry_attempt, spends_attempt, first_sent });
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

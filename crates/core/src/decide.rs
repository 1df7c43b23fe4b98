//! The decision on a failed message: retry it, or give it up.

pub mod backoff;
pub mod breaker;
mod budget;
mod call_outcome;
mod due;
mod on_queue;

use crate::accepted::{AcceptedMessage, FailedMessage, Resized};
use crate::decide::backoff::JitterKey;
use crate::deliver::time_until;
use crate::failure::{Classification, FailureClass, HandOff, LastError, RATE_LIMITED, REDRIVE};
use crate::handler::HandlerError;
use crate::limits::{DelaySeconds, MESSAGE_BYTES_MAX, RetryDelay};
use crate::message::Timestamp;
use crate::message::metadata::{HELD_SECONDS_MAX, HISTORY_MAX, PastFailure, REDRIVES_MAX, RetryMetadata};
use crate::message::reason::DeadLetterReason;
use crate::message::reason::GiveUp;
use crate::message::schema::Rewritten;
use crate::policy::{Globs, Immediate, Policy};
pub(crate) use budget::check_holds;
pub use budget::{Budget, hold_grace, may_be_held};
use budget::{HoldTimes, check_redrives, hold_delay, redrive_delay};
pub use call_outcome::{CallOutcome, call_outcome, is_permanent_status};
use due::FlooredBackoff;
pub(crate) use due::{ARRIVAL_MARGIN, AgeLimit, DueTime, check_age, check_attempts};
pub(crate) use on_queue::not_retained;
pub use on_queue::{Attempts, QueueTimes, decide_on_queue};

/// The decision on a failed message.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Send it to the source queue again.
    Resend(Resend),
    /// The retry is due later than the limit of `DelaySeconds`: send it to the intermediate DLQ again, with this due
    /// time.
    Hop(Timestamp),
    /// Do not retry: the message goes to the final DLQ.
    GiveUp(GiveUp),
}

/// A re-send to the source queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Resend {
    /// The message with its new metadata.
    pub rewritten: Rewritten,
    /// `DelaySeconds` of the send.
    pub delay: DelaySeconds,
    /// The total delay, which is longer than `delay` if the message has hopped.
    pub waited: RetryDelay,
    /// `metadata.retry_attempt` of the re-sent message.
    pub retry_attempt: u32,
    /// The budget that the re-send spends: one unit, or some seconds.
    pub spends: Budget,
    /// Time of the first send.
    pub first_sent: Timestamp,
}

/// Decides on a failed message. Pure: the same message, failure, policy and time yield the same decision.
///
/// Reasons to give up, in this order: a permanent error, an exhausted budget (attempts, holds or redrives), a retry
/// after the message's age limit, and a message larger than 1 MiB even without its retry history.
#[must_use]
pub fn decide(policy: &Policy, failed: &FailedMessage, now: Timestamp) -> Decision {
    let decided = next_retry(policy, failed, now).and_then(|retry| {
        let (due, delay) = (retry.due, retry.due.delay_from(now));
        // Checked before a hop, too: a message whose metadata does not fit should not wait for hours before it is given
        // up.
        let resend = fit_metadata(&failed.accepted, retry, delay.unwrap_or(DelaySeconds::MAX))?;
        Ok(if delay.is_some() { Decision::Resend(resend) } else { Decision::Hop(due.at) })
    });
    decided.unwrap_or_else(Decision::GiveUp)
}

/// The policy's immediate retries, if any, for a blip: an error that is transient by the policy's lists, and without a
/// `Retry-After`.
#[must_use]
pub fn immediate_retries(policy: &Policy, error: &HandlerError) -> Option<Immediate> {
    let immediate = policy.immediate?;
    let answer = Classification::from_failure_kind(error.kind);
    let kind = classify_error(policy, &LastError::from_handler_error(error).error_type, answer.known_class());
    // The target's own delay is a floor: the target must not be called earlier.
    let blip = answer.retry_after_seconds.is_none() && kind == FailureClass::Transient;
    blip.then_some(immediate)
}

/// The due time of a message that needs another hop and no other decision.
#[must_use]
pub fn next_hop(
    policy: &Policy,
    hand_off: &HandOff,
    due_at: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let due = DueTime::from_hop(policy, hand_off, due_at, now)?;
    due.delay_from(now).is_none().then_some(due.at)
}

/// The next retry, before the size check of its metadata.
struct PlannedRetry {
    metadata: RetryMetadata,
    due: DueTime,
    spends: Budget,
}

fn next_retry(policy: &Policy, failed: &FailedMessage, now: Timestamp) -> Result<PlannedRetry, GiveUp> {
    let HandOff { error, answer, .. } = &failed.hand_off;
    let kind = retryable_kind(policy, &error.error_type, answer.known_class())?;
    let spends = available_budget(policy, failed, kind)?;
    let due = due_time(policy, failed, spends, now)?;
    Ok(PlannedRetry { metadata: retry_metadata(failed, kind, spends, due, now), due, spends })
}

/// Classifies a failure that is not permanent. Checked before the limits: if two reasons apply, the final record
/// contains the one that more attempts would not have changed.
pub(crate) fn retryable_kind(
    policy: &Policy,
    error_type: &str,
    kind: FailureClass,
) -> Result<FailureClass, GiveUp> {
    match classify_error(policy, error_type, kind) {
        FailureClass::Permanent => Err(DeadLetterReason::NonRetryableError.into()),
        kind => Ok(kind),
    }
}

/// The budget for the next re-send, unless it is exhausted.
fn available_budget(policy: &Policy, failed: &FailedMessage, kind: FailureClass) -> Result<Budget, GiveUp> {
    let before = failed.accepted.metadata();
    let budget = Budget::new(kind, before);
    match budget {
        Budget::Attempt => check_attempts(policy, before.max_attempts, before.retry_attempt)?,
        Budget::Redrive => check_redrives(policy, before)?,
        Budget::Hold => {
            check_holds(policy, held_seconds(failed), !failed.hand_off.error.was_not_called())?;
        }
        // Chosen only while some of it remains.
        Budget::Snooze => {}
    }
    Ok(budget)
}

/// The due time of the next re-send, unless the message expires before it.
fn due_time(
    policy: &Policy,
    failed: &FailedMessage,
    spends: Budget,
    now: Timestamp,
) -> Result<DueTime, GiveUp> {
    let FailedMessage { accepted, hand_off, due_at, .. } = failed;
    let HandOff { answer, delivery, .. } = hand_off;
    let before = accepted.metadata();
    let limit = AgeLimit::from_limits(policy, before.expires_at, before.first_sent(delivery.sent_at));
    // A re-send that spends no attempt has the same key as the attempt that it postpones. A snooze's delay uses a
    // different word from that key's generator.
    let key = JitterKey {
        message_id: before.message_id,
        generation: before.generation(),
        attempt: before.retry_attempt + 1,
    };
    let by_budget = || match spends {
        Budget::Attempt | Budget::Snooze => {
            let backoff = FlooredBackoff::for_retry(policy, answer, key);
            DueTime::from_backoff(&backoff, limit.map(|limit| limit.at), policy, delivery, now)
        }
        Budget::Hold => {
            let left = limit.map(|limit| time_until(now, limit.at));
            let times = HoldTimes {
                asked_seconds: answer.retry_after_seconds,
                held_seconds: held_seconds(failed),
                left,
            };
            DueTime::from_now(hold_delay(policy, times, now), now)
        }
        // The time before SQS moved the message is not part of its delay.
        Budget::Redrive => DueTime::from_now(redrive_delay(before.redrives_since_answer() + 1, key), now),
    };
    // A message that has hopped keeps its due time, so that the last hop does not restart the wait.
    let due = DueTime::from_hop(policy, hand_off, *due_at, now).unwrap_or_else(by_budget);
    check_age(limit, due.at)?;
    Ok(due)
}

/// The metadata of the next re-send, with one more unit of the budget spent.
fn retry_metadata(
    failed: &FailedMessage,
    kind: FailureClass,
    spends: Budget,
    due: DueTime,
    now: Timestamp,
) -> RetryMetadata {
    let (before, hand_off) = (failed.accepted.metadata(), &failed.hand_off);
    let HandOff { error, delivery, .. } = hand_off;
    let held_before = held_seconds(failed);
    let is_answered = matches!(kind, FailureClass::Transient | FailureClass::Snooze);
    let redrives_unanswered = if is_answered { 0 } else { before.redrives_since_answer() };
    let mut metadata = RetryMetadata {
        retry_attempt: before.retry_attempt,
        next_retry_time: due.at,
        first_sent_time: before.first_sent(delivery.sent_at),
        retry_history: match spends {
            // The message was not called, so the previous failure remains the last one in its history.
            Budget::Hold if error.was_not_called() => before.retry_history.clone(),
            _ => append_history(&before.retry_history, before.retry_attempt, hand_off, now),
        },
        snooze_count: before.snooze_count,
        redrive_generation: before.redrive_generation,
        held_since: None,
        outage_failures: 0,
        held_seconds: held_before.min(HELD_SECONDS_MAX),
        redrive_count: before.redrive_count,
        redrive_count_at_answer: before.redrive_count - redrives_unanswered,
        last_attempt: delivery.last_attempt.or(before.last_attempt),
    };
    match spends {
        Budget::Attempt => metadata.retry_attempt += 1,
        Budget::Snooze => metadata.snooze_count += 1,
        Budget::Redrive => metadata.redrive_count = (before.redrive_count + 1).min(REDRIVES_MAX),
        Budget::Hold => {
            // A busy target is not down.
            if !(error.was_not_called() && error.error_type == RATE_LIMITED) {
                let outage = hand_off.outage;
                metadata.held_since = Some(outage.map_or(delivery.failed_at(now), |outage| outage.since));
                metadata.outage_failures = outage.map_or(0, |outage| outage.first_failures.into());
            }
            metadata.held_seconds = (held_before + u32::from(due.delay.get())).min(HELD_SECONDS_MAX);
        }
    }
    metadata
}

/// Seconds for which the message was held before. Values set by a producer are not copied, since the re-send would make
/// them trusted.
fn held_seconds(FailedMessage { accepted, hand_off, .. }: &FailedMessage) -> u32 {
    accepted.metadata().holds.trusted_seconds(hand_off.delivery.origin)
}

/// Classifies an error: a `non_retryable` match is permanent; otherwise a `retryable` match is transient, regardless of
/// the target's response; otherwise, if `retryable` is set, the error is permanent; otherwise the target's response
/// decides. Neither list applies to snoozes, or to messages that were not started or were held; `retryable` does not
/// apply to calls without a response, or to messages that SQS moved.
pub(crate) fn classify_error(policy: &Policy, error_type: &str, kind: FailureClass) -> FailureClass {
    // These are not errors, so a list of errors does not apply to them.
    if matches!(kind, FailureClass::Snooze | FailureClass::NotStarted | FailureClass::Held) {
        return kind;
    }
    let matches = |globs: &Globs| globs.matches(error_type);
    if policy.non_retryable.as_ref().is_some_and(matches) {
        return FailureClass::Permanent;
    }
    match &policy.retryable {
        // A call without a response, or whose response was lost, is not matched by `retryable`, but may be by
        // `non_retryable`.
        _ if kind == FailureClass::Unanswered || error_type == REDRIVE => kind,
        Some(globs) if matches(globs) => FailureClass::Transient,
        Some(_) => FailureClass::Permanent,
        None => kind,
    }
}

fn append_history(
    before: &[PastFailure],
    attempt: u32,
    hand_off: &HandOff,
    now: Timestamp,
) -> Vec<PastFailure> {
    let HandOff { error, delivery, .. } = hand_off;
    let newest = PastFailure::new(attempt, delivery.failed_at(now), &error.error_type, &error.details);
    // Keep the newest entries: the current cause matters more than the first one.
    let mut all: Vec<_> = before.iter().cloned().chain([newest]).collect();
    all.split_off(all.len().saturating_sub(HISTORY_MAX))
}

/// Returns the message with the retry's metadata and as much history as fits.
fn fit_metadata(
    accepted: &AcceptedMessage,
    mut retry: PlannedRetry,
    delay: DelaySeconds,
) -> Result<Resend, GiveUp> {
    loop {
        let Some(Resized { rewritten, bytes }) = accepted.with_retry_metadata(&retry.metadata) else {
            let explanation = "None of its ten attributes can make room for its retry metadata".to_owned();
            return Err(GiveUp { reason: DeadLetterReason::MessageTooLarge, explanation });
        };
        if bytes <= MESSAGE_BYTES_MAX {
            let PlannedRetry { metadata, due, spends } = retry;
            let RetryMetadata { retry_attempt, first_sent_time: first_sent, .. } = metadata;
            let waited = due.delay;
            return Ok(Resend { rewritten, delay, waited, retry_attempt, spends, first_sent });
        }
        // The history is for humans, so its oldest entries are dropped before the message is given up for its size;
        // after them, the link to its last attempt.
        if retry.metadata.retry_history.is_empty() {
            if retry.metadata.last_attempt.take().is_some() {
                continue;
            }
            return Err(GiveUp {
                reason: DeadLetterReason::MessageTooLarge,
                explanation: format!(
                    "With its retry metadata the message has {bytes} bytes; the SQS limit is {MESSAGE_BYTES_MAX}"
                ),
            });
        }
        retry.metadata.retry_history.remove(0);
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! Decides what happens to a failed message: retry it, or give up on it.

pub mod backoff;
pub mod breaker;
mod budget;
mod call_outcome;
mod due;
mod on_queue;

use crate::accepted::{AcceptedMessage, FailedMessage, ResizedMessage};
use crate::decide::backoff::JitterKey;
use crate::deliver::time_until;
use crate::failure::{Classification, FailureClass, HandOff, LastError, RATE_LIMITED, REDRIVE};
use crate::handler::HandlerError;
use crate::limits::{DelaySeconds, MESSAGE_BYTES_MAX, RetryDelay};
use crate::message::Timestamp;
use crate::message::metadata::{HELD_SECONDS_MAX, HISTORY_MAX, PastFailure, REDRIVES_MAX, RetryMetadata};
use crate::message::reason::DeadLetterReason;
use crate::message::reason::GiveUp;
use crate::message::schema::RewrittenPart;
use crate::policy::{Globs, ImmediateRetries, Policy};
pub(crate) use budget::check_holds;
pub use budget::{Budget, hold_grace, may_be_held};
use budget::{HoldTimes, check_redrives, hold_delay, redrive_delay};
pub use call_outcome::{CallOutcome, call_outcome, is_permanent_status};
use due::FlooredBackoff;
pub(crate) use due::{ARRIVAL_MARGIN, AgeLimit, DueTime, check_age, check_attempts};
pub(crate) use on_queue::give_up_before_retention_ends;
pub use on_queue::{Attempts, QueueTimes, decide_visibility_timeout};

/// The decision on a failed message.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Re-send the message to the source queue.
    Resend(Resend),
    /// The retry is due later than `DelaySeconds` allows: send the message back to the intermediate DLQ with this due
    /// time.
    Hop(Timestamp),
    /// Do not retry: the message goes to the final DLQ.
    GiveUp(GiveUp),
}

/// A re-send to the source queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Resend {
    /// The message with its new metadata.
    pub rewritten: RewrittenPart,
    /// `DelaySeconds` of the send.
    pub delay: DelaySeconds,
    /// The total delay. It exceeds `delay` if the message has hopped.
    pub total_delay: RetryDelay,
    /// `metadata.retry_attempt` of the re-sent message.
    pub retry_attempt: u32,
    /// The budget that the re-send is charged to: one unit, or a number of seconds.
    pub budget: Budget,
    /// Time of the first send.
    pub first_sent: Timestamp,
}

/// Decides what happens to a failed message. Pure: the same message, failure, policy and time yield the same decision.
///
/// A message is given up on for these reasons, checked in this order: a permanent error, an exhausted budget (attempts,
/// holds or redrives), a retry due after the message's age limit, and a size above 1 MiB even without the retry
/// history.
#[must_use]
pub fn decide(policy: &Policy, failed: &FailedMessage, now: Timestamp) -> Decision {
    let decision = next_retry(policy, failed, now).and_then(|retry| {
        let (due, delay) = (retry.due, retry.due.delay_from(now));
        // Checked before a hop as well: a message whose metadata does not fit should not wait for hours only to be
        // given up on.
        let resend = fit_metadata(&failed.accepted, retry, delay.unwrap_or(DelaySeconds::MAX))?;
        Ok(if delay.is_some() { Decision::Resend(resend) } else { Decision::Hop(due.at) })
    });
    decision.unwrap_or_else(Decision::GiveUp)
}

/// Returns the policy's immediate retries, if any, for a blip: an error that the policy's lists classify as transient
/// and that has no `Retry-After`.
#[must_use]
pub fn immediate_retries(policy: &Policy, error: &HandlerError) -> Option<ImmediateRetries> {
    let immediate = policy.immediate?;
    let classification = Classification::from_failure_kind(error.kind);
    let class = classify_error(
        policy,
        &LastError::from_handler_error(error).error_type,
        classification.known_class(),
    );
    // A delay requested by the target is a floor: the target must not be called sooner.
    let blip = classification.retry_after_seconds.is_none() && class == FailureClass::Transient;
    blip.then_some(immediate)
}

/// Returns the due time of a message that only needs another hop.
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

/// The next retry, before its metadata is checked for size.
struct PlannedRetry {
    metadata: RetryMetadata,
    due: DueTime,
    budget: Budget,
}

fn next_retry(policy: &Policy, failed: &FailedMessage, now: Timestamp) -> Result<PlannedRetry, GiveUp> {
    let HandOff { error, classification, .. } = &failed.hand_off;
    let class = retryable_class(policy, &error.error_type, classification.known_class())?;
    let budget = available_budget(policy, failed, class)?;
    let due = due_time(policy, failed, budget, now)?;
    Ok(PlannedRetry { metadata: retry_metadata(failed, class, budget, due, now), due, budget })
}

/// Classifies a failure, and returns an error if it is permanent. This is checked before the limits: if two reasons
/// apply, the final record contains the one that more attempts would not have changed.
pub(crate) fn retryable_class(
    policy: &Policy,
    error_type: &str,
    class: FailureClass,
) -> Result<FailureClass, GiveUp> {
    match classify_error(policy, error_type, class) {
        FailureClass::Permanent => Err(DeadLetterReason::NonRetryableError.into()),
        class => Ok(class),
    }
}

/// Returns the budget for the next re-send, unless it is exhausted.
fn available_budget(policy: &Policy, failed: &FailedMessage, class: FailureClass) -> Result<Budget, GiveUp> {
    let before = failed.accepted.metadata();
    let budget = Budget::new(class, before);
    match budget {
        Budget::Attempt => check_attempts(policy, before.max_attempts, before.retry_attempt)?,
        Budget::Redrive => check_redrives(policy, before)?,
        Budget::Hold => {
            check_holds(policy, held_seconds(failed), !failed.hand_off.error.was_not_called())?;
        }
        // Chosen only while some of this budget remains.
        Budget::Snooze => {}
    }
    Ok(budget)
}

/// Returns the due time of the next re-send, unless the message expires first.
fn due_time(
    policy: &Policy,
    failed: &FailedMessage,
    budget: Budget,
    now: Timestamp,
) -> Result<DueTime, GiveUp> {
    let FailedMessage { accepted, hand_off, due_at, .. } = failed;
    let HandOff { classification, delivery, .. } = hand_off;
    let before = accepted.metadata();
    let limit = AgeLimit::from_limits(policy, before.expires_at, before.first_sent(delivery.sent_at));
    // A re-send that spends no attempt has the same key as the attempt it postpones. A snooze's delay uses the
    // second word of that key's generator.
    let key = JitterKey {
        message_id: before.message_id,
        generation: before.generation(),
        attempt: before.retry_attempt + 1,
    };
    let new_due_time = || match budget {
        Budget::Attempt | Budget::Snooze => {
            let backoff = FlooredBackoff::for_retry(policy, classification, key);
            DueTime::from_backoff(&backoff, limit.map(|limit| limit.at), policy, delivery, now)
        }
        Budget::Hold => {
            let left = limit.map(|limit| time_until(now, limit.at));
            let times = HoldTimes {
                requested_seconds: classification.retry_after_seconds,
                held_seconds: held_seconds(failed),
                left,
            };
            DueTime::from_now(hold_delay(policy, times, now), now)
        }
        // The time before SQS moved the message does not count towards its delay.
        Budget::Redrive => DueTime::from_now(redrive_delay(before.redrives_since_answer() + 1, key), now),
    };
    // A message that has hopped keeps its due time: the last hop must not restart the wait.
    let due = DueTime::from_hop(policy, hand_off, *due_at, now).unwrap_or_else(new_due_time);
    check_age(limit, due.at)?;
    Ok(due)
}

/// Returns the metadata of the next re-send, with one more unit of the budget spent.
fn retry_metadata(
    failed: &FailedMessage,
    class: FailureClass,
    budget: Budget,
    due: DueTime,
    now: Timestamp,
) -> RetryMetadata {
    let (before, hand_off) = (failed.accepted.metadata(), &failed.hand_off);
    let HandOff { error, delivery, .. } = hand_off;
    let held_before = held_seconds(failed);
    let is_answered = matches!(class, FailureClass::Transient | FailureClass::Snooze);
    let redrives_unanswered = if is_answered { 0 } else { before.redrives_since_answer() };
    let mut metadata = RetryMetadata {
        retry_attempt: before.retry_attempt,
        next_retry_time: due.at,
        first_sent_time: before.first_sent(delivery.sent_at),
        retry_history: match budget {
            // No call was made, so there is no new failure to append.
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
    match budget {
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

/// Returns the number of seconds for which the message was held before. A producer's values are not copied, because the
/// re-send would make them trusted.
fn held_seconds(FailedMessage { accepted, hand_off, .. }: &FailedMessage) -> u32 {
    accepted.metadata().holds.trusted_seconds(hand_off.delivery.origin)
}

/// Classifies an error. The first rule that applies decides: a `non_retryable` match is permanent; a `retryable` match
/// is transient, regardless of the target's response; if `retryable` is set, any other error is permanent; otherwise
/// the target's response decides. Neither list applies to snoozes, or to messages that were held or not started.
/// `retryable` does not apply to calls without a response, or to messages that SQS moved.
pub(crate) fn classify_error(policy: &Policy, error_type: &str, class: FailureClass) -> FailureClass {
    // These are not errors, so the error lists do not apply.
    if matches!(class, FailureClass::Snooze | FailureClass::NotStarted | FailureClass::Held) {
        return class;
    }
    let matches = |globs: &Globs| globs.matches(error_type);
    if policy.non_retryable.as_ref().is_some_and(matches) {
        return FailureClass::Permanent;
    }
    match &policy.retryable {
        // `retryable` does not apply to a call without a response, or to a message that SQS moved; `non_retryable`
        // does.
        _ if class == FailureClass::Unanswered || error_type == REDRIVE => class,
        Some(globs) if matches(globs) => FailureClass::Transient,
        Some(_) => FailureClass::Permanent,
        None => class,
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
    // Keep the newest entries: the current cause matters more than the original one.
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
        let Some(ResizedMessage { rewritten, bytes }) = accepted.with_retry_metadata(&retry.metadata) else {
            let explanation = "Its attributes leave no room for its retry metadata".to_owned();
            return Err(GiveUp { reason: DeadLetterReason::MessageTooLarge, explanation });
        };
        if bytes <= MESSAGE_BYTES_MAX {
            let PlannedRetry { metadata, due, budget } = retry;
            let RetryMetadata { retry_attempt, first_sent_time: first_sent, .. } = metadata;
            let total_delay = due.delay;
            return Ok(Resend { rewritten, delay, total_delay, retry_attempt, budget, first_sent });
        }
        // The history is for humans, so its oldest entries are dropped before the message is given up on for its size.
        // The link to the last attempt is dropped next.
        if retry.metadata.retry_history.is_empty() {
            if retry.metadata.last_attempt.take().is_some() {
                continue;
            }
            return Err(GiveUp {
                reason: DeadLetterReason::MessageTooLarge,
                explanation: format!(
                    "With its retry metadata, the message is {bytes} bytes long; the SQS limit is {MESSAGE_BYTES_MAX}"
                ),
            });
        }
        retry.metadata.retry_history.remove(0);
    }
}

#[cfg(test)]
pub(crate) mod tests;

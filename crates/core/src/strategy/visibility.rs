//! `visibility`: failed messages remain hidden on the source queue for the delay. Each retry is a receive.

use futures_util::join;

use super::on_failure::{SendContext, StrategyRules, UnsentMessages, Wiring};
use super::on_queue::{OnQueueRules, QueueDecisions, make_queue_decisions};
use super::queues::{
    NeededQueue, RECEIVES_MAX, Role, SOURCE_RETENTION, SPARE_RECEIVES, with_dead_letter_queues,
};
use super::{StrategyDefinition, refuse_redrives};
use crate::accepted::{AcceptedMessage, FailedMessage};
use crate::decide::{Attempts, QueueTimes, check_attempts, decide_visibility_timeout};
use crate::deliver::PendingSend;
use crate::failure::{HandOff, Stage};
use crate::limits::VisibilitySeconds;
use crate::message::metadata::Metadata;
use crate::message::reason::GiveUp;
use crate::message::schema::Violation;
use crate::message::{Confirmed, Timestamp};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};

/// The error details for a message whose previous receive counts as an attempt, but has an unknown outcome.
const RECEIVED_AGAIN: &str = "SQS delivered the message again: the function crashed, timed out, ran out of memory or was throttled, and the outcome of the call is unknown";

pub(super) const DEFINITION: StrategyDefinition = StrategyDefinition {
    name: "visibility",
    summary: "It stays on the source queue, hidden for the delay",
    // Each receive is an attempt, so a hold would spend one.
    default_policy: r#"{"circuit_breaker":false}"#,
    refusals: &[refuse_uncountable_attempts, refuse_redrives],
    queues: needed_queues,
    stays_on_queue: true,
    is_fifo: false,
};

fn needed_queues(max_attempts: u32) -> Vec<NeededQueue> {
    // Ten more receives than the policy's `max_attempts`.
    let receives =
        u16::try_from(max_attempts).unwrap_or(u16::MAX).saturating_add(SPARE_RECEIVES).min(RECEIVES_MAX);
    with_dead_letter_queues(Role::Source, "source", SOURCE_RETENTION, receives)
}

/// Refuses more attempts than the queue can count, since each retry is a receive: SQS would move the message before its
/// last retry, and its verdict would be lost.
fn refuse_uncountable_attempts(&Policy { max_attempts, .. }: &Policy) -> Option<Violation> {
    let most = RECEIVES_MAX - SPARE_RECEIVES;
    let rule = format!(
        "which is {max_attempts}: use at most {most} with the strategy visibility, since each retry is a receive, \
         the source queue and the annotation queue need ten spare ones each, and the SQS limit is 1000"
    );
    (max_attempts > most.into()).then(|| Violation::new("/max_attempts", rule))
}

/// Hides failed messages on their queue, which counts their retries.
#[derive(Debug)]
pub struct Visibility<Q> {
    /// The queue on which failed messages remain.
    pub source_queue: Q,
    pub queue_times: QueueTimes,
}

impl<Q> Visibility<Q> {
    pub(super) fn from_wiring(wiring: &mut impl Wiring<Queue = Q>) -> Option<Self> {
        let (source_queue, queue_times) = (wiring.queue(Role::Source), wiring.queue_times());
        Some(Self { source_queue: source_queue?, queue_times: queue_times? })
    }

    pub(super) fn map_queues<R>(self, queue: impl Fn(Q) -> R) -> Visibility<R> {
        Visibility { source_queue: queue(self.source_queue), queue_times: self.queue_times }
    }
}

impl<Q: QueueSender + VisibilityControl> Visibility<Q> {
    pub(super) async fn settle_unsent<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: UnsentMessages,
    ) -> Vec<Confirmed> {
        let now = context.outbox.now();
        let QueueDecisions { hidings, given_up } = make_queue_decisions(self, context.policy, unsent, now);
        let ((), verdicts) =
            join!(context.outbox.hide_records(&self.source_queue, hidings), context.send_verdicts(given_up));
        verdicts
    }
}

impl<Q> OnQueueRules for Visibility<Q> {
    fn decide_visibility(
        &self,
        policy: &Policy,
        message: &FailedMessage,
        now: Timestamp,
    ) -> Result<VisibilitySeconds, GiveUp> {
        let attempts = Attempts::from_receives(&message.accepted);
        decide_visibility_timeout(policy, message, attempts, self.queue_times, now)
    }
}

impl<Q> StrategyRules for Visibility<Q> {
    fn retries_made(&self, accepted: &AcceptedMessage) -> u32 {
        accepted.record().receive_count.saturating_sub(1)
    }

    fn check_receives(
        &self,
        policy: &Policy,
        accepted: AcceptedMessage,
        now: Timestamp,
    ) -> Result<AcceptedMessage, Box<PendingSend>> {
        let Err(give_up) = check_call_allowed(policy, accepted.metadata(), accepted.record().receive_count)
        else {
            return Ok(accepted);
        };
        let attempts = self.retries_made(&accepted);
        let hand_off = HandOff::for_unanswered_receives(RECEIVED_AGAIN, accepted.failed_delivery(now));
        let (stage, due_at, error_type) = (Stage::MessageProcessor, None, None);
        let failed = FailedMessage { accepted, hand_off, due_at, stage, error_type, span: None };
        Err(Box::new(failed.give_up(Some(attempts), give_up)))
    }

    fn queue_times(&self) -> Option<QueueTimes> {
        Some(self.queue_times)
    }
}

/// Checks that the target may be called for this receive. It must not be called if the previous receive was the last
/// one allowed: its outcome is unknown, and a crash must not cause more calls than the policy allows.
///
/// # Errors
/// Returns the reason if the message is given up on.
fn check_call_allowed(policy: &Policy, metadata: &Metadata, receive_count: u32) -> Result<(), GiveUp> {
    // The first receive was not a retry, and the call for this receive has not been made yet.
    match receive_count.checked_sub(2) {
        Some(made_before) => check_attempts(policy, metadata.max_attempts, made_before),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

//! `ordered`: the source queue is a FIFO queue, on which a failed message remains hidden for the delay while the rest
//! of its group waits behind it.

mod attempt_counter;

use futures_util::join;

use super::on_failure::{GivenUpMessage, MissingSetting, SendContext, StrategyRules, UnsentMessages, Wiring};
use super::on_queue::{OnQueueRules, QueueDecisions, make_queue_decisions};
use super::queues::{NeededQueue, RECEIVES, RETENTION, RedriveEdge, Role, dead_letter_queues};
use super::{StrategyDefinition, refuse_redrives};
use crate::accepted::{AcceptedMessage, FailedMessage};
use crate::blocked::{create_blocked_notice, hiding_time};
use crate::decide::{
    ARRIVAL_MARGIN, AgeLimit, Attempts, QueueTimes, check_age, check_holds, decide_visibility_timeout,
    give_up_before_retention_ends, may_be_held,
};
use crate::deliver::{PendingSend, time_until};
use crate::failure::{FailureClass, HandOff};
use crate::limits::VisibilitySeconds;
use crate::message::reason::GiveUp;
use crate::message::schema::Violation;
use crate::message::{Confirmed, Timestamp};
use crate::policy::Policy;
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};
pub use attempt_counter::AttemptCounter;

/// `maxReceiveCount` of the source queue: SQS's maximum ("CreateQueue", Amazon SQS API Reference), since not every
/// receive leads to a call.
const FIFO_RECEIVES: u16 = 1000;
/// Receives reserved for the first call, crashes and holds, which are not retries.
const NON_RETRY_RECEIVES: u16 = 20;

pub(super) const DEFINITION: StrategyDefinition = StrategyDefinition {
    name: "ordered",
    summary: "It stays on the FIFO source queue, hidden for the delay, and the rest of its group waits behind it",
    // Limited by age, since not every receive leads to a call.
    default_policy: r#"{"max_attempts":980,"max_age_seconds":86400,"backoff":{"kind":"exponential","initial_delay_seconds":5}}"#,
    refusals: &[refuse_uncountable_attempts, refuse_redrives],
    queues: needed_queues,
    stays_on_queue: true,
    is_fifo: true,
};

fn needed_queues(_: u32) -> Vec<NeededQueue> {
    let mut queues = dead_letter_queues(RECEIVES);
    // A FIFO queue's DLQ must be a FIFO queue ("Amazon SQS dead-letter queues"), so the annotator reads this queue,
    // too. The queue has no DLQ itself: that would have to be the final DLQ, which is a standard queue.
    let (role, name) = (Role::SourceDlq, "source-dlq.fifo");
    queues.push(NeededQueue { role, name, retention: RETENTION, redrive: None });
    let redrive = Some(RedriveEdge { to: Role::SourceDlq, receives: FIFO_RECEIVES });
    // SQS's maximum retention, since messages wait behind a failed one.
    queues.push(NeededQueue { role: Role::Source, name: "source.fifo", retention: RETENTION, redrive });
    queues
}

/// Refuses more attempts than the queue can count: SQS would move the message before its last retry.
fn refuse_uncountable_attempts(&Policy { max_attempts, .. }: &Policy) -> Option<Violation> {
    let most = FIFO_RECEIVES - NON_RETRY_RECEIVES;
    let rule = format!(
        "which is {max_attempts}: use at most {most} with the strategy ordered, since each retry is a receive, \
         {NON_RETRY_RECEIVES} are reserved for crashes and holds, and the SQS limit is {FIFO_RECEIVES}"
    );
    (max_attempts > most.into()).then(|| Violation::new("/max_attempts", rule))
}

/// Hides failed messages on their FIFO queue, where their groups wait behind them.
#[derive(Debug)]
pub struct Ordered<Q> {
    /// The queue on which failed messages remain.
    pub source_queue: Q,
    pub queue_times: QueueTimes,
    pub attempts: AttemptCounter,
    /// The queue for notices about blocked groups (`on_give_up`); `None` if groups are never blocked.
    pub blocked: Option<Q>,
}

/// The messages to give up on, from one batch: some get a verdict, others remain on the queue and block their groups.
#[derive(Debug, Default)]
struct SeparatedMessages {
    verdicts: Vec<GivenUpMessage>,
    /// Notices, each with the time for which to hide its message.
    notices: Vec<(PendingSend, VisibilitySeconds)>,
}

impl<Q> Ordered<Q> {
    pub(super) fn from_wiring(wiring: &mut impl Wiring<Queue = Q>) -> Option<Self> {
        let (source_queue, queue_times) = (wiring.fifo_queue(Role::Source), wiring.queue_times());
        let batch_size = wiring.batch_size();
        let blocked = wiring.blocked_queue(batch_size);
        Some(Self {
            source_queue: source_queue?,
            queue_times: queue_times?,
            attempts: AttemptCounter::for_batch_size(batch_size?),
            blocked: blocked.map_err(|MissingSetting| ()).ok()?,
        })
    }

    pub(super) fn map_queues<R>(self, queue: impl Fn(Q) -> R) -> Ordered<R> {
        let Self { source_queue, queue_times, attempts, blocked } = self;
        let (source_queue, blocked) = (queue(source_queue), blocked.map(queue));
        Ordered { source_queue, queue_times, attempts, blocked }
    }

    /// Separates out the messages that block their groups, if the policy requires it, except those whose retention is
    /// over and those too large for a notice.
    fn separate_blocked_messages(&self, given_up: Vec<GivenUpMessage>, now: Timestamp) -> SeparatedMessages {
        let mut ends = SeparatedMessages::default();
        for GivenUpMessage { verdict, received } in given_up {
            let visibility = self.blocked.as_ref().and_then(|_| hiding_time(self.queue_times, received, now));
            let Some(visibility) = visibility else {
                ends.verdicts.push(GivenUpMessage { verdict, received });
                continue;
            };
            match create_blocked_notice(verdict, received) {
                Ok(notice) => ends.notices.push((notice, visibility)),
                Err(verdict) => ends.verdicts.push(GivenUpMessage { verdict: *verdict, received }),
            }
        }
        ends
    }
}

impl<Q: QueueSender + VisibilityControl> Ordered<Q> {
    pub(super) async fn settle_unsent<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: UnsentMessages,
    ) -> Vec<Confirmed> {
        let now = context.outbox.now();
        let QueueDecisions { hidings, given_up } = make_queue_decisions(self, context.policy, unsent, now);
        let SeparatedMessages { verdicts, notices } = self.separate_blocked_messages(given_up, now);
        let block = async {
            if let Some(blocked) = &self.blocked {
                context.outbox.block_groups(blocked, &self.source_queue, notices).await;
            }
        };
        let ((), (), verdicts) = join!(
            context.outbox.hide_records(&self.source_queue, hidings),
            block,
            context.send_verdicts(verdicts)
        );
        // Attempts are forgotten only now: a message whose verdict was refused is received again, and its attempts must
        // not restart at zero.
        verdicts.iter().for_each(|given_up| self.forget_attempts(given_up.sqs_message_id()));
        verdicts
    }
}

impl<Q> OnQueueRules for Ordered<Q> {
    /// Records the call, if one was made, and decides what happens to the message.
    fn decide_visibility(
        &self,
        policy: &Policy,
        message: &FailedMessage,
        now: Timestamp,
    ) -> Result<VisibilitySeconds, GiveUp> {
        let record = message.accepted.record();
        let attempts = if self.spends_attempt(&message.hand_off) {
            self.attempts.record_failure(record, now)
        } else if message.hand_off.was_called() == Some(true) {
            self.attempts.record_hold(record, now)
        } else {
            Attempts { made: self.attempts.retries_made(record), since: self.attempts.age_start(record, now) }
        };
        decide_ordered_visibility(policy, message, attempts, self.queue_times, now)
    }

    /// True unless the message was held or its call did not start.
    fn spends_attempt(&self, hand_off: &HandOff) -> bool {
        !matches!(hand_off.classification.known_class(), FailureClass::NotStarted | FailureClass::Held)
    }
}

impl<Q> StrategyRules for Ordered<Q> {
    fn retries_made(&self, accepted: &AcceptedMessage) -> u32 {
        self.attempts.retries_made(accepted.record())
    }

    /// Returns 0: during an outage, only the first message of each group leads to a call, so every failure is evidence.
    fn failed_calls(&self, _: &AcceptedMessage) -> u32 {
        0
    }

    /// Returns the time since the first failed call or the first receive. `hold_seconds_max` limits this time.
    fn held_seconds(&self, accepted: &AcceptedMessage, now: Timestamp) -> u32 {
        seconds_between(self.attempts.held_since(accepted.record(), now), now)
    }

    fn calls_before(&self, accepted: &AcceptedMessage) -> u32 {
        accepted.record().receive_count.saturating_sub(1)
    }

    fn is_overdue(&self, policy: &Policy, accepted: &AcceptedMessage, now: Timestamp) -> bool {
        let expires_at = accepted.metadata().expires_at;
        let age_limit =
            AgeLimit::from_limits(policy, expires_at, self.attempts.age_start(accepted.record(), now));
        !may_be_held(policy, self.held_seconds(accepted, now))
            || age_limit.is_some_and(|limit| limit.is_near(now))
    }

    fn ordering_group<'a>(&self, accepted: &'a AcceptedMessage) -> Option<&'a str> {
        Some(accepted.record().message_group_id.as_deref().unwrap_or_default())
    }

    fn forget_attempts(&self, sqs_message_id: &str) {
        self.attempts.forget(sqs_message_id);
    }

    fn batch_size_max(&self) -> u8 {
        if matches!(self.attempts, AttemptCounter::Receives) { 1 } else { 10 }
    }

    fn queue_times(&self) -> Option<QueueTimes> {
        Some(self.queue_times)
    }
}

fn seconds_between(since: Timestamp, now: Timestamp) -> u32 {
    u32::try_from(time_until(since, now).as_secs()).unwrap_or(u32::MAX)
}

/// Returns the next visibility timeout for a message on an ordered queue. Pure. A message whose call was not made is
/// given up on only at the end of its retention.
///
/// # Errors
/// Returns the reason if the message is given up on.
fn decide_ordered_visibility(
    policy: &Policy,
    failed: &FailedMessage,
    attempts: Attempts,
    queue_times: QueueTimes,
    now: Timestamp,
) -> Result<VisibilitySeconds, GiveUp> {
    let HandOff { error, classification, delivery, .. } = &failed.hand_off;
    let metadata = failed.accepted.metadata();
    match classification.known_class() {
        // Visible immediately: SQS delivers it once the messages before it are completed.
        FailureClass::NotStarted => Ok(VisibilitySeconds::ZERO),
        FailureClass::Held => {
            // These limits do not apply to a message that was held without a call, since the target must be called for
            // it first.
            if !error.was_not_called() {
                check_holds(policy, seconds_between(attempts.since, now), true)?;
                let age_limit = AgeLimit::from_limits(policy, metadata.expires_at, attempts.since);
                check_age(age_limit, now + ARRIVAL_MARGIN)?;
            }
            let latest_retry_time = queue_times.latest_retry_time(delivery.sent_at);
            let left = time_until(now, latest_retry_time).as_secs();
            if left == 0 {
                return Err(give_up_before_retention_ends(queue_times, delivery.sent_at, now));
            }
            // With little time left, the message becomes visible early enough for a last call. Beyond its age limit,
            // only a `Retry-After` or a rate limit can hold it, and a single receive after that suffices.
            let age_limit = AgeLimit::from_limits(policy, metadata.expires_at, attempts.since);
            let age_left =
                age_limit.map(|limit| time_until(now, limit.at).as_secs()).filter(|left| *left > 0);
            let left = age_left.map_or(left, |age_left| left.min(age_left));
            let delay = classification.retry_after_seconds.unwrap_or(0).min(left / 2).max(1);
            Ok(VisibilitySeconds::saturating(delay))
        }
        _ => decide_visibility_timeout(policy, failed, attempts, queue_times, now),
    }
}

#[cfg(test)]
mod tests;

//! The strategies: where failed messages go.

use std::mem;

use futures_util::join;
use redeliver_core::accepted::{Accepted, FailedMessage};
use redeliver_core::arrival::Arrival;
use redeliver_core::blocked::ReceiveTimes;
use redeliver_core::decide::{
    AttemptCounter, Attempts, QueueTimes, decide_in_order, decide_on_queue, is_overdue, may_be_called,
    may_be_held,
};
use redeliver_core::deliver::{Hiding, Outbox, Outgoing, until};
use redeliver_core::events::Event;
use redeliver_core::failure::reason::GiveUp;
use redeliver_core::failure::{HandOff, Kind, Stage};
use redeliver_core::limits::{DelaySeconds, RetryDelay, VisibilitySeconds};
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::{Confirmed, Timestamp};
use redeliver_core::ports::{Clock, Observer, QueueSender, VisibilityControl};
use redeliver_core::redelivery::{Redelivery, Routes};
use redeliver_core::strategy::OnFailure;

use super::MessageProcessor;

/// The error of a message whose receives are attempts, if nobody answered for the previous receive.
const RECEIVED_AGAIN: &str = "SQS gave the message once more: the function crashed, timed out, ran out of memory or was throttled, and nobody knows what became of the call";

/// The messages to send once the calls are over.
pub(super) struct Unsent {
    pub(super) failed: Vec<FailedMessage>,
    pub(super) verdicts: Vec<Outgoing>,
    /// Notices of blocked groups, and the time for which each message is hidden then.
    pub(super) notices: Vec<(Outgoing, VisibilitySeconds)>,
    pub(super) deadline: Timestamp,
}

impl Unsent {
    pub(super) fn by(deadline: Timestamp) -> Self {
        Self { failed: Vec::new(), verdicts: Vec::new(), notices: Vec::new(), deadline }
    }
}

impl<H, Q: QueueSender + VisibilityControl, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Sends the verdicts, and keeps the failed messages.
    pub(super) async fn keep(&self, unsent: Unsent) -> Vec<Confirmed> {
        let outbox = Outbox::new(&self.clock, &self.observer, unsent.deadline);
        match &self.on_failure {
            OnFailure::DelayedResend { intermediate_dlq } => {
                self.hand_off_all(intermediate_dlq, &outbox, unsent).await
            }
            OnFailure::DirectResend(redelivery) => self.send_all_again(redelivery, &outbox, unsent).await,
            OnFailure::Visibility { source_queue, queue_times } => {
                let decide = |message: &FailedMessage, now| {
                    let attempts = Attempts::of_receives(&message.accepted);
                    decide_on_queue(&self.policy, message, attempts, *queue_times, now)
                };
                self.hide_all(source_queue, None, decide, &outbox, unsent).await
            }
            OnFailure::Ordered { source_queue, queue_times, attempts, blocked } => {
                let decide = |message: &FailedMessage, now| {
                    self.count_and_decide(attempts, *queue_times, message, now)
                };
                self.hide_all(source_queue, blocked.as_ref(), decide, &outbox, unsent).await
            }
        }
    }

    /// `delayed-resend`: the failed-message-processor gets each failed message with its reason, and decides.
    async fn hand_off_all(
        &self,
        intermediate_dlq: &Q,
        outbox: &Outbox<'_, C, O>,
        Unsent { failed, verdicts, .. }: Unsent,
    ) -> Vec<Confirmed> {
        let now = self.clock.now();
        let hand_offs = failed.into_iter().map(|message| self.hand_off(message, now)).collect();
        let (mut done, verdicts) = join!(
            outbox.send(intermediate_dlq, "hand-off", hand_offs),
            outbox.send(&self.annotation_queue, "verdict", verdicts),
        );
        done.extend(verdicts);
        done
    }

    /// `direct-resend`: decided here, by the rules of the failed-message-processor.
    async fn send_all_again(
        &self,
        redelivery: &Redelivery<Q>,
        outbox: &Outbox<'_, C, O>,
        Unsent { failed, verdicts, .. }: Unsent,
    ) -> Vec<Confirmed> {
        let mut routes = Routes::default();
        verdicts.into_iter().for_each(|verdict| routes.give_up(verdict));
        let now = self.clock.now();
        for message in failed {
            routes.add(&self.policy, message, now);
        }
        redelivery.send(outbox, &self.annotation_queue, routes).await
    }

    /// `visibility` and `ordered`: decided here, since no other function sees a message that stays on its queue.
    async fn hide_all(
        &self,
        source_queue: &Q,
        blocked: Option<&Q>,
        decide: impl Fn(&FailedMessage, Timestamp) -> Result<VisibilitySeconds, GiveUp>,
        outbox: &Outbox<'_, C, O>,
        mut unsent: Unsent,
    ) -> Vec<Confirmed> {
        let now = self.clock.now();
        let mut hidings = Vec::with_capacity(unsent.failed.len());
        for message in mem::take(&mut unsent.failed) {
            let retries_made = self.retries_made(&message.accepted);
            match decide(&message, now) {
                Ok(visibility) => {
                    let spends_attempt = self.spends_attempt(&message.hand_off);
                    let retry_attempt = retries_made + u32::from(spends_attempt);
                    let FailedMessage { accepted, hand_off, error_type, .. } = message;
                    // A message that was not called is as it was before.
                    let is_retry = spends_attempt || hand_off.answer.kind() == Kind::Held;
                    let confirmed = is_retry.then(|| Event::RetryScheduled {
                        message_id: accepted.metadata().message_id_text.clone(),
                        retry_attempt,
                        spends_attempt,
                        delay_seconds: RetryDelay::saturating(visibility.get().into()),
                        age_seconds: until(accepted.first_sent(), now).as_secs_f64(),
                        error_type,
                    });
                    hidings.push(Hiding { receipt: accepted.into_receipt(), visibility, confirmed });
                }
                Err(give_up) => {
                    let times = ReceiveTimes::of(message.accepted.record(), now);
                    let verdict = message.give_up(Some(retries_made), give_up);
                    self.give_up(verdict, times, &mut unsent, now);
                }
            }
        }
        let Unsent { verdicts, notices, .. } = unsent;
        let block = async {
            if let Some(blocked) = blocked {
                outbox.block(blocked, source_queue, notices).await;
            }
        };
        let ((), (), verdicts) = join!(
            outbox.hide(source_queue, hidings),
            block,
            outbox.send(&self.annotation_queue, "verdict", verdicts),
        );
        // Not before: a message whose verdict was refused comes back, and its attempts must not start from zero.
        verdicts.iter().for_each(|given_up| self.forget(given_up.sqs_message_id()));
        verdicts
    }
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    fn hand_off(&self, failed: FailedMessage, now: Timestamp) -> Outgoing {
        let FailedMessage { accepted, hand_off, error_type, span, .. } = failed;
        let kind = hand_off.answer.kind();
        // A message may be held a hundred times, so one event reports all holds of a batch.
        let handed_off = (kind != Kind::Held).then(|| Event::HandedOff {
            message_id: accepted.metadata().message_id_text.clone(),
            retry_attempt: self.retries_made(&accepted),
            error_type: error_type.unwrap_or_default(),
            kind: kind.as_str(),
            age_seconds: until(accepted.first_sent(), now).as_secs_f64(),
        });
        accepted.with_id().handed_off(&hand_off).pass_on(DelaySeconds::ZERO, handed_off).within(span)
    }

    /// Retries made so far: counted by the queue or by the message.
    pub(super) fn retries_made(&self, accepted: &Accepted) -> u32 {
        match &self.on_failure {
            OnFailure::DelayedResend { .. } | OnFailure::DirectResend(_) => accepted.metadata().retry_attempt,
            OnFailure::Visibility { .. } => accepted.record().receive_count.saturating_sub(1),
            OnFailure::Ordered { attempts, .. } => attempts.retries_made(accepted.record()),
        }
    }

    /// True if the message is called in any state of the breaker: its holds, or its age, are at their limit. Nobody counts
    /// the holds of an ordered queue: there it is the time since the first receive.
    pub(super) fn is_overdue(&self, accepted: &Accepted, now: Timestamp) -> bool {
        let OnFailure::Ordered { attempts, .. } = &self.on_failure else {
            return !may_be_held(&self.policy, accepted.held_seconds());
        };
        let record = accepted.record();
        let received = until(record.first_received_at.unwrap_or(now), now);
        let held_seconds = u32::try_from(received.as_secs()).unwrap_or(u32::MAX);
        let since = attempts.since(record, now);
        !may_be_held(&self.policy, held_seconds) || is_overdue(&self.policy, accepted.metadata(), since, now)
    }

    /// A message that is processed or given up needs no count any more.
    pub(super) fn forget(&self, sqs_message_id: &str) {
        if let OnFailure::Ordered { attempts, .. } = &self.on_failure {
            attempts.forget(sqs_message_id);
        }
    }

    /// The record with its origin: on a queue where failed messages stay, nothing is re-sent.
    pub(super) fn with_origin(&self, arrival: Arrival) -> Arrival {
        if self.stays_on_queue() {
            return arrival.resolve_origin(&Resenders::nobody());
        }
        arrival.resolve_origin(&self.resenders)
    }

    /// A queue that counts the attempts also counts unanswered receives.
    pub(super) fn check_receives(
        &self,
        accepted: Accepted,
        now: Timestamp,
    ) -> Result<Accepted, Box<Outgoing>> {
        let OnFailure::Visibility { .. } = self.on_failure else {
            return Ok(accepted);
        };
        let Err(give_up) = may_be_called(&self.policy, accepted.metadata(), accepted.record().receive_count)
        else {
            return Ok(accepted);
        };
        let attempts = self.retries_made(&accepted);
        let hand_off = HandOff::unanswered(RECEIVED_AGAIN, accepted.delivery(now));
        let (stage, due_at, error_type) = (Stage::MessageProcessor, None, None);
        let failed = FailedMessage { accepted, hand_off, due_at, stage, error_type, span: None };
        Err(Box::new(failed.give_up(Some(attempts), give_up)))
    }

    pub(super) fn stays_on_queue(&self) -> bool {
        self.on_failure.strategy().definition().stays_on_queue
    }

    /// `ordered`: counts the call, if there was one, and decides.
    fn count_and_decide(
        &self,
        counter: &AttemptCounter,
        queue_times: QueueTimes,
        message: &FailedMessage,
        now: Timestamp,
    ) -> Result<VisibilitySeconds, GiveUp> {
        let record = message.accepted.record();
        let attempts = if self.spends_attempt(&message.hand_off) {
            counter.failed(record, now)
        } else {
            Attempts { made: counter.retries_made(record), since: counter.since(record, now) }
        };
        decide_in_order(&self.policy, message, attempts, queue_times, now)
    }

    /// False for a message of an ordered queue that was not called, or was held.
    fn spends_attempt(&self, hand_off: &HandOff) -> bool {
        let is_ordered = matches!(self.on_failure, OnFailure::Ordered { .. });
        !(is_ordered && matches!(hand_off.answer.kind(), Kind::NotStarted | Kind::Held))
    }
}

//! `delayed-resend`: failed messages are handed off to the intermediate DLQ, and sent again with a delay.

use futures_util::join;

use super::Definition;
use super::on_failure::{Rules, SendContext, Unsent, Wiring};
use super::queues::{NeededQueue, RECEIVES, RETENTION, Redrive, Role, SOURCE_RETENTION, ending_with};
use crate::accepted::FailedMessage;
use crate::deliver::{Outgoing, until};
use crate::events::Event;
use crate::failure::Kind;
use crate::limits::DelaySeconds;
use crate::message::{Confirmed, Timestamp};
use crate::ports::{Clock, Observer, QueueSender};

pub(super) const DEFINITION: Definition = Definition {
    name: "delayed-resend",
    summary: "It is handed off to the intermediate DLQ and sent again with a delay",
    default_policy: "{}",
    refusals: &[],
    queues,
    stays_on_queue: false,
    is_fifo: false,
};

fn queues(_: u32) -> Vec<NeededQueue> {
    let mut queues = ending_with(Role::IntermediateDlq, "intermediate-dlq", RETENTION, RECEIVES);
    queues.push(NeededQueue {
        role: Role::Source,
        name: "source",
        retention: SOURCE_RETENTION,
        // One: a message that the message-processor could not hand off is retried by the policy, not at once.
        redrive: Some(Redrive { to: Role::IntermediateDlq, receives: 1 }),
    });
    queues
}

/// The failed-message-processor gets each failed message with its reason, and decides.
#[derive(Debug)]
pub struct DelayedResend<Q> {
    /// Receives hand-offs.
    pub intermediate_dlq: Q,
}

impl<Q> Rules for DelayedResend<Q> {}

impl<Q> DelayedResend<Q> {
    pub(super) fn wired(wiring: &mut impl Wiring<Queue = Q>) -> Option<Self> {
        Some(Self { intermediate_dlq: wiring.queue(Role::IntermediateDlq)? })
    }

    pub(super) fn map<R>(self, queue: impl Fn(Q) -> R) -> DelayedResend<R> {
        DelayedResend { intermediate_dlq: queue(self.intermediate_dlq) }
    }
}

impl<Q: QueueSender> DelayedResend<Q> {
    pub(super) async fn keep<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: Unsent,
    ) -> Vec<Confirmed> {
        let Unsent { failed, given_up } = unsent;
        let now = context.outbox.now();
        let hand_offs = failed.into_iter().map(|message| self.hand_off(message, now)).collect();
        let (mut done, verdicts) = join!(
            context.outbox.send(&self.intermediate_dlq, "hand-off", hand_offs),
            context.send_verdicts(given_up),
        );
        done.extend(verdicts);
        done
    }

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
}

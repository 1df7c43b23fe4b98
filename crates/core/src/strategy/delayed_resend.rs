//! `delayed-resend`: failed messages are handed off to the intermediate DLQ and sent again with a delay.

use futures_util::join;

use super::StrategyDefinition;
use super::on_failure::{SendContext, StrategyRules, UnsentMessages, Wiring};
use super::queues::{
    NeededQueue, RECEIVES, RETENTION, RedriveEdge, Role, SOURCE_RETENTION, with_dead_letter_queues,
};
use crate::accepted::FailedMessage;
use crate::deliver::{PendingSend, time_until};
use crate::events::Event;
use crate::failure::FailureClass;
use crate::limits::DelaySeconds;
use crate::message::{Confirmed, Timestamp};
use crate::ports::{Clock, Observer, QueueSender};
use crate::redelivery::{Redelivery, Routes};

pub(super) const DEFINITION: StrategyDefinition = StrategyDefinition {
    name: "delayed-resend",
    summary: "It is handed off to the intermediate DLQ and sent again with a delay",
    default_policy: "{}",
    refusals: &[],
    queues: needed_queues,
    stays_on_queue: false,
    is_fifo: false,
};

fn needed_queues(_: u32) -> Vec<NeededQueue> {
    let mut queues = with_dead_letter_queues(Role::IntermediateDlq, "intermediate-dlq", RETENTION, RECEIVES);
    queues.push(NeededQueue {
        role: Role::Source,
        name: "source",
        retention: SOURCE_RETENTION,
        // One receive, so that a message that the message-processor could not hand off is retried with a delay, not
        // immediately.
        redrive: Some(RedriveEdge { to: Role::IntermediateDlq, receives: 1 }),
    });
    queues
}

/// Hands failed messages off to the failed-message-processor, which decides how to proceed. A message whose target was
/// not called needs no decision, and is sent directly back to the source queue.
#[derive(Debug)]
pub struct DelayedResend<Q>(pub Redelivery<Q>);

impl<Q> StrategyRules for DelayedResend<Q> {}

impl<Q> DelayedResend<Q> {
    pub(super) fn from_wiring(wiring: &mut impl Wiring<Queue = Q>) -> Option<Self> {
        Redelivery::from_wiring(wiring).map(Self)
    }

    pub(super) fn map_queues<R>(self, queue: impl Fn(Q) -> R) -> DelayedResend<R> {
        DelayedResend(self.0.map_queues(queue))
    }
}

impl<Q: QueueSender> DelayedResend<Q> {
    pub(super) async fn settle_unsent<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: UnsentMessages,
    ) -> Vec<Confirmed> {
        let UnsentMessages { failed, given_up } = unsent;
        let now = context.outbox.now();
        let (not_called, failed): (Vec<_>, Vec<_>) =
            failed.into_iter().partition(|message| message.hand_off.error.was_not_called());
        let mut routes = Routes::default();
        given_up.into_iter().for_each(|given_up| routes.add_verdict(given_up.verdict));
        for message in not_called {
            routes.route_message(context.policy, message, now);
        }
        let hand_offs = failed.into_iter().map(|message| self.hand_off(message, now)).collect();
        let (mut done, handed_off) = join!(
            self.0.send_routes(&context.outbox, context.annotation_queue, routes),
            context.outbox.send(&self.0.intermediate_dlq, "hand-off", hand_offs),
        );
        done.extend(handed_off);
        done
    }

    fn hand_off(&self, failed: FailedMessage, now: Timestamp) -> PendingSend {
        let FailedMessage { accepted, hand_off, error_type, span, .. } = failed;
        let class = hand_off.classification.known_class();
        // A message may be held a hundred times, so one event reports all holds in a batch.
        let handed_off = (class != FailureClass::Held).then(|| Event::HandedOff {
            message_id: accepted.metadata().message_id_text.clone(),
            retry_attempt: self.retries_made(&accepted),
            error_type: error_type.unwrap_or_default(),
            kind: class.as_str(),
            request_id: hand_off.delivery.request_id(),
            age_seconds: time_until(accepted.first_sent(), now).as_secs_f64(),
        });
        accepted.with_id().with_hand_off(&hand_off).pass_on(DelaySeconds::ZERO, handed_off).with_span(span)
    }
}

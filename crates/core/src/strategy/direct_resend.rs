//! `direct-resend`: the message-processor itself sends failed messages again with a delay. Messages that SQS moves
//! still go to the intermediate DLQ.

use super::on_failure::{SendContext, StrategyRules, UnsentMessages, Wiring};
use super::queues::Role;
use super::{StrategyDefinition, delayed_resend};
use crate::message::Confirmed;
use crate::ports::{Clock, Observer, QueueSender};
use crate::redelivery::{Redelivery, Routes};

pub(super) const DEFINITION: StrategyDefinition = StrategyDefinition {
    name: "direct-resend",
    summary: "It is sent again with a delay by the function that called it",
    ..delayed_resend::DEFINITION
};

impl<Q> StrategyRules for Redelivery<Q> {}

impl<Q> Redelivery<Q> {
    pub(super) fn from_wiring(wiring: &mut impl Wiring<Queue = Q>) -> Option<Self> {
        let (source_queue, intermediate_dlq) =
            (wiring.queue(Role::Source), wiring.queue(Role::IntermediateDlq));
        Some(Self { source_queue: source_queue?, intermediate_dlq: intermediate_dlq? })
    }

    pub(super) fn map_queues<R>(self, queue: impl Fn(Q) -> R) -> Redelivery<R> {
        Redelivery { source_queue: queue(self.source_queue), intermediate_dlq: queue(self.intermediate_dlq) }
    }
}

impl<Q: QueueSender> Redelivery<Q> {
    /// Decides according to the same rules as the failed-message-processor.
    pub(super) async fn settle_unsent<C: Clock, O: Observer>(
        &self,
        context: &SendContext<'_, Q, C, O>,
        unsent: UnsentMessages,
    ) -> Vec<Confirmed> {
        let UnsentMessages { failed, given_up } = unsent;
        let mut routes = Routes::default();
        given_up.into_iter().for_each(|given_up| routes.add_verdict(given_up.verdict));
        let now = context.outbox.now();
        for message in failed {
            routes.route_message(context.policy, message, now);
        }
        self.send_routes(&context.outbox, context.annotation_queue, routes).await
    }
}

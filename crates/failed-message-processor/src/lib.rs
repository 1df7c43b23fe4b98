//! The failed-message-processor: open → accept → decide → re-send with a delay, hop, or give up → confirm.

mod on_aws;

use redeliver_core::accepted::{AcceptedMessage, FailedMessage};
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::next_hop;
use redeliver_core::deliver::{Outbox, time_until};
use redeliver_core::events::Event;
use redeliver_core::failure::{HandOff, HandedOffFailure, Stage};
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, FlushOnDrop, Function, Observer, QueueSender};
use redeliver_core::redelivery::{Redelivery, Routes};
use redeliver_core::trace::messaging::ProcessSpan;
use redeliver_core::trace::{Span, TraceContext, Tracer};

pub use on_aws::{NAME, run};

/// The highest normal receive count. A message moved by SQS already has one receive from the source queue (a redrive
/// does not reset the count), and a throttle or a slow start adds one or two. From the fourth receive on, something
/// keeps failing.
const RECEIVES_EXPECTED: u32 = 3;

/// The failed-message-processor with its dependencies.
#[derive(Debug)]
pub struct FailedMessageProcessor<Q, C, O> {
    /// The queues for re-sends and hops. The intermediate DLQ is also the queue that it consumes.
    pub redelivery: Redelivery<Q>,
    pub annotation_queue: Q,
    pub clock: C,
    pub observer: O,
    /// The schema of valid messages. An invalid message is never re-sent.
    pub schema: MessageSchema,
    /// The policy for retries and for giving up.
    pub policy: Policy,
    /// The roles that re-send messages to the source queue.
    pub resenders: Resenders,
}

impl<Q: QueueSender, C: Clock, O: Observer> Function for FailedMessageProcessor<Q, C, O> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let _flush_guard = FlushOnDrop(&self.observer);
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let mut routes = Routes::default();
        let now = self.clock.now();
        for record in records {
            self.route_record(record, &mut routes, now);
        }
        self.redelivery.send_routes(&outbox, &self.annotation_queue, routes).await
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.observer.tracer()
    }
}

impl<Q, C, O: Observer> FailedMessageProcessor<Q, C, O> {
    fn route_record(&self, record: ReceivedMessage, routes: &mut Routes, now: Timestamp) {
        let mut arrival = Arrival::from_record(record, now).resolve_origin(&self.resenders);
        self.report_arrival(&arrival.record, now);
        let HandedOffFailure { hand_off, due_at } = arrival.take_hand_off(now);
        // Hops skip body validation: the body was valid at the first hop, and a message hops up to 48 times.
        if let Some(due_at) = next_hop(&self.policy, &hand_off, due_at, now) {
            return routes.add_hop(arrival.into_hop(hand_off, due_at));
        }
        let stage = Stage::FailedMessageProcessor;
        match arrival.accept(&self.schema, Some(&hand_off.delivery)) {
            Ok(accepted) => {
                let span = self.decision_span(&accepted, &hand_off, now);
                let context = span.as_ref().map(|span| span.context);
                // If SQS moved the message, its error is unknown; the message-processor has reported all other errors.
                let failed =
                    FailedMessage { accepted, hand_off, due_at, stage, error_type: None, span: context };
                let decision = routes.route_message(&self.policy, failed, now);
                if let Some((tracer, mut span)) = self.observer.tracer().zip(span) {
                    span.attributes.push(("redeliver.decision", decision.into()));
                    tracer.record_span(span);
                }
            }
            Err(refused) => routes.add_verdict(refused.give_up(stage, Some(hand_off), now)),
        }
    }

    /// Returns the span of the decision, as part of the failed attempt. If SQS moved the message, that attempt is
    /// unknown, so the span starts a new one. A message without a call gets no span.
    fn decision_span(
        &self,
        accepted: &AcceptedMessage,
        hand_off: &HandOff,
        now: Timestamp,
    ) -> Option<Span<'static>> {
        let tracer = self.observer.tracer()?;
        let record = accepted.record();
        let (context, parent, links) = match (hand_off.was_called(), hand_off.delivery.last_attempt) {
            (Some(true), Some(attempt)) => (tracer.child_span(attempt), Some(attempt), Vec::new()),
            (None, last) => {
                let metadata = accepted.metadata();
                let producer = TraceContext::from_message(&accepted.message(metadata.retry_attempt), record);
                let new_attempt = tracer.begin_attempt(producer, last.or(metadata.last_attempt), now);
                (new_attempt.context.span, new_attempt.parent, new_attempt.links())
            }
            _ => return None,
        };
        let message_id = Some(accepted.metadata().message_id_text.as_str());
        let process = ProcessSpan { record, message_id, parent, links, start: now, end: now };
        Some(process.into_span(context).into_owned())
    }

    fn report_arrival(&self, record: &ReceivedMessage, now: Timestamp) {
        let sqs_message_id = record.sqs_message_id.clone();
        let receive_count = record.receive_count;
        if receive_count > RECEIVES_EXPECTED {
            let age_seconds = time_until(record.sent_at, now).as_secs_f64();
            let sqs_message_id = sqs_message_id.clone();
            self.observer.observe(&Event::ReceivedAgain { sqs_message_id, receive_count, age_seconds });
        }
        if record.redriven_from.is_some() {
            self.observer.observe(&Event::ArrivedByRedrive { sqs_message_id, receive_count });
        }
    }
}

#[cfg(test)]
mod tests;

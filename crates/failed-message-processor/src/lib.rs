//! The failed-message processor: open → decide → re-send with a delay, hop, or give up → report.

mod on_aws;

use futures_util::join;
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::hops_on;
use redeliver_core::deliver::{Outbox, until};
use redeliver_core::events::Event;
use redeliver_core::failure::Stage;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{BatchResponse, Clock, FlushOnDrop, Function, Observer, QueueDepth, QueueSender};
use redeliver_core::redelivery::{FailedMessage, Redelivery, Routes};

pub use on_aws::{NAME, run};

/// Receives that say nothing yet. A message that SQS moved brings the one of the source queue along (a redrive does not
/// reset the count), and a throttle or a slow start makes one or two more here; from the fourth on something keeps
/// failing.
const RECEIVES_EXPECTED: u32 = 3;

/// The failed-message processor and all that it needs of the world.
#[derive(Debug)]
pub struct FailedMessageProcessor<Q, C, O> {
    /// Where messages are sent again; the intermediate DLQ is its own queue.
    pub redelivery: Redelivery<Q>,
    pub annotation_queue: Q,
    pub clock: C,
    pub observer: O,
    /// Which bodies are messages: an invalid one is never sent again.
    pub schema: MessageSchema,
    /// When a message comes back, and when it is given up.
    pub policy: Policy,
    /// Who sends messages to the source queue again.
    pub resenders: Resenders,
}

impl<Q: QueueSender + QueueDepth, C: Clock, O: Observer> Function for FailedMessageProcessor<Q, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        let _told_at_the_end = FlushOnDrop(&self.observer);
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let mut routes = self.redelivery.begin(&self.policy, &self.clock, &self.observer, deadline).await;
        let now = self.clock.now();
        for record in records {
            self.route(record, &mut routes, now);
        }
        let verdicts = std::mem::take(&mut routes.verdicts);
        let (sent_again, verdicts) = join!(
            self.redelivery.send(&outbox, routes),
            outbox.send(&self.annotation_queue, "verdict", verdicts),
        );
        BatchResponse { failed: [sent_again, verdicts].concat() }
    }
}

impl<Q, C, O: Observer> FailedMessageProcessor<Q, C, O> {
    fn route(&self, record: ReceivedMessage, routes: &mut Routes, now: Timestamp) {
        let mut arrival = Arrival::open(record, now).sent_by_one_of(&self.resenders);
        self.report_arrival(&arrival.record, now);
        let (hand_off, due_at) = arrival.take_hand_off(now);
        let hops_on = hops_on(&self.policy, &hand_off, due_at, now);
        let stage = Stage::FailedMessageProcessor;
        // Of what SQS moved nobody knows the error; of all else the message-processor knew it.
        let failed = FailedMessage { arrival, hand_off, due_at, stage, error_type: None };
        match hops_on {
            // Before the body is looked at: it was valid when it hopped first, and a message hops up to 48 times.
            Some(due_at) => routes.hop(failed, due_at),
            None => routes.add(&self.policy, &self.schema, failed, now),
        }
    }

    fn report_arrival(&self, record: &ReceivedMessage, now: Timestamp) {
        let sqs_message_id = record.sqs_message_id.clone();
        let receive_count = record.receive_count;
        if receive_count > RECEIVES_EXPECTED {
            let age_seconds = until(record.sent_at, now).as_secs_f64();
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

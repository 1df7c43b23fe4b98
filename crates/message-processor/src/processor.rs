//! The message processor: parse → call the target → hand off what failed → report.

mod calls;

use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::join;
use redeliver_core::attributes::{Arrived, arrived};
use redeliver_core::delivery::{Outgoing, Reporter, keep_free, until};
use redeliver_core::events::{Event, GivenUp, HandedOff, NotConfirmed, Processed};
use redeliver_core::failure::{Delivery, Failure, Kind, Stage};
use redeliver_core::handler::{Handler, Message};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Attributes, Content, ReceivedMessage, Timestamp};
use redeliver_core::ports::{BatchResponse, Clock, Function, Observer, QueueSender};
use redeliver_core::schema::{Invalid, MessageSchema};

use calls::{Call, Outcome, call_all};

/// Kept free at the end of an invocation, for the hand-offs and the answer.
const HAND_OFF_RESERVE: Duration = Duration::from_secs(5);

/// The message processor and all that it needs of the world.
#[derive(Debug)]
pub struct MessageProcessor<H, Q, C, O> {
    /// The target.
    pub handler: H,
    /// Where failed messages are handed off.
    pub intermediate_dlq: Q,
    /// Where verdicts on invalid messages go.
    pub annotation_queue: Q,
    /// The clock.
    pub clock: C,
    /// Logs and metrics.
    pub observer: O,
    /// Which bodies are messages.
    pub schema: MessageSchema,
    /// Calls to the target at the same time, within one batch.
    pub max_concurrency: NonZeroUsize,
}

impl<H: Handler, Q: QueueSender, C: Clock, O: Observer> Function for MessageProcessor<H, Q, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        let now = self.clock.now();
        let mut jobs = Vec::with_capacity(records.len());
        let mut verdicts = Vec::new();
        for record in records {
            match self.parse(record, now) {
                Ok(job) => jobs.push(job),
                Err(verdict) => verdicts.push(*verdict),
            }
        }
        let calls_end = keep_free(HAND_OFF_RESERVE, now, deadline);
        let outcomes = call_all(&self.handler, &self.clock, calls_end, self.max_concurrency, &jobs).await;

        let mut failed = Vec::new();
        let mut hand_offs = Vec::new();
        for (job, Call { outcome, seconds }) in jobs.into_iter().zip(outcomes) {
            match self.settle(job, &outcome, seconds) {
                Settled::Done => {}
                Settled::HandOff(outgoing) => hand_offs.push(*outgoing),
                Settled::NoPlaceForFailure { record } => failed.push(record),
            }
        }
        let reporter = Reporter::new(&self.clock, &self.observer, deadline);
        let (hand_offs, verdicts) = join!(
            reporter.send(&self.intermediate_dlq, "hand-off", hand_offs),
            reporter.send(&self.annotation_queue, "verdict", verdicts),
        );
        failed.extend(hand_offs.into_iter().chain(verdicts));
        BatchResponse { failed }
    }
}

/// A valid message and what its answer needs of the record.
#[derive(Debug)]
struct Job {
    message: Message,
    delivery: Delivery,
    first_sent: Timestamp,
    message_group_id: Option<String>,
    trace_header: Option<String>,
}

/// What became of a job once its call is over.
enum Settled {
    Done,
    HandOff(Box<Outgoing>),
    /// Ten attributes, or 1 MiB: SQS's redrive takes the message, without the reason.
    NoPlaceForFailure {
        record: String,
    },
}

impl<H: Handler, Q: QueueSender, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    fn parse(&self, record: ReceivedMessage, now: Timestamp) -> Result<Job, Box<Outgoing>> {
        let Arrived { producer, came_back, .. } = arrived(record.attributes);
        let delivery = Delivery {
            failed_at: now,
            source_message_id: record.sqs_message_id,
            source_queue_arn: record.queue_arn,
            sent_at: record.sent_at,
            came_back,
        };
        match self.schema.parse(&record.body) {
            Ok(envelope) => {
                let metadata = envelope.metadata;
                let metadata = if came_back { metadata.into_next_generation() } else { metadata };
                let first_sent = metadata.first_sent(record.sent_at);
                let message = Message {
                    retry_attempt: metadata.retry_attempt,
                    redrive_generation: metadata.generation(),
                    message_id: metadata.message_id_text,
                    attributes: producer,
                    body: record.body,
                };
                let (message_group_id, trace_header) = (record.message_group_id, record.trace_header);
                Ok(Job { message, delivery, first_sent, message_group_id, trace_header })
            }
            Err(invalid) => {
                let attributes = verdict(&invalid, &delivery, &producer, record.body.len());
                let given_up = Event::GivenUp(GivenUp {
                    message_id: None,
                    sqs_message_id: delivery.source_message_id.clone(),
                    error_type: invalid.reason().as_str(),
                });
                let content = Content {
                    body: record.body,
                    attributes,
                    message_group_id: record.message_group_id,
                    trace_header: record.trace_header,
                    delay: DelaySeconds::ZERO,
                };
                Err(Box::new(Outgoing::new(delivery.source_message_id, content, given_up)))
            }
        }
    }

    fn settle(&self, job: Job, outcome: &Outcome, target_seconds: f64) -> Settled {
        let now = self.clock.now();
        let delivery = Delivery { failed_at: now, ..job.delivery };
        let message_id = job.message.message_id;
        let retry_attempt = job.message.retry_attempt;
        let age_seconds = until(job.first_sent, now).as_secs_f64();
        let (failure, error_type) = match outcome {
            Outcome::Success => {
                let processed = Processed { message_id, retry_attempt, age_seconds, target_seconds };
                self.observer.observe(&Event::Processed(processed));
                return Settled::Done;
            }
            Outcome::Failure(error) => {
                (Failure::of_handler(error, &delivery), error.error_type.loggable().into_owned())
            }
            Outcome::NotStarted => (Failure::not_started(&delivery), "NotStarted".to_owned()),
        };
        let record = delivery.source_message_id;
        let Some(attributes) = failure.beside(&job.message.attributes, job.message.body.len()) else {
            self.observer.observe(&Event::NotConfirmed(NotConfirmed {
                sqs_message_id: record.clone(),
                send: "hand-off",
                code: "NoPlaceForFailure".to_owned(),
            }));
            return Settled::NoPlaceForFailure { record };
        };
        let kind = failure.kind.unwrap_or(Kind::Transient).as_str();
        let handed_off = HandedOff { message_id, retry_attempt, error_type, kind, age_seconds };
        let content = Content {
            body: job.message.body,
            attributes,
            message_group_id: job.message_group_id,
            trace_header: job.trace_header,
            delay: DelaySeconds::ZERO,
        };
        Settled::HandOff(Box::new(Outgoing::new(record, content, Event::HandedOff(handed_off))))
    }
}

fn verdict(invalid: &Invalid, delivery: &Delivery, producer: &Attributes, body_bytes: usize) -> Attributes {
    let failure = Failure {
        error_type: invalid.reason().as_str().to_owned(),
        details: invalid.to_string(),
        verdict: Some(invalid.reason()),
        stage: Some(Stage::MessageProcessor),
        ..Failure::of_delivery(delivery)
    };
    failure.beside_folding(producer, body_bytes)
}

#[cfg(test)]
mod tests;

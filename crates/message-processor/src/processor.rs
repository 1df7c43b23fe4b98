//! The message processor: parse → call the target → hand off what failed, or hide it on its queue → report.

mod calls;
mod settle;

use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::join;
use redeliver_core::attributes::{Arrived, arrived};
use redeliver_core::decision::{HidingQueue, may_be_called};
use redeliver_core::delivery::{Outgoing, Reporter, keep_free};
use redeliver_core::events::{Event, GivenUp};
use redeliver_core::failure::{Delivery, Failure, Stage};
use redeliver_core::handler::{Handler, Message};
use redeliver_core::limits::DelaySeconds;
use redeliver_core::message::{Attributes, Content, ReceivedMessage, Timestamp};
use redeliver_core::metadata::Metadata;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{BatchResponse, Clock, Function, Observer, QueueSender, VisibilityControl};
use redeliver_core::schema::{Invalid, MessageSchema};

use calls::Call;
use settle::{Settled, verdict};

/// Kept free at the end of an invocation, for the hand-offs and the answer.
const HAND_OFF_RESERVE: Duration = Duration::from_secs(5);

/// The message processor and all that it needs of the world.
#[derive(Debug)]
pub struct MessageProcessor<H, Q, C, O> {
    /// The target.
    pub handler: H,
    /// What becomes of a message that failed.
    pub strategy: Strategy<Q>,
    /// Its `immediate`, and all of it with [`Strategy::Visibility`].
    pub policy: Policy,
    /// Where verdicts go.
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

/// What becomes of a message that failed.
#[derive(Clone, Debug)]
pub enum Strategy<Q> {
    /// It is handed off to the failed-message processor, which sends it again with a delay.
    DelayedResend {
        /// Where it is handed off.
        intermediate_dlq: Q,
    },
    /// It stays on its queue, hidden for the policy's delay. The queue counts its retries.
    Visibility {
        /// Its queue.
        source_queue: Q,
        /// What must be known of it.
        settings: HidingQueue,
    },
}

impl<H: Handler, Q: QueueSender + VisibilityControl, C: Clock, O: Observer> Function
    for MessageProcessor<H, Q, C, O>
{
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
        let outcomes = self.call_all(calls_end, &jobs).await;

        let mut done = Vec::new();
        let mut failed = Vec::new();
        let mut hand_offs = Vec::new();
        let mut hidings = Vec::new();
        for (job, Call { outcome, seconds }) in jobs.into_iter().zip(outcomes) {
            match self.settle(job, &outcome, seconds) {
                Settled::Done(processed) => done.push(processed),
                Settled::HandOff(outgoing) => hand_offs.push(*outgoing),
                Settled::Verdict(outgoing) => verdicts.push(*outgoing),
                Settled::Hide(hiding) => hidings.push(*hiding),
                Settled::NoPlaceForFailure { record } => failed.push(record),
            }
        }
        self.observer.observe_all(&done);
        let reporter = Reporter::new(&self.clock, &self.observer, deadline);
        let kept = async {
            match &self.strategy {
                Strategy::DelayedResend { intermediate_dlq } => {
                    reporter.send(intermediate_dlq, "hand-off", hand_offs).await
                }
                Strategy::Visibility { source_queue, .. } => reporter.hide(source_queue, hidings).await,
            }
        };
        let (kept, verdicts) = join!(kept, reporter.send(&self.annotation_queue, "verdict", verdicts));
        failed.extend(kept.into_iter().chain(verdicts));
        BatchResponse { failed }
    }
}

/// A valid message and what its answer needs of the record.
#[derive(Debug)]
struct Job {
    message: Message,
    metadata: Metadata,
    delivery: Delivery,
    /// Where it came back: by its final record.
    generation_before: Option<u32>,
    first_sent: Timestamp,
    receipt_handle: String,
    receive_count: u32,
    message_group_id: Option<String>,
    trace_header: Option<String>,
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// The body says how many, or the queue does.
    fn retries_made(&self, metadata: &Metadata, receive_count: u32) -> u32 {
        match self.strategy {
            Strategy::DelayedResend { .. } => metadata.retry_attempt,
            Strategy::Visibility { .. } => receive_count.saturating_sub(1),
        }
    }

    /// Where the queue counts the attempts, it also counts those for which nobody answered.
    fn check_receives(&self, job: Job) -> Result<Job, Box<Outgoing>> {
        if matches!(self.strategy, Strategy::DelayedResend { .. }) {
            return Ok(job);
        }
        match may_be_called(&self.policy, &job.metadata, job.receive_count) {
            Ok(()) => Ok(job),
            Err(give_up) => {
                let failure = Failure::unanswered(&job.delivery).after_generation(job.generation_before);
                Err(verdict(failure, job, give_up))
            }
        }
    }

    fn parse(&self, record: ReceivedMessage, now: Timestamp) -> Result<Job, Box<Outgoing>> {
        let Arrived { producer, came_back, generation_told: told, .. } = arrived(record.attributes);
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
                let metadata = if came_back { metadata.into_next_generation(told) } else { metadata };
                let message = Message {
                    retry_attempt: self.retries_made(&metadata, record.receive_count),
                    redrive_generation: metadata.generation(),
                    message_id: metadata.message_id_text.clone(),
                    attributes: producer,
                    body: record.body,
                };
                let job = Job {
                    message,
                    delivery,
                    generation_before: told,
                    first_sent: metadata.first_sent(record.sent_at),
                    metadata,
                    receipt_handle: record.receipt_handle,
                    receive_count: record.receive_count,
                    message_group_id: record.message_group_id,
                    trace_header: record.trace_header,
                };
                self.check_receives(job)
            }
            Err(invalid) => {
                let failure = Failure::of_delivery(&delivery).after_generation(told);
                let attributes = invalid_verdict(&invalid, failure, &producer, record.body.len());
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
}

fn invalid_verdict(
    invalid: &Invalid,
    failure: Failure,
    producer: &Attributes,
    body_bytes: usize,
) -> Attributes {
    let failure = Failure {
        error_type: invalid.reason().as_str().to_owned(),
        details: invalid.to_string(),
        verdict: Some(invalid.reason()),
        stage: Some(Stage::MessageProcessor),
        ..failure
    };
    failure.beside_folding(producer, body_bytes)
}

#[cfg(test)]
mod tests;

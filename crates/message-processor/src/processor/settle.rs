//! What becomes of a message once its call is over.

use redeliver_core::decision::{GiveUp, HidingQueue, Stayed, decide_on_queue};
use redeliver_core::delivery::{Hiding, Outgoing, until};
use redeliver_core::events::{Event, GivenUp, HandedOff, NotConfirmed, Processed, RetryScheduled};
use redeliver_core::failure::{Delivery, Failure, Kind, Stage};
use redeliver_core::limits::{DelaySeconds, RetryDelay};
use redeliver_core::message::{Attributes, Content, Timestamp};
use redeliver_core::ports::{Clock, Observer};

use super::calls::Outcome;
use super::{Job, MessageProcessor, Strategy};

/// What is to be done with a record.
pub(super) enum Settled {
    Done(Event),
    HandOff(Box<Outgoing>),
    Hide(Box<Hiding>),
    Verdict(Box<Outgoing>),
    /// Ten attributes, or 1 MiB: SQS's redrive takes the message, without the reason.
    NoPlaceForFailure {
        record: String,
    },
}

impl<H, Q, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    pub(super) fn settle(&self, mut job: Job, outcome: &Outcome, target_seconds: f64) -> Settled {
        let now = self.clock.now();
        job.delivery.failed_at = now;
        let (failure, error_type) = match outcome {
            Outcome::Success => {
                let age_seconds = until(job.first_sent, now).as_secs_f64();
                let retry_attempt = job.message.retry_attempt;
                let message_id = job.message.message_id;
                let processed = Processed { message_id, retry_attempt, age_seconds, target_seconds };
                return Settled::Done(Event::Processed(processed));
            }
            Outcome::Failure(error) => {
                (Failure::of_handler(error, &job.delivery), error.error_type.loggable().into_owned())
            }
            Outcome::NotStarted => (Failure::not_started(&job.delivery), "NotStarted".to_owned()),
        };
        let failure = failure.after_generation(job.generation_before);
        match self.strategy {
            Strategy::DelayedResend { .. } => self.hand_off(job, &failure, error_type, now),
            Strategy::Visibility { settings, .. } => self.hide(job, failure, error_type, settings, now),
        }
    }

    fn hand_off(&self, job: Job, failure: &Failure, error_type: String, now: Timestamp) -> Settled {
        let record = job.delivery.source_message_id.clone();
        let Some(attributes) = failure.beside(&job.message.attributes, job.message.body.len()) else {
            self.observer.observe(&Event::NotConfirmed(NotConfirmed {
                sqs_message_id: record.clone(),
                send: "hand-off",
                code: "NoPlaceForFailure".to_owned(),
            }));
            return Settled::NoPlaceForFailure { record };
        };
        let handed_off = Event::HandedOff(HandedOff {
            message_id: job.message.message_id.clone(),
            retry_attempt: job.message.retry_attempt,
            error_type,
            kind: failure.kind.unwrap_or(Kind::Transient).as_str(),
            age_seconds: until(job.first_sent, now).as_secs_f64(),
        });
        Settled::HandOff(job.into_outgoing(attributes, handed_off))
    }

    fn hide(
        &self,
        job: Job,
        failure: Failure,
        error_type: String,
        queue: HidingQueue,
        now: Timestamp,
    ) -> Settled {
        let stayed = Stayed {
            metadata: &job.metadata,
            failure: &failure,
            receive_count: job.receive_count,
            first_sent: job.first_sent,
            queue,
            sent_at: job.delivery.sent_at,
        };
        match decide_on_queue(&self.policy, stayed, now) {
            Ok(visibility) => {
                let scheduled = Event::RetryScheduled(RetryScheduled {
                    message_id: job.message.message_id,
                    retry_attempt: job.receive_count,
                    // The queue counts every receive.
                    spends_attempt: true,
                    delay_seconds: RetryDelay::saturating(visibility.get().into()),
                    age_seconds: until(job.first_sent, now).as_secs_f64(),
                    error_type: Some(error_type),
                });
                let Delivery { source_message_id: record, .. } = job.delivery;
                let receipt_handle = job.receipt_handle;
                Settled::Hide(Box::new(Hiding { record, receipt_handle, visibility, confirmed: scheduled }))
            }
            Err(give_up) => Settled::Verdict(verdict(failure, job, give_up)),
        }
    }
}

/// The message, given up with its last failure.
pub(super) fn verdict(failure: Failure, job: Job, GiveUp { reason, explanation }: GiveUp) -> Box<Outgoing> {
    let failure = Failure {
        verdict: Some(reason),
        stage: Some(Stage::MessageProcessor),
        explanation,
        attempts: Some(job.message.retry_attempt),
        ..failure
    };
    let given_up = Event::GivenUp(GivenUp {
        message_id: Some(job.message.message_id.clone()),
        sqs_message_id: job.delivery.source_message_id.clone(),
        error_type: reason.as_str(),
    });
    let attributes = failure.beside_folding(&job.message.attributes, job.message.body.len());
    job.into_outgoing(attributes, given_up)
}

impl Job {
    /// The message with these attributes, to another queue.
    fn into_outgoing(self, attributes: Attributes, confirmed: Event) -> Box<Outgoing> {
        let content = Content {
            body: self.message.body,
            attributes,
            message_group_id: self.message_group_id,
            trace_header: self.trace_header,
            delay: DelaySeconds::ZERO,
        };
        Box::new(Outgoing::new(self.delivery.source_message_id, content, confirmed))
    }
}

//! What becomes of a message once its call is over.

use redeliver_core::decision::{QueueTimes, Stayed, decide_on_queue};
use redeliver_core::delivery::{Hiding, Outgoing, until};
use redeliver_core::events::{Event, HandedOff, NotConfirmed, Processed, RetryScheduled};
use redeliver_core::failure::{CIRCUIT_OPEN, HandOff, Kind, Stage};
use redeliver_core::handler::Message;
use redeliver_core::limits::{DelaySeconds, RetryDelay};
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::plain::Plain;
use redeliver_core::ports::{Clock, Observer};
use redeliver_core::redelivery::FailedMessage;

use super::calls::Outcome;
use super::{Accepted, MessageProcessor, OnFailure};

/// What is to be done with a record.
pub(super) enum NextStep {
    Done(Event),
    HandOff(Box<Outgoing>),
    SendAgain(Box<FailedMessage>),
    Hide(Box<Hiding>),
    Verdict(Box<Outgoing>),
    /// Ten attributes, or 1 MiB: SQS's redrive takes the message, without the reason.
    NoPlaceForFailure {
        record: String,
    },
}

impl<H, Q, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    pub(super) fn next_step(&self, accepted: Accepted, outcome: &Outcome, target_seconds: f64) -> NextStep {
        let now = self.clock.now();
        let (hand_off, error_type) = match outcome {
            Outcome::Success => {
                let age_seconds = until(accepted.first_sent(), now).as_secs_f64();
                let Message { message_id, retry_attempt, .. } = accepted.message;
                let processed = Processed { message_id, retry_attempt, age_seconds, target_seconds };
                return NextStep::Done(Event::Processed(processed));
            }
            Outcome::Failure(error) => (
                HandOff::of_handler(error, accepted.arrival.delivery(now)),
                error.error_type.loggable().into_owned(),
            ),
            Outcome::Held { since, probed: None } => {
                (HandOff::held(*since, accepted.arrival.delivery(now)), CIRCUIT_OPEN.to_owned())
            }
            Outcome::Held { probed: Some(error), .. } => (
                HandOff::probed(error, accepted.arrival.delivery(now)),
                error.error_type.loggable().into_owned(),
            ),
            Outcome::NotStarted => {
                (HandOff::not_started(accepted.arrival.delivery(now)), "NotStarted".to_owned())
            }
        };
        match self.on_failure {
            OnFailure::DelayedResend { .. } => self.hand_off(accepted, &hand_off, error_type, now),
            OnFailure::DirectResend(_) => {
                // Its re-send says its id.
                let (_, arrival) = accepted.into_arrival(|_| None);
                let (stage, error_type) = (Stage::MessageProcessor, Some(error_type));
                let failed = FailedMessage { arrival, hand_off, due_at: None, stage, error_type };
                NextStep::SendAgain(Box::new(failed))
            }
            OnFailure::Visibility { queue_times, .. } => {
                self.hide(accepted, hand_off, error_type, queue_times, now)
            }
        }
    }

    fn hand_off(
        &self,
        accepted: Accepted,
        hand_off: &HandOff,
        error_type: String,
        now: Timestamp,
    ) -> NextStep {
        let age_seconds = until(accepted.first_sent(), now).as_secs_f64();
        let retry_attempt = accepted.message.retry_attempt;
        let (message_id, arrival) = accepted.into_arrival(Plain::named);
        // A hand-off folds nothing: what says that it does is forged. So ten attributes leave it no place.
        let Some(attributes) = hand_off.attached(&arrival.record.attributes, arrival.record.body.len())
        else {
            let record = arrival.record.sqs_message_id;
            self.observer.observe(&Event::NotConfirmed(NotConfirmed {
                sqs_message_id: record.clone(),
                send: "hand-off",
                code: "NoPlaceForFailure".to_owned(),
            }));
            return NextStep::NoPlaceForFailure { record };
        };
        let kind = hand_off.answer.kind();
        // A message may be held a hundred times: one line a batch tells of it.
        let handed_off = (kind != Kind::Held).then(|| {
            let kind = kind.as_str();
            Event::HandedOff(HandedOff { message_id, retry_attempt, error_type, kind, age_seconds })
        });
        let outgoing = arrival.with_attributes(attributes).pass_on(DelaySeconds::ZERO, handed_off);
        NextStep::HandOff(Box::new(outgoing))
    }

    fn hide(
        &self,
        accepted: Accepted,
        hand_off: HandOff,
        error_type: String,
        queue_times: QueueTimes,
        now: Timestamp,
    ) -> NextStep {
        let first_sent = accepted.first_sent();
        let receive_count = accepted.arrival.record.receive_count;
        let stayed = Stayed {
            metadata: &accepted.metadata,
            hand_off: &hand_off,
            receive_count,
            first_sent,
            queue_times,
        };
        // Decided here, since nobody else sees a message that stays on its queue.
        match decide_on_queue(&self.policy, stayed, now) {
            Ok(visibility) => {
                let scheduled = Event::RetryScheduled(RetryScheduled {
                    message_id: accepted.message.message_id,
                    retry_attempt: receive_count,
                    // The queue counts every receive.
                    spends_attempt: true,
                    delay_seconds: RetryDelay::saturating(visibility.get().into()),
                    age_seconds: until(first_sent, now).as_secs_f64(),
                    error_type: Some(error_type),
                });
                let ReceivedMessage { sqs_message_id: record, receipt_handle, .. } = accepted.arrival.record;
                NextStep::Hide(Box::new(Hiding { record, receipt_handle, visibility, confirmed: scheduled }))
            }
            Err(give_up) => NextStep::Verdict(accepted.give_up(hand_off, give_up)),
        }
    }
}

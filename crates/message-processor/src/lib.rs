//! The message processor as a library: write a [`Handler`] and hand it to [`run`], and failed messages are retried by your
//! policy and explained in the final DLQ.
//!
//! ```no_run
//! use redeliver_message_processor::{Handler, HandlerError, Message, run};
//!
//! struct Charge;
//!
//! impl Handler for Charge {
//!     async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
//!         println!("charging for {}", message.message_id);
//!         Ok(())
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::process::ExitCode {
//!     run(Charge).await
//! }
//! ```

#![warn(missing_docs)] // a library for those who write a handler

mod breaker;
mod calls;
mod next_step;
mod on_aws;

use std::mem;
use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::join;
use redeliver_core::arrival::Arrival;
use redeliver_core::decision::{GiveUp, QueueTimes, may_be_called};
use redeliver_core::delivery::{Outbox, Outgoing, keep_free};
use redeliver_core::failure::{Failure, HandOff, Stage, in_its_generation};
use redeliver_core::message::{Attributes, ReceivedMessage, Timestamp};
use redeliver_core::metadata::Metadata;
use redeliver_core::plain::Plain;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{
    BatchResponse, Clock, FlushOnDrop, Function, Observer, QueueDepth, QueueSender, VisibilityControl,
};
use redeliver_core::redelivery::{FailedMessage, Redelivery, Routes};
use redeliver_core::schema::{MessageSchema, Parsed};

use calls::Call;
use next_step::NextStep;

pub use breaker::SharedBreaker;
pub use on_aws::{NAME, run, run_with_target};
pub use redeliver_core::handler::{ErrorType, FailureKind, Form, Handler, HandlerError, Message};

/// Kept free at the end of an invocation, for the sends and the answer.
const SEND_RESERVE: Duration = Duration::from_secs(5);

/// With [`OnFailure::Visibility`]: what is known if the receive before this one was not answered for.
const GIVEN_ONCE_MORE: &str = "SQS gave the message once more: the function crashed, timed out, ran out of memory or was throttled, and nobody knows what became of the call";

/// The message processor and all that it needs of the world: parse → call the target → hand off what failed, send it
/// again or hide it on its queue → report.
#[derive(Debug)]
pub struct MessageProcessor<H, Q, C, O> {
    /// The target.
    pub handler: H,
    /// What becomes of a message that failed.
    pub on_failure: OnFailure<Q>,
    /// Its `immediate`, `circuit_breaker` and lists, and all of it unless failed messages are handed off.
    pub policy: Policy,
    /// Whether the target is called at all: the policy's `circuit_breaker`.
    pub breaker: SharedBreaker,
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
#[derive(Debug)]
pub enum OnFailure<Q> {
    /// It is handed off to the failed-message processor, which sends it again with a delay.
    DelayedResend {
        /// Where it is handed off.
        intermediate_dlq: Q,
    },
    /// It is sent again with a delay by this function. What SQS moves still comes to the failed-message processor.
    DirectResend(Redelivery<Q>),
    /// It stays on its queue, hidden for the policy's delay. The queue counts its retries.
    Visibility {
        /// Its queue.
        source_queue: Q,
        /// What must be known of it.
        queue_times: QueueTimes,
    },
}

impl<H: Handler, Q: QueueSender + QueueDepth + VisibilityControl, C: Clock, O: Observer> Function
    for MessageProcessor<H, Q, C, O>
{
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        let _told_at_the_end = FlushOnDrop(&self.observer);
        let now = self.clock.now();
        let mut accepted = Vec::with_capacity(records.len());
        let mut verdicts = Vec::new();
        for record in records {
            match self.accept(record, now) {
                Ok(message) => accepted.push(message),
                Err(verdict) => verdicts.push(*verdict),
            }
        }
        // Fixed before the calls begin: a target that hangs must leave the time in which its messages are sent on.
        let calls_end = keep_free(SEND_RESERVE, now, deadline);
        self.learn(&accepted, now);
        let calls = self.call_all(calls_end, &accepted).await;

        let mut done = Vec::from_iter(self.held(&calls));
        let mut failed = Vec::new();
        let mut hand_offs = Vec::new();
        let mut again = Vec::new();
        let mut hidings = Vec::new();
        for (message, Call { outcome, seconds }) in accepted.into_iter().zip(calls) {
            match self.next_step(message, &outcome, seconds) {
                NextStep::Done(processed) => done.push(processed),
                NextStep::HandOff(outgoing) => hand_offs.push(*outgoing),
                NextStep::SendAgain(failed) => again.push(*failed),
                NextStep::Verdict(outgoing) => verdicts.push(*outgoing),
                NextStep::Hide(hiding) => hidings.push(*hiding),
                NextStep::NoPlaceForFailure { record } => failed.push(record),
            }
        }
        // Before the sends: these are done whatever becomes of the others.
        self.observer.observe_all(&done);
        let mut routes = self.routes(again, deadline).await;
        verdicts.append(&mut routes.verdicts);
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let kept = async {
            match &self.on_failure {
                OnFailure::DelayedResend { intermediate_dlq } => {
                    outbox.send(intermediate_dlq, "hand-off", hand_offs).await
                }
                OnFailure::DirectResend(redelivery) => redelivery.send(&outbox, routes).await,
                OnFailure::Visibility { source_queue, .. } => outbox.hide(source_queue, hidings).await,
            }
        };
        let (kept, verdicts) = join!(kept, outbox.send(&self.annotation_queue, "verdict", verdicts));
        failed.extend(kept.into_iter().chain(verdicts));
        BatchResponse { failed }
    }
}

impl<H, Q: QueueSender + QueueDepth, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Where these go that are sent again from here.
    async fn routes(&self, again: Vec<FailedMessage>, deadline: Timestamp) -> Routes {
        let mut routes = match &self.on_failure {
            OnFailure::DirectResend(redelivery) if !again.is_empty() => {
                redelivery.begin(&self.policy, &self.clock, &self.observer, deadline).await
            }
            _ => Routes::default(),
        };
        let now = self.clock.now();
        for failed in again {
            routes.add(&self.policy, &self.schema, failed, now);
        }
        routes
    }
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// A message to call the target for, or the verdict on what must not come to it.
    fn accept(&self, record: ReceivedMessage, now: Timestamp) -> Result<Accepted, Box<Outgoing>> {
        // A `Failure` on the source queue is its producer's: nobody believes it.
        let arrival = Arrival::open(record, now);
        let ReceivedMessage { body, attributes, sqs_message_id, .. } = &arrival.record;
        match self.schema.read(body, attributes, sqs_message_id) {
            Ok(Parsed::Envelope(envelope)) => {
                let metadata = envelope.metadata;
                self.check_receives(self.accepted(arrival, metadata, None), now)
            }
            Ok(Parsed::Plain(plain)) => {
                let metadata = plain.metadata().clone();
                self.check_receives(self.accepted(arrival, metadata, Some(Box::new(plain))), now)
            }
            Err(invalid) => {
                let failure = Failure::invalid(invalid.reason(), &invalid, arrival.delivery(now));
                let verdict =
                    arrival.give_up(None, Stage::MessageProcessor, failure, invalid.reason().into());
                Err(Box::new(verdict))
            }
        }
    }

    fn accepted(&self, mut arrival: Arrival, metadata: Metadata, plain: Option<Box<Plain>>) -> Accepted {
        let metadata = in_its_generation(metadata, arrival.came_back);
        let record = &mut arrival.record;
        let (form, attributes) = match &plain {
            Some(plain) => (plain.form(), plain.attributes.clone()),
            // Not a copy, which may be of a mebibyte, nor of the body: `into_arrival` puts them back.
            None => (Form::Envelope, mem::take(&mut record.attributes)),
        };
        let message = Message {
            retry_attempt: self.retries_made(&metadata, record.receive_count),
            redrive_generation: metadata.generation(),
            message_id: metadata.message_id_text.clone(),
            form,
            attributes,
            body: mem::take(&mut record.body),
        };
        Accepted { message, metadata, arrival, plain }
    }

    /// The body says how many, or the queue does.
    fn retries_made(&self, metadata: &Metadata, receive_count: u32) -> u32 {
        match self.on_failure {
            OnFailure::DelayedResend { .. } | OnFailure::DirectResend(_) => metadata.retry_attempt,
            OnFailure::Visibility { .. } => receive_count.saturating_sub(1),
        }
    }

    /// If the queue counts the attempts, it also counts those for which nobody answered.
    fn check_receives(&self, accepted: Accepted, now: Timestamp) -> Result<Accepted, Box<Outgoing>> {
        if !matches!(self.on_failure, OnFailure::Visibility { .. }) {
            return Ok(accepted);
        }
        match may_be_called(&self.policy, &accepted.metadata, accepted.arrival.record.receive_count) {
            Ok(()) => Ok(accepted),
            Err(give_up) => {
                let hand_off = HandOff::unanswered(GIVEN_ONCE_MORE, accepted.arrival.delivery(now));
                Err(accepted.give_up(hand_off, give_up))
            }
        }
    }
}

/// A valid message, and what its answer needs of the record.
#[derive(Debug)]
struct Accepted {
    message: Message,
    metadata: Metadata,
    /// Without body, which the message has, and the attributes of an envelope.
    arrival: Arrival,
    /// If it is a plain message.
    plain: Option<Box<Plain>>,
}

impl Accepted {
    fn first_sent(&self) -> Timestamp {
        self.metadata.first_sent(self.arrival.record.sent_at)
    }

    fn give_up(self, hand_off: HandOff, give_up: GiveUp) -> Box<Outgoing> {
        let failure = Failure { attempts: Some(self.message.retry_attempt), ..hand_off.into() };
        let (message_id, arrival) = self.into_arrival(Plain::named_at_any_price);
        Box::new(arrival.give_up(Some(message_id), Stage::MessageProcessor, failure, give_up))
    }

    /// Whole again, with the message's id. A plain message goes on with its id among its attributes.
    fn into_arrival(self, named: impl FnOnce(&Plain) -> Option<Attributes>) -> (String, Arrival) {
        let Message { message_id, body, attributes, .. } = self.message;
        let arrival = self.arrival.with_body(body);
        let arrival = match self.plain {
            Some(plain) => arrival.named(named(&plain)),
            None => arrival.with_attributes(attributes),
        };
        (message_id, arrival)
    }
}

#[cfg(test)]
mod tests;

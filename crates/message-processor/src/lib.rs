//! The message-processor as a library: implement [`Handler`] and pass it to [`run`]. Failed messages are retried
//! according to your policy, and each dead letter is explained in the final DLQ.
//!
//! ```no_run
//! use redeliver_message_processor::{Handler, HandlerError, Message, run};
//!
//! struct Charge;
//!
//! impl Handler for Charge {
//!     async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
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

#![warn(missing_docs)] // public API for handler authors

mod breaker;
mod calls;
mod on_aws;
mod order;
mod outcome;
mod spans;
mod turns;

use std::num::NonZeroUsize;
use std::time::Duration;

use redeliver_core::accepted::AcceptedMessage;
use redeliver_core::arrival::Arrival;
use redeliver_core::deliver::{Outbox, stop_time};
use redeliver_core::failure::Stage;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Confirmed, ReceiveTimes};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, FlushOnDrop, Function, Observer, QueueSender, VisibilityControl};
use redeliver_core::strategy::{GivenUpMessage, SendContext, UnsentMessages};
use redeliver_core::trace::Tracer;
use spans::BatchSpans;

pub use breaker::SharedBreaker;
pub use on_aws::{NAME, RuntimeCommand, run, run_with_own_function, run_with_target};
pub use redeliver_core::handler::{
    BodyForm, CallLogs, ErrorType, FailureKind, Handler, HandlerError, Invocation, LogLocation, Message,
};
pub use redeliver_core::message::{ReceivedMessage, Timestamp};
pub use redeliver_core::strategy::OnFailure;
pub use redeliver_core::trace::{CallSpan, SpanKind, SpanValue};

/// Time reserved at the end of an invocation for the sends and the response.
const SEND_RESERVE: Duration = Duration::from_secs(5);

/// The message-processor: open → accept → call the target → forward failed messages according to the strategy →
/// confirm.
#[derive(Debug)]
pub struct MessageProcessor<H, Q, C, O> {
    /// The target.
    pub handler: H,
    /// The strategy for failed messages, with its queues.
    pub on_failure: OnFailure<Q>,
    /// The retry policy. With `delayed-resend`, the failed-message-processor must have the same policy, since it
    /// decides on the retries.
    pub policy: Policy,
    /// The policy's `circuit_breaker`, with its state in this environment.
    pub breaker: SharedBreaker,
    /// The annotation queue, which receives given-up messages with their verdicts.
    pub annotation_queue: Q,
    /// The clock.
    pub clock: C,
    /// Logs and metrics.
    pub observer: O,
    /// The schema of valid messages. An invalid message is given up without a call.
    pub schema: MessageSchema,
    /// The roles whose messages count as re-sends (`RESEND_SENDER_IDS`).
    pub resenders: Resenders,
    /// The maximum number of concurrent calls to the target per batch: `MAX_CONCURRENCY`, 10 by default.
    pub max_concurrency: NonZeroUsize,
}

impl<H: Handler, Q: QueueSender + VisibilityControl, C: Clock, O: Observer> Function
    for MessageProcessor<H, Q, C, O>
{
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let _flush_guard = FlushOnDrop(&self.observer);
        let now = self.clock.now();
        let mut unsent = UnsentMessages::default();
        let mut accepted = Vec::with_capacity(records.len());
        for record in records {
            match self.accept_record(record, now) {
                Ok(message) => accepted.push(message),
                Err(given_up) => unsent.given_up.push(*given_up),
            }
        }
        // Fixed before the calls start: even if the target hangs, enough time must remain to forward its messages.
        let calls_end = stop_time(SEND_RESERVE, now, deadline);
        self.apply_reported_outages(&accepted, now);
        let spans = BatchSpans::begin_batch(self, &accepted, now);
        let logs = self.call_logs(accepted.len());
        let calls = self.call_all(calls_end, &accepted, &logs, spans.as_ref()).await;

        let now = self.clock.now();
        let mut events = Vec::from_iter(self.held_events(&accepted, &calls));
        let mut done = Vec::with_capacity(accepted.len());
        if let Some(spans) = &spans {
            spans.end_batch(self, &accepted, &calls, now);
        }
        for (index, (message, call)) in accepted.into_iter().zip(calls).enumerate() {
            let span = spans.as_ref().and_then(|spans| spans.attempt_span(index, &call));
            match self.settle_call(message, &call, &logs[index], span, now) {
                Ok((confirmed, processed)) => {
                    done.push(confirmed);
                    events.push(processed);
                }
                Err(message) => unsent.failed.push(*message),
            }
        }
        // Reported before the sends: these messages are done, regardless of the others.
        self.observer.observe_all(&events);
        let context = SendContext {
            policy: &self.policy,
            annotation_queue: &self.annotation_queue,
            outbox: Outbox::new(&self.clock, &self.observer, deadline),
        };
        done.extend(self.on_failure.settle_unsent(&context, unsent).await);
        done
    }

    fn keeps_order(&self) -> bool {
        self.on_failure.keeps_order()
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.observer.tracer()
    }

    fn begin_invocation(&self, request_id: &str) {
        self.observer.begin_invocation(request_id);
    }
}

impl<H, Q, C, O> MessageProcessor<H, Q, C, O> {
    /// Accepts a message, or gives up on it if the target must not be called for it.
    fn accept_record(
        &self,
        record: ReceivedMessage,
        now: Timestamp,
    ) -> Result<AcceptedMessage, Box<GivenUpMessage>> {
        let received = ReceiveTimes::new(&record, now);
        let no_resenders = Resenders::empty();
        // No message is re-sent if failed messages stay on their queue.
        let resenders = if self.on_failure.stays_on_queue() { &no_resenders } else { &self.resenders };
        // A `Failure` on the source queue was set by the producer, so it is not trusted.
        let arrival = Arrival::from_record(record, now).resolve_origin(resenders);
        let accepted = match arrival.accept(&self.schema, None) {
            Ok(accepted) => self.on_failure.check_receives(&self.policy, accepted, now),
            Err(refused) => Err(Box::new(refused.give_up(Stage::MessageProcessor, None, now))),
        };
        accepted.map_err(|verdict| Box::new(GivenUpMessage { verdict: *verdict, received }))
    }
}

#[cfg(test)]
mod tests;

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

mod accepted;
mod breaker;
mod calls;
mod on_aws;
mod strategy;

use std::num::NonZeroUsize;
use std::time::Duration;

use redeliver_core::deliver::keep_free;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{
    BatchResponse, Clock, FlushOnDrop, Function, Observer, QueueDepth, QueueSender, VisibilityControl,
};

use strategy::Unsent;

pub use breaker::SharedBreaker;
pub use on_aws::{Command, NAME, run, run_around, run_with_target};
pub use redeliver_core::handler::{ErrorType, FailureKind, Form, Handler, HandlerError, Invocation, Message};
pub use redeliver_core::message::{ReceivedMessage, Timestamp};
pub use redeliver_core::strategy::OnFailure;

/// Kept free at the end of an invocation, for the sends and the answer.
const SEND_RESERVE: Duration = Duration::from_secs(5);

/// The message processor and all that it needs of the world: parse → call the target → keep what failed, as the strategy
/// does → report.
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
    /// Who sends messages to the source queue again.
    pub resenders: Resenders,
    /// Calls to the target at the same time, within one batch.
    pub max_concurrency: NonZeroUsize,
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

        let now = self.clock.now();
        let mut done = Vec::from_iter(self.held(&calls));
        let mut failed = Vec::new();
        for (message, call) in accepted.into_iter().zip(calls) {
            match message.answered(&call, now) {
                Ok(processed) => done.push(processed),
                Err(message) => failed.push(*message),
            }
        }
        // Before the sends: these are done whatever becomes of the others.
        self.observer.observe_all(&done);
        BatchResponse { failed: self.keep(Unsent { failed, verdicts, deadline }).await }
    }
}

#[cfg(test)]
mod tests;

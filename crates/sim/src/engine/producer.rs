//! What goes in: messages sent to the source queue, or a function invoked.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::pin_mut;
use redeliver_core::deliver::deliver;
use redeliver_core::message::OutgoingMessage;
use redeliver_core::ports::{AsyncInvoker, Clock, Queue};

use super::Engine;
use crate::error::LoopError;
use crate::lambda::FUNCTION_ARN;

const FEED: usize = 1000;
/// How long one feeding may take.
const FEED_TIMEOUT: Duration = Duration::from_secs(60);

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Sends all messages, unless `stop` completes before.
    ///
    /// # Errors
    /// If SQS refuses one for good, or does not answer for a minute, or if `stop` completed.
    pub async fn feed(
        &self,
        messages: Vec<OutgoingMessage>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let (total, confirmed) = (messages.len(), Cell::new(0));
        unless(stop, &confirmed, total, self.send_all(messages, &confirmed)).await
    }

    /// Invokes the function with each message's body, unless `stop` completes before.
    ///
    /// # Errors
    /// If the record of a failure cannot be sent for a minute, or if `stop` completed.
    pub async fn invoke(
        &self,
        messages: Vec<OutgoingMessage>,
        invoker: &impl AsyncInvoker,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let (total, confirmed) = (messages.len(), Cell::new(0));
        let invoking = async {
            for message in messages {
                let payload = &message.content().body;
                self.ledger().sent(payload);
                invoker.invoke(FUNCTION_ARN, payload).await?;
                confirmed.update(|count| count + 1);
            }
            Ok(())
        };
        unless(stop, &confirmed, total, invoking).await
    }

    async fn send_all(
        &self,
        messages: Vec<OutgoingMessage>,
        confirmed: &Cell<usize>,
    ) -> Result<(), LoopError> {
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            let chunk: Vec<_> = messages.by_ref().take(FEED).collect();
            // Entered before it is sent: the target may be done with it before SQS's answer is here.
            for message in &chunk {
                self.ledger().sent(&message.content().body);
            }
            for outcome in
                deliver(&self.topology.source, self.clock, self.clock.now() + FEED_TIMEOUT, chunk).await
            {
                outcome.map_err(LoopError::sqs("sending the messages"))?;
                confirmed.update(|count| count + 1);
            }
        }
        Ok(())
    }
}

/// Sends, unless `stop` completes before.
async fn unless(
    stop: impl Future<Output = ()>,
    confirmed: &Cell<usize>,
    total: usize,
    sending: impl Future<Output = Result<(), LoopError>>,
) -> Result<(), LoopError> {
    pin_mut!(stop, sending);
    match select(stop, sending).await {
        Either::Left(((), _)) => Err(LoopError::Interrupted { confirmed: confirmed.get(), total }),
        Either::Right((outcome, _)) => outcome,
    }
}

//! The start of the loop: messages are sent to the source queue, or passed to a function.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::pin_mut;
use redeliver_core::deliver::deliver;
use redeliver_core::limits::BATCH_ENTRIES_MAX;
use redeliver_core::message::OutgoingMessage;
use redeliver_core::ports::{AsyncInvoker, Clock, Queue};

use super::Engine;
use crate::error::LoopError;
use crate::lambda::FUNCTION_ARN;

/// The number of messages sent concurrently.
const CHUNK: usize = 1000;
const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Sends all messages, unless `stop` completes first.
    ///
    /// # Errors
    /// If SQS rejects a message permanently, if it does not respond for a minute, or if `stop` completes.
    pub async fn send_messages(
        &self,
        messages: Vec<OutgoingMessage>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let (total, confirmed) = (messages.len(), Cell::new(0));
        run_until_stopped(stop, &confirmed, total, self.send_all(messages, &confirmed)).await
    }

    /// Invokes the function with each message's body, unless `stop` completes first.
    ///
    /// # Errors
    /// If a failure record cannot be sent for a minute, or if `stop` completes.
    pub async fn invoke_with_messages(
        &self,
        messages: Vec<OutgoingMessage>,
        invoker: &impl AsyncInvoker,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let (total, confirmed) = (messages.len(), Cell::new(0));
        let invoking = async {
            for message in messages {
                let payload = &message.content().body;
                self.lock_tracker().record_sent(payload);
                invoker.invoke_async(FUNCTION_ARN, payload).await?;
                confirmed.update(|count| count + 1);
            }
            Ok(())
        };
        run_until_stopped(stop, &confirmed, total, invoking).await
    }

    async fn send_all(
        &self,
        messages: Vec<OutgoingMessage>,
        confirmed: &Cell<usize>,
    ) -> Result<(), LoopError> {
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            // The batches of a chunk are sent concurrently, which would break the order of a FIFO queue.
            let is_fifo = self.topology.retry_loop.definition().is_fifo;
            let size = if is_fifo { BATCH_ENTRIES_MAX } else { CHUNK };
            let chunk: Vec<_> = messages.by_ref().take(size).collect();
            // Tracked before the send, since the target may have processed a message before SQS responds.
            for message in &chunk {
                self.lock_tracker().record_sent(&message.content().body);
            }
            for outcome in
                deliver(&self.topology.source, self.clock, self.clock.now() + CHUNK_TIMEOUT, chunk).await
            {
                outcome.map_err(LoopError::while_doing("sending the messages"))?;
                confirmed.update(|count| count + 1);
            }
        }
        Ok(())
    }
}

/// Runs `sending` until it ends or `stop` completes.
async fn run_until_stopped(
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

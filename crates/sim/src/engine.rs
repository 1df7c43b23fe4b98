//! The loop: feed the source queue, run the three functions side by side, read the final DLQ, until all is settled.

mod final_dlq;
mod producer;

use std::cell::Cell;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use futures_util::{join, pin_mut};
use redeliver_core::deliver::until;
use redeliver_core::limits::BATCH_ENTRIES_MAX;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, Function, Queue, Receive};

use crate::error::LoopError;
use crate::event_source_mapping::{handle, receive};
use crate::sync::lock;
use crate::topology::{INVOCATION_TIMEOUT, Topology};
use crate::tracker::Ledger;

/// Before a receive that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at queues that seem to have lost something: longer than SQS's counts lag behind.
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);
/// Looks at empty queues before what has not come out is called lost.
const EMPTY_LOOKS: u32 = 3;

/// The functions of the loop.
#[derive(Debug)]
pub struct Functions<M, F, A> {
    /// On the source queue: the message-processor, or the async-retry-handler.
    pub on_source: M,
    /// On the intermediate DLQ, if there is one.
    pub failed_message_processor: Option<F>,
    pub final_dlq_annotator: A,
}

pub struct Engine<'a, Q, C> {
    pub topology: &'a Topology<Q>,
    pub clock: &'a C,
    /// What went in and what came out.
    pub ledger: &'a Mutex<Ledger>,
    /// Called with how many messages have come out.
    pub progress: &'a dyn Fn(u64),
    /// Longest long poll.
    pub wait: Duration,
    /// How long a batch that is not full waits for more messages on the source queue:
    /// `MaximumBatchingWindowInSeconds` of its event source mapping.
    pub batching_window: Duration,
    /// Invocations of the function on the source queue at the same time.
    pub pollers: usize,
    /// The message, of a final record's body.
    pub what_went_in: fn(&str) -> &str,
}

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Runs the functions until every message has come out, until what has not is in no queue either, or until `stop`
    /// completes. Final records go to `output`.
    ///
    /// # Errors
    /// If a queue cannot be read, or the output cannot be written.
    pub async fn run<M: Function, F: Function, A: Function>(
        &self,
        functions: &Functions<M, F, A>,
        output: &mut dyn Write,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let over = Cell::new(self.ledger().is_settled());
        let Topology { source, intermediate, annotation, .. } = self.topology;
        let work = async {
            // Not `try_join!`: when one fails, the others finish the batch that they are at, and `over` ends them.
            let (messages, failed, annotated, collected) = join!(
                self.pump_side_by_side(source, &functions.on_source, &over),
                async {
                    match (intermediate, &functions.failed_message_processor) {
                        (Some(queue), Some(function)) => {
                            self.pump(queue, function, Duration::ZERO, &over).await
                        }
                        _ => Ok(()),
                    }
                },
                self.pump(annotation, &functions.final_dlq_annotator, Duration::ZERO, &over),
                self.collect(output, &over),
            );
            messages.and(failed).and(annotated).and(collected)
        };
        let interrupted = async {
            pin_mut!(stop);
            let lost = self.until_lost();
            pin_mut!(lost);
            select(stop, lost).await;
        };
        pin_mut!(work, interrupted);
        match select(work, interrupted).await {
            Either::Left((outcome, _)) => outcome,
            // Whoever is at work finishes it: a record that was handled must be deleted too.
            Either::Right(((), work)) => {
                over.set(true);
                work.await
            }
        }
    }

    async fn pump_side_by_side(
        &self,
        queue: &Q,
        function: &impl Function,
        over: &Cell<bool>,
    ) -> Result<(), LoopError> {
        let pumps = (0..self.pollers).map(|_| self.pump(queue, function, self.batching_window, over));
        join_all(pumps).await.into_iter().collect()
    }

    async fn pump(
        &self,
        queue: &Q,
        function: &impl Function,
        batching_window: Duration,
        over: &Cell<bool>,
    ) -> Result<(), LoopError> {
        self.repeat(over, async || {
            let received = receive(queue, self.wait).await;
            let mut records = received.map_err(LoopError::sqs("receiving messages"))?;
            self.fill(queue, &mut records, batching_window).await;
            handle(queue, function, self.clock, records, INVOCATION_TIMEOUT).await;
            Ok(())
        })
        .await
    }

    /// Waits for more messages until the batch is full or the window is over. What cannot be received now comes with
    /// the next batch.
    async fn fill(&self, queue: &Q, records: &mut Vec<ReceivedMessage>, window: Duration) {
        let end = self.clock.now() + window;
        while !records.is_empty() && records.len() < BATCH_ENTRIES_MAX && self.clock.now() < end {
            let wait = until(self.clock.now(), end).min(self.wait);
            let most = u8::try_from(BATCH_ENTRIES_MAX - records.len()).unwrap_or(1);
            let request = Receive { max_messages: most, wait, visibility: None };
            match queue.receive(request).await {
                Ok(more) => records.extend(more),
                Err(_) => return,
            }
        }
    }

    /// Repeats a step until all is over. What may pass is tried again; what will not ends the whole run.
    async fn repeat(
        &self,
        over: &Cell<bool>,
        mut step: impl AsyncFnMut() -> Result<(), LoopError>,
    ) -> Result<(), LoopError> {
        while !over.get() {
            match step().await {
                Ok(()) => {}
                Err(LoopError::Sqs { error, .. }) if error.fault.is_retryable() => {
                    self.clock.sleep(PAUSE).await;
                }
                Err(error) => {
                    over.set(true);
                    return Err(error);
                }
            }
            // After each step, whoever made it: the last message may come out at the target or at the final DLQ.
            let ledger = self.ledger();
            (self.progress)(ledger.settled());
            if ledger.is_settled() {
                over.set(true);
            }
        }
        Ok(())
    }

    /// Completes when all queues were found empty several times in a row.
    async fn until_lost(&self) {
        let mut empty = 0;
        while empty < EMPTY_LOOKS {
            self.clock.sleep(BETWEEN_LOOKS).await;
            // One look is not enough: between two queues a message is in a function's hands, and SQS's counts lag
            // behind.
            let is_empty = matches!(self.topology.waiting().await, Ok(0)) && !self.ledger().expects_more();
            empty = if is_empty { empty + 1 } else { 0 };
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(self.ledger)
    }
}

#[cfg(test)]
mod tests;

//! The engine: polls the queues for the functions, side by side, until every message has come out.

mod final_dlq;
mod producer;

use std::cell::Cell;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use futures_util::lock::Mutex as AsyncMutex;
use futures_util::{join, pin_mut};
use redeliver_core::deliver::until;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::polling::{invoke, receive};
use redeliver_core::ports::{Clock, Function, Queue, Receive};

use crate::batching::Batching;
use crate::error::LoopError;
use crate::topology::{INVOCATION_TIMEOUT, Topology};
use crate::tracker::Tracker;
use redeliver_core::lock;

/// The pause after a failed receive.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause between two counts of queues that seem to have lost a message: longer than the lag of SQS's counts.
const COUNT_PAUSE: Duration = Duration::from_secs(60);
/// After this many empty counts in a row, the messages that have not come out are lost.
const EMPTY_COUNTS: u32 = 3;

/// The functions of the loop.
#[derive(Debug)]
pub struct Functions<M, F, A> {
    /// Polls the source queue: the message-processor, or the async-retry-handler.
    pub on_source: M,
    /// Polls the intermediate DLQ, if there is one.
    pub failed_message_processor: Option<F>,
    pub final_dlq_annotator: A,
}

pub struct Engine<'a, Q, C> {
    pub topology: &'a Topology<Q>,
    pub clock: &'a C,
    pub tracker: &'a Mutex<Tracker>,
    /// Called with the number of messages that have come out.
    pub progress: &'a dyn Fn(u64),
    /// The longest long poll.
    pub wait: Duration,
    /// Concurrent invocations of the function on the source queue.
    pub concurrency: usize,
    /// Concurrent invocations of each other function.
    pub inner_concurrency: usize,
    /// The body that was sent, given the body of its final record.
    pub original_body: fn(&str) -> &str,
}

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Runs the functions until every message has come out, until the missing ones are in no queue either, or until
    /// `stop` completes. Writes the final records to `output`.
    ///
    /// # Errors
    /// If a queue cannot be read, or the output cannot be written.
    pub async fn run<M: Function, F: Function, A: Function>(
        &self,
        functions: &Functions<M, F, A>,
        output: &mut dyn Write,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let done = Cell::new(self.tracker().is_settled());
        let Topology { source, intermediate, source_dlq, annotation, batching, .. } = self.topology;
        let work = async {
            // Not `try_join!`: when one fails, `done` ends the others, after the batch that they are working on.
            let annotator = &functions.final_dlq_annotator;
            let (messages, failed, moved, annotated, collected) = join!(
                self.poll(source, &functions.on_source, self.concurrency, *batching, &done),
                async {
                    match (intermediate, &functions.failed_message_processor) {
                        (Some(queue), Some(function)) => self.poll_inner(queue, function, &done).await,
                        _ => Ok(()),
                    }
                },
                async {
                    match source_dlq {
                        Some(queue) => self.poll_inner(queue, annotator, &done).await,
                        None => Ok(()),
                    }
                },
                self.poll_inner(annotation, annotator, &done),
                self.read_final_dlq(output, &done),
            );
            messages.and(failed).and(moved).and(annotated).and(collected)
        };
        let interrupted = async {
            pin_mut!(stop);
            let lost = self.messages_lost();
            pin_mut!(lost);
            select(stop, lost).await;
        };
        pin_mut!(work, interrupted);
        match select(work, interrupted).await {
            Either::Left((outcome, _)) => outcome,
            // Batches under way are finished: the records that were handled must be deleted, too.
            Either::Right(((), work)) => {
                done.set(true);
                work.await
            }
        }
    }

    async fn poll_inner(
        &self,
        queue: &Q,
        function: &impl Function,
        done: &Cell<bool>,
    ) -> Result<(), LoopError> {
        self.poll(queue, function, self.inner_concurrency, Batching::default(), done).await
    }

    /// Polls for up to `concurrency` invocations at a time.
    async fn poll(
        &self,
        queue: &Q,
        function: &impl Function,
        concurrency: usize,
        batching: Batching,
        done: &Cell<bool>,
    ) -> Result<(), LoopError> {
        let receiving = AsyncMutex::default();
        let poll = |_| self.poll_in_turn(queue, function, batching, &receiving, done);
        join_all((0..concurrency).map(poll)).await.into_iter().collect()
    }

    /// Polls for one invocation at a time. Loops that share `receiving` receive one after the other: otherwise each
    /// message would wake a thousand long polls.
    async fn poll_in_turn(
        &self,
        queue: &Q,
        function: &impl Function,
        batching: Batching,
        receiving: &AsyncMutex<()>,
        done: &Cell<bool>,
    ) -> Result<(), LoopError> {
        self.repeat(done, async || {
            let turn = receiving.lock().await;
            if done.get() {
                return Ok(());
            }
            let received = receive(queue, batching.size, self.wait).await;
            drop(turn);
            let mut records = received.map_err(LoopError::sqs("receiving messages"))?;
            self.fill_batch(queue, &mut records, batching).await;
            invoke(queue, function, self.clock, records, INVOCATION_TIMEOUT).await;
            Ok(())
        })
        .await
    }

    /// Receives more messages until the batch is full or the window is over. If a receive fails, the batch goes as it
    /// is.
    async fn fill_batch(&self, queue: &Q, records: &mut Vec<ReceivedMessage>, batching: Batching) {
        let (end, size) = (self.clock.now() + batching.window, usize::from(batching.size));
        while !records.is_empty() && records.len() < size && self.clock.now() < end {
            let wait = until(self.clock.now(), end).min(self.wait);
            let max_messages = u8::try_from(size - records.len()).unwrap_or(1);
            match queue.receive(Receive { max_messages, wait, visibility: None }).await {
                Ok(more) => records.extend(more),
                Err(_) => return,
            }
        }
    }

    /// Repeats a step until the run is done. A retryable error is tried again; any other ends the run.
    async fn repeat(
        &self,
        done: &Cell<bool>,
        mut step: impl AsyncFnMut() -> Result<(), LoopError>,
    ) -> Result<(), LoopError> {
        while !done.get() {
            match step().await {
                Ok(()) => {}
                Err(LoopError::Sqs { error, .. }) if error.fault.is_retryable() => {
                    self.clock.sleep(RETRY_PAUSE).await;
                }
                Err(error) => {
                    done.set(true);
                    return Err(error);
                }
            }
            // After each step of any of them: the last message may come out at the target or at the final DLQ.
            let tracker = self.tracker();
            (self.progress)(tracker.settled());
            if tracker.is_settled() {
                done.set(true);
            }
        }
        Ok(())
    }

    /// Completes when all queues were empty several times in a row.
    async fn messages_lost(&self) {
        let mut empty = 0;
        while empty < EMPTY_COUNTS {
            self.clock.sleep(COUNT_PAUSE).await;
            // One count is not enough: a function may hold a message that is between two queues, and SQS's counts lag.
            let is_empty = matches!(self.topology.waiting().await, Ok(0)) && !self.tracker().expects_more();
            empty = if is_empty { empty + 1 } else { 0 };
        }
    }

    fn tracker(&self) -> MutexGuard<'_, Tracker> {
        lock(self.tracker)
    }
}

#[cfg(test)]
mod tests;

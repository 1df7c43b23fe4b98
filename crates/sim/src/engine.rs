//! The engine: polls the queues for the functions concurrently, until every message is settled.

mod final_dlq;
mod pollers;
mod producer;

use std::cell::Cell;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{join, pin_mut};
use redeliver_core::ports::{Clock, Function, Queue};

use crate::batching::Batching;
use crate::error::LoopError;
use crate::topology::Topology;
use crate::tracker::Tracker;
pub use pollers::Pollers;
use redeliver_core::lock;

/// The pause after a failed receive.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The pause between the queue counts that detect lost messages. It is longer than the lag in SQS's counts.
const COUNT_PAUSE: Duration = Duration::from_secs(60);
/// After this many consecutive empty counts, unsettled messages are considered lost.
const EMPTY_COUNTS: u32 = 3;

/// The functions of the loop.
#[derive(Debug)]
pub struct LoopFunctions<M, F, A> {
    /// The function that polls the source queue: the message-processor or the async-retry-handler.
    pub source_function: M,
    /// The function that polls the intermediate DLQ, if the strategy has one.
    pub failed_message_processor: Option<F>,
    pub final_dlq_annotator: A,
}

/// An engine that runs the functions on the queues of a topology until every message is settled: processed by the
/// target, or read from the final DLQ.
pub struct Engine<'a, Q, C> {
    pub topology: &'a Topology<Q>,
    pub clock: &'a C,
    /// True if the clock is virtual; the final records then include the virtual time.
    pub is_virtual: bool,
    pub tracker: &'a Mutex<Tracker>,
    /// Called with the number of settled messages after each step.
    pub progress: &'a dyn Fn(u64),
    /// The maximum duration of a long poll.
    pub wait: Duration,
    /// The pollers of the source queue.
    pub pollers: Pollers,
    /// The pollers of each of the other queues.
    pub inner_pollers: Pollers,
    /// Returns the original message body, given the body of the final record.
    pub original_body: fn(&str) -> &str,
}

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Runs the functions until every message is settled, until no queue contains the missing messages, or until `stop`
    /// completes. Writes the final records to `output`.
    ///
    /// # Errors
    /// If a queue cannot be read, or the output cannot be written.
    pub async fn run_functions<M: Function, F: Function, A: Function>(
        &self,
        functions: &LoopFunctions<M, F, A>,
        output: &mut dyn Write,
        stop: impl Future<Output = ()>,
    ) -> Result<(), LoopError> {
        let done = Cell::new(self.lock_tracker().is_settled());
        let Topology { source, intermediate, source_dlq, annotation, batching, .. } = self.topology;
        let work = async {
            // Not `try_join!`: when one poller fails, `done` ends the others after their current batch.
            let annotator = &functions.final_dlq_annotator;
            let (messages, failed, moved, annotated, collected) = join!(
                self.poll_queue(source, &functions.source_function, self.pollers, *batching, &done),
                async {
                    match (intermediate, &functions.failed_message_processor) {
                        (Some(queue), Some(function)) => self.poll_inner_queue(queue, function, &done).await,
                        _ => Ok(()),
                    }
                },
                async {
                    match source_dlq {
                        Some(queue) => self.poll_inner_queue(queue, annotator, &done).await,
                        None => Ok(()),
                    }
                },
                self.poll_inner_queue(annotation, annotator, &done),
                self.read_final_dlq(output, &done),
            );
            messages.and(failed).and(moved).and(annotated).and(collected)
        };
        let interrupted = async {
            pin_mut!(stop);
            let lost = self.wait_until_messages_are_lost();
            pin_mut!(lost);
            select(stop, lost).await;
        };
        pin_mut!(work, interrupted);
        match select(work, interrupted).await {
            Either::Left((outcome, _)) => outcome,
            // The current batches are completed, since their handled records must be deleted.
            Either::Right(((), work)) => {
                done.set(true);
                work.await
            }
        }
    }

    async fn poll_inner_queue(
        &self,
        queue: &Q,
        function: &impl Function,
        done: &Cell<bool>,
    ) -> Result<(), LoopError> {
        self.poll_queue(queue, function, self.inner_pollers, Batching::default(), done).await
    }

    /// Repeats a step until it returns `Break` or the run is done. Retryable errors are retried; any other error ends
    /// the run.
    async fn repeat_step(
        &self,
        done: &Cell<bool>,
        mut step: impl AsyncFnMut() -> Result<ControlFlow<()>, LoopError>,
    ) -> Result<(), LoopError> {
        while !done.get() {
            match step().await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(LoopError::Sqs { error, .. }) if error.fault.is_retryable() => {
                    self.clock.sleep(RETRY_PAUSE).await;
                }
                Err(error) => {
                    done.set(true);
                    return Err(error);
                }
            }
            // Checked after each step of every poller: the last message may be settled by the target or in the final
            // DLQ.
            let tracker = self.lock_tracker();
            (self.progress)(tracker.settled_count());
            if tracker.is_settled() {
                done.set(true);
            }
        }
        Ok(())
    }

    /// Completes when all queues have been empty several times in a row.
    async fn wait_until_messages_are_lost(&self) {
        let mut empty = 0;
        while empty < EMPTY_COUNTS {
            self.clock.sleep(COUNT_PAUSE).await;
            // A single count is not enough: a function may be moving a message between two queues, and SQS's counts
            // lag.
            let is_empty =
                matches!(self.topology.count_messages().await, Ok(0)) && !self.lock_tracker().expects_more();
            empty = if is_empty { empty + 1 } else { 0 };
        }
    }

    fn lock_tracker(&self) -> MutexGuard<'_, Tracker> {
        lock(self.tracker)
    }
}

#[cfg(test)]
mod tests;

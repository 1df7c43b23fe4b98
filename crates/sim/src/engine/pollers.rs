//! The pollers of an event source mapping: each receives a batch, invokes the function with it, and receives again.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::lock::Mutex as AsyncMutex;
use futures_util::stream::FuturesUnordered;
use redeliver_core::deliver::time_until;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::polling::{invoke_function, receive_records};
use redeliver_core::ports::{Clock, Function, Queue, ReceiveOptions};

use super::Engine;
use crate::batching::Batching;
use crate::error::LoopError;
use crate::topology::INVOCATION_TIMEOUT;

/// "Lambda starts processing five batches at a time" ("Configuring scaling behavior for SQS event source mappings", AWS
/// Lambda Developer Guide).
const INITIAL_POLLERS: u16 = 5;
/// "If messages are still available", Lambda adds "up to 300 more concurrent invokes per minute" (same page).
const GROWTH_INTERVAL: Duration = Duration::from_millis(60_000 / 300);
/// "When traffic is low, Lambda scales back" to five. The page does not say when; one empty long poll is an assumption.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// The pollers of an event source mapping. Each poller runs one invocation of the function at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pollers {
    pub at_first: u16,
    /// The maximum number of pollers. Pollers are added while messages are waiting and all pollers are busy.
    pub most: u16,
    /// The duration of a receive once a message is available.
    pub receive: Duration,
}

impl Pollers {
    /// Creates a constant number of pollers whose receives take no time.
    #[must_use]
    pub const fn constant(count: u16) -> Self {
        Self { at_first: count, most: count, receive: Duration::ZERO }
    }

    /// Creates pollers as in Lambda, with this `MaximumConcurrency`.
    #[must_use]
    pub fn for_lambda(most: u16, receive: Duration) -> Self {
        Self { at_first: INITIAL_POLLERS.min(most), most, receive }
    }
}

/// An event source mapping: its queue, its function, and the shared state of its pollers.
struct PolledMapping<'a, Q, F> {
    queue: &'a Q,
    function: &'a F,
    pollers: Pollers,
    batching: Batching,
    done: &'a Cell<bool>,
    /// Makes pollers receive one at a time: otherwise each message would wake a thousand long polls.
    receiving: AsyncMutex<()>,
    /// The number of pollers without a batch.
    idle: Cell<usize>,
}

impl<Q: Queue + Clone, C: Clock> Engine<'_, Q, C> {
    /// Polls a queue for its function until the run is done.
    pub(super) async fn poll_queue(
        &self,
        queue: &Q,
        function: &impl Function,
        pollers: Pollers,
        batching: Batching,
        done: &Cell<bool>,
    ) -> Result<(), LoopError> {
        let (receiving, idle) = (AsyncMutex::default(), Cell::new(0));
        let mapping = &PolledMapping { queue, function, pollers, batching, done, receiving, idle };
        let mut running: FuturesUnordered<_> =
            (0..pollers.at_first).map(|_| self.run_poller(mapping, false)).collect();
        let mut outcome = Ok(());
        loop {
            let has_room = running.len() < usize::from(pollers.most);
            let growth = pin!(self.wait_for_growth(mapping, has_room));
            match select(running.next(), growth).await {
                Either::Left((None, _)) => return outcome,
                Either::Left((Some(ended), _)) => outcome = outcome.and(ended),
                Either::Right(_) => running.push(self.run_poller(mapping, true)),
            }
        }
    }

    /// Completes when all pollers have been busy while messages waited. It is polled after the pollers whenever one of
    /// them is, so it needs no waker of its own.
    async fn wait_for_growth<F>(&self, mapping: &PolledMapping<'_, Q, F>, has_room: bool) {
        let all_busy = || mapping.idle.get() == 0;
        if !has_room {
            pending::<()>().await;
        }
        loop {
            poll_fn(|_| if all_busy() { Poll::Ready(()) } else { Poll::Pending }).await;
            self.clock.sleep(GROWTH_INTERVAL).await;
            if all_busy() && matches!(mapping.queue.depth().await, Ok(depth) if depth.visible > 0) {
                return;
            }
        }
    }

    /// Polls the queue and invokes the function, batch by batch. An extra poller ends after being idle for a while.
    async fn run_poller<F: Function>(
        &self,
        mapping: &PolledMapping<'_, Q, F>,
        is_extra: bool,
    ) -> Result<(), LoopError> {
        let PolledMapping { queue, function, pollers, batching, done, receiving, idle } = mapping;
        idle.update(|count| count + 1);
        let ended = self
            .repeat_step(done, async || {
                let since = self.clock.now();
                let turn = receiving.lock().await;
                if done.get() {
                    return Ok(ControlFlow::Continue(()));
                }
                let received = receive_records(*queue, batching.size, self.wait).await;
                drop(turn);
                let mut records = received.map_err(LoopError::while_doing("receiving messages"))?;
                if records.is_empty() {
                    let is_over = is_extra && time_until(since, self.clock.now()) >= IDLE_MAX;
                    return Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
                }
                self.fill_batch(queue, &mut records, *batching).await;
                idle.update(|count| count - 1);
                self.clock.sleep(pollers.receive).await;
                invoke_function(*queue, *function, self.clock, records, INVOCATION_TIMEOUT).await;
                idle.update(|count| count + 1);
                Ok(ControlFlow::Continue(()))
            })
            .await;
        idle.update(|count| count - 1);
        ended
    }

    /// Receives more messages until the batch is full or the window is over. If a receive fails, the batch is delivered
    /// incomplete.
    async fn fill_batch(&self, queue: &Q, records: &mut Vec<ReceivedMessage>, batching: Batching) {
        let (end, size) = (self.clock.now() + batching.window, usize::from(batching.size));
        while records.len() < size && self.clock.now() < end {
            let wait = time_until(self.clock.now(), end).min(self.wait);
            let max_messages = u8::try_from(size - records.len()).unwrap_or(1);
            match queue.receive(ReceiveOptions { max_messages, wait, visibility: None }).await {
                Ok(more) => records.extend(more),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use redeliver_core::message::packing::pack_batches;
    use redeliver_core::message::{Confirmed, Timestamp};
    use redeliver_core::ports::QueueSender as _;
    use redeliver_embedded::VirtualClock;

    use super::super::tests::{message, run_on_queues};
    use super::*;

    /// A function that runs for a minute per batch and records the start of each invocation in milliseconds.
    struct SlowFunction<'a>(&'a VirtualClock, Mutex<Vec<i64>>);

    impl Function for SlowFunction<'_> {
        async fn process_batch(&self, _: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            self.1.lock().unwrap().push(self.0.now().timestamp_millis());
            self.0.sleep(Duration::from_secs(60)).await;
            Vec::new()
        }
    }

    /// If all pollers ran from the start, the simulation would show the full concurrency from the first second, and a
    /// team would size its target for it.
    #[test]
    fn five_pollers_grow_by_five_per_second_up_to_the_maximum() {
        let (invoked, _) = run_on_queues(async |engine| {
            let engine = Engine { wait: Duration::from_secs(20), ..engine };
            let (clock, queue, done) = (engine.clock, &engine.topology.source, Cell::new(false));
            let (batching, slow) =
                (Batching { size: 1, ..Batching::default() }, SlowFunction(clock, Mutex::default()));
            for batch in pack_batches(&vec![message("{}"); 9]) {
                queue.send_batch(batch).await;
            }
            let pollers = Pollers::for_lambda(8, Duration::from_millis(20));
            let stop = async {
                clock.sleep(Duration::from_secs(30)).await;
                done.set(true);
            };
            let (polled, ()) =
                futures_util::join!(engine.poll_queue(queue, &slow, pollers, batching, &done), stop);
            polled.unwrap();
            slow.1.into_inner().unwrap()
        });
        // The ninth message waits for an invocation that ends after the run.
        assert_eq!(invoked, [20, 20, 20, 20, 20, 220, 420, 620]);
    }

    #[test]
    fn a_maximum_below_five_applies_from_the_start() {
        let at_first = |most| Pollers::for_lambda(most, Duration::ZERO).at_first;
        assert_eq!([at_first(2), at_first(5), at_first(1000)], [2, 5, 5]);
    }
}

//! One function on the queue that it polls: receive → invoke → delete, several at the same time, until it is to stop.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use futures_util::future::{join_all, select};
use futures_util::pin_mut;
use redeliver_aws::Stop;
use redeliver_core::events::Event;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, EntryError, Function, Observer, Queue, Unreadable};
use redeliver_sim::event_source_mapping::{invoke, receive};

use super::guarded::Guarded;
use super::health::Vitals;

/// After the first receive that fails; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The last doubling. Up to as much again is added at random, so a pause is 30 s at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A function, its queue, and what they need of the world.
#[derive(Debug)]
pub struct Worker<Q, F, C, O> {
    /// The queue that is polled.
    pub queue: Q,
    /// What its records are given to.
    pub function: F,
    pub clock: C,
    /// Gets what goes wrong between queue and function.
    pub observer: O,
    /// How much, and how long.
    pub limits: Limits,
    /// Gets its signs of life.
    pub vitals: Arc<Vitals>,
}

/// How much a worker does at the same time, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Batches at the same time.
    pub concurrency: NonZeroUsize,
    /// Longest long poll, 1..=20 s.
    pub wait: Duration,
    /// For one batch; not longer than the queue's visibility timeout.
    pub invocation: Duration,
}

impl<Q: Queue, F: Function, C: Clock, O: Observer> Worker<Q, F, C, O> {
    /// Polls until `stop` is requested, and ends when all that was received is handled. Dropping it loses nothing: what
    /// was not deleted comes back.
    pub async fn run(&self, stop: &Stop) {
        // Each poller has one batch at most, so nothing is received that nobody has time for.
        join_all((0..self.limits.concurrency.get()).map(|_| self.poll_until(stop))).await;
    }

    async fn poll_until(&self, stop: &Stop) {
        let mut pauses = pauses();
        while !stop.is_requested() {
            // Never broken off: what SQS hands out in that moment would be hidden for a whole visibility timeout.
            match receive(&self.queue, self.limits.wait).await {
                Ok(records) => {
                    pauses = self::pauses();
                    self.vitals.polled(self.clock.now());
                    self.report_unreadable();
                    self.batch(records).await;
                }
                Err(error) => {
                    let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                    self.report_failed(error, pause);
                    // A pause may be broken off, unlike a receive: nothing is in anybody's hands.
                    let (slept, stopped) = (self.clock.sleep(pause), stop.requested());
                    pin_mut!(slept, stopped);
                    select(slept, stopped).await;
                }
            }
        }
    }

    async fn batch(&self, records: Vec<ReceivedMessage>) {
        if records.is_empty() {
            return;
        }
        let in_flight = self.vitals.batch_begins();
        let guarded = Guarded { function: &self.function, clock: &self.clock, observer: &self.observer };
        let left = invoke(&self.queue, &guarded, &self.clock, records, self.limits.invocation).await;
        for sqs_message_id in left {
            self.observer.observe(&Event::NotDeleted { sqs_message_id });
        }
        // Its own time does not count as time without a poll.
        self.vitals.polled(self.clock.now());
        drop(in_flight);
    }

    fn report_unreadable(&self) {
        for Unreadable { sqs_message_id, .. } in self.queue.take_unreadable() {
            self.observer.observe(&Event::UnreadableRecord { sqs_message_id });
        }
    }

    fn report_failed(&self, error: EntryError, pause: Duration) {
        let pause_seconds = pause.as_secs_f64();
        self.observer.observe(&Event::ReceiveFailed { code: error.code, pause_seconds });
    }
}

fn pauses() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    builder.without_max_times().with_jitter().build()
}

#[cfg(test)]
mod tests;

//! Polls one queue for one function: receive → invoke → delete, several batches at a time, until a stop is requested.

use std::num::NonZeroU16;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use futures_util::future::{Either, join_all, select};
use futures_util::{FutureExt as _, pin_mut};
use redeliver_aws::Stop;
use redeliver_core::deliver::time_until;
use redeliver_core::events::Event;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::polling::{invoke_function, receive_records, take_waiting_records};
use redeliver_core::ports::{Clock, EntryError, Function, Observer, Queue, UnreadableMessage};

use crate::health::Heartbeat;

/// The pause after the first failed receive; it doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause before jitter, which at most doubles it, so a pause lasts at most 30 s.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A function and the queue that it polls.
#[derive(Debug)]
pub(crate) struct Poller<Q, F, C, O> {
    pub(crate) queue: Q,
    pub(crate) function: F,
    pub(crate) clock: C,
    /// Observes errors from receives, invocations and deletes.
    pub(crate) observer: O,
    pub(crate) limits: PollerLimits,
    pub(crate) heartbeat: Arc<Heartbeat>,
}

/// The limits of one poller.
#[derive(Clone, Copy, Debug)]
pub struct PollerLimits {
    /// The number of concurrent batches.
    pub concurrency: NonZeroU16,
    /// The maximum batch size, 1..=10.
    pub batch_size: u8,
    /// The wait time of a long poll, 1..=20 s.
    pub wait: Duration,
    /// The time limit for one batch, at most the queue's visibility timeout. A batch that exceeds it is aborted, and
    /// its messages are received again.
    pub invocation: Duration,
}

impl<Q: Queue, F: Function, C: Clock, O: Observer> Poller<Q, F, C, O> {
    /// Polls until `stop` is requested and all received messages are handled. Dropping the future loses no message:
    /// undeleted messages become visible again.
    pub(crate) async fn run_until_stop(&self, stop: &Stop) {
        // Each loop has at most one batch, so no received message waits behind another batch.
        join_all((0..self.limits.concurrency.get()).map(|_| self.poll_until_stop(stop))).await;
    }

    async fn poll_until_stop(&self, stop: &Stop) {
        let mut pauses = receive_backoff();
        while !stop.is_requested() {
            // Never cancelled: messages that SQS returns at that point would be hidden for a whole visibility timeout.
            match receive_records(&self.queue, self.limits.batch_size, self.limits.wait).await {
                Ok(mut records) => {
                    pauses = self::receive_backoff();
                    self.heartbeat.record_poll(self.clock.now());
                    // These are only the unreadable messages from this receive: all pollers share one task, and nothing
                    // is awaited in between.
                    let unreadable = self.queue.take_unreadable();
                    take_waiting_records(&self.function, &mut records, &unreadable);
                    self.report_unreadable(unreadable);
                    self.handle_batch(records).await;
                }
                Err(error) => {
                    let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
                    self.report_failed_receive(error, pause);
                    // Unlike a receive, a pause can be cancelled: no message is in flight.
                    let (slept, stopped) = (self.clock.sleep(pause), stop.wait_until_requested());
                    pin_mut!(slept, stopped);
                    select(slept, stopped).await;
                }
            }
        }
    }

    async fn handle_batch(&self, records: Vec<ReceivedMessage>) {
        if records.is_empty() {
            return;
        }
        self.heartbeat.begin_batch();
        let guarded =
            GuardedFunction { function: &self.function, clock: &self.clock, observer: &self.observer };
        let not_deleted =
            invoke_function(&self.queue, &guarded, &self.clock, records, self.limits.invocation).await;
        for sqs_message_id in not_deleted {
            self.observer.observe(&Event::NotDeleted { sqs_message_id });
        }
        self.heartbeat.end_batch(self.clock.now());
    }

    fn report_unreadable(&self, unreadable: Vec<UnreadableMessage>) {
        for UnreadableMessage { sqs_message_id, .. } in unreadable {
            self.observer.observe(&Event::UnreadableRecord { sqs_message_id });
        }
    }

    fn report_failed_receive(&self, error: EntryError, pause: Duration) {
        let pause_seconds = pause.as_secs_f64();
        self.observer.observe(&Event::ReceiveFailed { code: error.code, pause_seconds });
    }
}

/// Returns the pauses after failed receives.
fn receive_backoff() -> ExponentialBackoff {
    let builder = ExponentialBuilder::new().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE);
    builder.without_max_times().with_jitter().build()
}

/// A wrapper that reports all records as failed, and emits an event, if the function panics or misses its deadline. In
/// Lambda, the process would end.
#[derive(Debug)]
struct GuardedFunction<'a, F, C, O> {
    function: &'a F,
    clock: &'a C,
    observer: &'a O,
}

impl<F: Function, C: Clock, O: Observer> Function for GuardedFunction<'_, F, C, O> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let all = records.len();
        let processing = AssertUnwindSafe(self.function.process_batch(records, deadline)).catch_unwind();
        let time_is_up = self.clock.sleep(time_until(self.clock.now(), deadline));
        pin_mut!(processing, time_is_up);
        let reason = match select(processing, time_is_up).await {
            Either::Left((Ok(confirmed), _)) => return confirmed,
            Either::Left((Err(_), _)) => "panic",
            Either::Right(_) => "timeout",
        };
        // It is unknown which records were processed, so none are confirmed or deleted, and all are received again.
        self.observer.observe(&Event::BatchBrokenOff { records: all, reason });
        Vec::new()
    }
}

#[cfg(test)]
mod tests;

//! An event source mapping with everything that can go wrong around a function.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::{Either, join, select};
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Function, Queue, ReceiveOptions};

use crate::ledger::Actor;
use crate::probe::Probe;
use crate::world::{SimulationWorld, SkewedClock};

/// A poller with the processes that it invokes one at a time.
pub struct EventSource<'a, P> {
    pub queue: Probe<'a>,
    /// Starts a process.
    pub process: P,
    /// The processes' clock.
    pub clock: SkewedClock,
}

/// A process with its state.
struct SimulatedEnvironment<F> {
    id: u64,
    function: F,
    /// The time at which Lambda ends the process.
    ends_at: Option<Timestamp>,
    /// The time at which Lambda ends the process if it stays idle.
    idle_until: Option<Timestamp>,
}

impl<F: Function, P: Fn(SkewedClock) -> F> EventSource<'_, P> {
    /// Polls until the end of the run.
    pub async fn poll_until_end(&self) {
        let world = self.queue.world;
        let mut environment = self.start_environment();
        while !world.has_ended() {
            let records = self.receive_batch(Duration::from_secs(20)).await;
            if records.is_empty() {
                self.sleep_while_empty().await;
                continue;
            }
            for batch in self.mix_receives(records).await {
                if self.is_broken() || world.fault_strikes(world.knobs.process.throttled) {
                    continue;
                }
                let ends = [environment.ends_at, environment.idle_until];
                if ends.into_iter().flatten().any(|end| world.clock.now() >= end) {
                    environment = self.restart_environment(&environment);
                }
                let lives = if world.fault_strikes(world.knobs.process.duplicate) {
                    let (one, other) = join(
                        self.invoke_batch(&environment, &batch),
                        self.invoke_batch(&environment, &batch),
                    )
                    .await;
                    one && other
                } else {
                    self.invoke_batch(&environment, &batch).await
                };
                if !lives {
                    environment = self.restart_environment(&environment);
                }
                environment.idle_until = self.idle_until();
            }
        }
    }

    fn start_environment(&self) -> SimulatedEnvironment<F> {
        let world = self.queue.world;
        let id = world.next_environment();
        if self.queue.actor == Actor::MessageProcessor {
            world.lock_ledger().start_environment(id, self.clock.skew_ms());
        }
        let lifetime = world.knobs.lifetime_seconds.map(Duration::from_secs);
        let ends_at = lifetime.map(|lifetime| world.clock.now() + lifetime);
        let function = (self.process)(self.clock.clone());
        SimulatedEnvironment { id, function, ends_at, idle_until: self.idle_until() }
    }

    fn idle_until(&self) -> Option<Timestamp> {
        let SimulationWorld { knobs, clock, .. } = self.queue.world;
        knobs.thin.map(|thin| clock.now() + Duration::from_secs(thin.idle_seconds))
    }

    fn restart_environment(&self, before: &SimulatedEnvironment<F>) -> SimulatedEnvironment<F> {
        self.queue.world.lock_ledger().end_environment(before.id);
        self.start_environment()
    }

    fn is_broken(&self) -> bool {
        let world = self.queue.world;
        let of_annotator = self.queue.actor == Actor::Annotator;
        of_annotator && world.knobs.process.annotator_broken && !world.is_healed()
    }

    async fn receive_batch(&self, wait: Duration) -> Vec<ReceivedMessage> {
        let request = ReceiveOptions { max_messages: 10, wait, visibility: None };
        match self.queue.receive(request).await {
            Ok(records) => records,
            Err(_) => {
                self.queue.world.clock.sleep(Duration::from_secs(1)).await;
                Vec::new()
            }
        }
    }

    /// Sleeps while the queue is empty, because a long poll every 20 seconds would find nothing for many virtual hours.
    async fn sleep_while_empty(&self) {
        let SimulationWorld { clock, sqs, .. } = self.queue.world;
        let most = clock.now() + TimeDelta::seconds(120);
        clock.sleep_until(sqs.next_due_at().map_or(most, |due| due.min(most))).await;
    }

    /// Occasionally mixes the records from several receives.
    async fn mix_receives(&self, mut records: Vec<ReceivedMessage>) -> Vec<Vec<ReceivedMessage>> {
        let world = self.queue.world;
        if world.fault_strikes(world.knobs.process.reorder) {
            for _ in 0..world.draw_up_to(3) {
                records.extend(self.receive_batch(Duration::ZERO).await);
            }
            for last in (1..records.len()).rev() {
                let other = usize::try_from(world.draw_up_to(last as u64)).unwrap_or(0);
                records.swap(last, other);
            }
        }
        records.chunks(10).map(<[_]>::to_vec).collect()
    }

    /// Invokes the process, which can die or lose its response, and deletes the records that it does not report as
    /// failed. Returns true if the process survives.
    async fn invoke_batch(&self, environment: &SimulatedEnvironment<F>, records: &[ReceivedMessage]) -> bool {
        let world = self.queue.world;
        let id = world.next_invocation();
        world.lock_ledger().begin_invocation(id, environment.id, records, world.clock.now());
        let lives =
            with_current_invocation(world, id, self.run_invocation(id, &environment.function, records)).await;
        world.lock_ledger().end_invocation(id);
        lives
    }

    async fn run_invocation(&self, id: u64, function: &F, records: &[ReceivedMessage]) -> bool {
        let world = self.queue.world;
        if self.queue.actor == Actor::Annotator && world.knobs.archiving.is_some() {
            // In reality, two processes with the same batch never start in the same nanosecond.
            world.take_a_moment().await;
        }
        let timeout = Duration::from_secs(world.knobs.invocation_seconds);
        let polls = world.fault_strikes(world.knobs.process.dies).then(|| world.draw_up_to(40));
        let process = function.batch_item_failures(records.to_vec(), self.clock.now() + timeout);
        let time_is_up = pin!(world.clock.sleep(timeout));
        let failed = match select(pin!(run_until_death(process, polls)), time_is_up).await {
            Either::Left((Some(failed), _)) => failed,
            Either::Left((None, _)) => return false,
            Either::Right(_) => {
                world.lock_ledger().check_timed_out_invocation(id);
                return false;
            }
        };
        let failed: BTreeSet<_> = failed.into_iter().collect();
        if world.fault_strikes(world.knobs.process.response_lost) {
            return true;
        }
        let done: Vec<_> = records.iter().filter(|record| !failed.contains(&record.sqs_message_id)).collect();
        let handles: Vec<_> = done.into_iter().map(|record| record.receipt_handle.clone()).collect();
        if !handles.is_empty() {
            self.queue.delete_batch(&handles).await;
        }
        true
    }
}

/// Runs the future and makes `id` the ledger's current invocation during each poll.
async fn with_current_invocation<T>(world: &SimulationWorld, id: u64, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        world.lock_ledger().set_current_invocation(Some(id));
        let polled = future.as_mut().poll(context);
        world.record_spans();
        world.lock_ledger().set_current_invocation(None);
        polled
    })
    .await
}

/// Returns the future's output, or `None` if it dies first, after this many polls.
pub async fn run_until_death<T>(future: impl Future<Output = T>, polls: Option<u64>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == Some(0) {
            return Poll::Ready(None);
        }
        left = left.map(|left| left - 1);
        future.as_mut().poll(context).map(Some)
    })
    .await
}

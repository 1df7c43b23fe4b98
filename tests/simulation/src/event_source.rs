//! An event source mapping, with everything that can go wrong around a function.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::{Either, join, select};
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Function, Queue, Receive};

use crate::ledger::Actor;
use crate::probe::Probe;
use crate::world::{SkewedClock, World};

/// A poller and the processes that it invokes, one at a time.
pub struct EventSource<'a, P> {
    pub queue: Probe<'a>,
    /// Starts a process.
    pub process: P,
    /// The processes' clock.
    pub clock: SkewedClock,
}

/// A process, with its state.
struct Environment<F> {
    id: u64,
    function: F,
    /// The time when Lambda ends it.
    ends_at: Option<Timestamp>,
    /// The time when Lambda ends it if it stays idle.
    idle_until: Option<Timestamp>,
}

impl<F: Function, P: Fn(SkewedClock) -> F> EventSource<'_, P> {
    /// Polls until the end of the run.
    pub async fn run(&self) {
        let world = self.queue.world;
        let mut environment = self.begin();
        while !world.is_over() {
            let records = self.receive(Duration::from_secs(20)).await;
            if records.is_empty() {
                self.idle().await;
                continue;
            }
            for batch in self.reordered(records).await {
                if self.is_broken() || world.strikes(world.knobs.process.throttled) {
                    continue;
                }
                let ends = [environment.ends_at, environment.idle_until];
                if ends.into_iter().flatten().any(|end| world.clock.now() >= end) {
                    environment = self.restart(&environment);
                }
                let lives = if world.strikes(world.knobs.process.duplicate) {
                    let (one, other) =
                        join(self.invoke(&environment, &batch), self.invoke(&environment, &batch)).await;
                    one && other
                } else {
                    self.invoke(&environment, &batch).await
                };
                if !lives {
                    environment = self.restart(&environment);
                }
                environment.idle_until = self.idle_until();
            }
        }
    }

    fn begin(&self) -> Environment<F> {
        let world = self.queue.world;
        let id = world.next_environment();
        if self.queue.actor == Actor::MessageProcessor {
            world.ledger().started(id, self.clock.skew_ms());
        }
        let lifetime = world.knobs.lifetime_seconds.map(Duration::from_secs);
        let ends_at = lifetime.map(|lifetime| world.clock.now() + lifetime);
        let function = (self.process)(self.clock.clone());
        Environment { id, function, ends_at, idle_until: self.idle_until() }
    }

    fn idle_until(&self) -> Option<Timestamp> {
        let World { knobs, clock, .. } = self.queue.world;
        knobs.thin.map(|thin| clock.now() + Duration::from_secs(thin.idle_seconds))
    }

    fn restart(&self, before: &Environment<F>) -> Environment<F> {
        self.queue.world.ledger().ended(before.id);
        self.begin()
    }

    fn is_broken(&self) -> bool {
        let world = self.queue.world;
        let of_annotator = self.queue.actor == Actor::Annotator;
        of_annotator && world.knobs.process.annotator_broken && !world.is_healed()
    }

    async fn receive(&self, wait: Duration) -> Vec<ReceivedMessage> {
        let request = Receive { max_messages: 10, wait, visibility: None };
        match self.queue.receive(request).await {
            Ok(records) => records,
            Err(_) => {
                self.queue.world.clock.sleep(Duration::from_secs(1)).await;
                Vec::new()
            }
        }
    }

    /// Sleeps while the queue is empty: a long poll every 20 seconds of many virtual hours would find nothing.
    async fn idle(&self) {
        let World { clock, sqs, .. } = self.queue.world;
        let most = clock.now() + TimeDelta::seconds(120);
        clock.sleep_until(sqs.next_due().map_or(most, |due| due.min(most))).await;
    }

    /// Mixes the records of several receives, now and then.
    async fn reordered(&self, mut records: Vec<ReceivedMessage>) -> Vec<Vec<ReceivedMessage>> {
        let world = self.queue.world;
        if world.strikes(world.knobs.process.reorder) {
            for _ in 0..world.up_to(3) {
                records.extend(self.receive(Duration::ZERO).await);
            }
            for last in (1..records.len()).rev() {
                let other = usize::try_from(world.up_to(last as u64)).unwrap_or(0);
                records.swap(last, other);
            }
        }
        records.chunks(10).map(<[_]>::to_vec).collect()
    }

    /// One invocation: the process may die, or its answer get lost; records that it does not report as failed are
    /// deleted. Returns true if the process lives.
    async fn invoke(&self, environment: &Environment<F>, records: &[ReceivedMessage]) -> bool {
        let world = self.queue.world;
        let id = world.next_invocation();
        world.ledger().invoked(id, environment.id, records, world.clock.now());
        let lives = in_turn(world, id, self.invocation(id, &environment.function, records)).await;
        world.ledger().over(id);
        lives
    }

    async fn invocation(&self, id: u64, function: &F, records: &[ReceivedMessage]) -> bool {
        let world = self.queue.world;
        if self.queue.actor == Actor::Annotator && world.knobs.archiving.is_some() {
            // Two processes with the same batch: in reality they never begin at the same nanosecond.
            world.take_a_moment().await;
        }
        let timeout = Duration::from_secs(world.knobs.invocation_seconds);
        let polls = world.strikes(world.knobs.process.dies).then(|| world.up_to(40));
        let process = function.batch_item_failures(records.to_vec(), self.clock.now() + timeout);
        let time_is_up = pin!(world.clock.sleep(timeout));
        let failed = match select(pin!(dying(process, polls)), time_is_up).await {
            Either::Left((Some(failed), _)) => failed,
            Either::Left((None, _)) => return false,
            Either::Right(_) => {
                world.ledger().timed_out(id);
                return false;
            }
        };
        let failed: BTreeSet<_> = failed.into_iter().collect();
        if world.strikes(world.knobs.process.response_lost) {
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

/// Sets the ledger's current invocation at each poll.
async fn in_turn<T>(world: &World, id: u64, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        world.ledger().turn(Some(id));
        let polled = future.as_mut().poll(context);
        world.enter_spans();
        world.ledger().turn(None);
        polled
    })
    .await
}

/// The future's output, unless it dies after this many polls.
pub async fn dying<T>(future: impl Future<Output = T>, polls: Option<u64>) -> Option<T> {
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

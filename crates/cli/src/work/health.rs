//! Whether the workers live.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redeliver_aws::Stop;
use redeliver_core::deliver::until;
use redeliver_core::message::Timestamp;
use serde::Serialize;

/// Without a successful poll for longer than this, a worker is not healthy: a long poll and a pause are over by then.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The signs of life of one worker.
#[derive(Debug)]
pub struct Vitals {
    function: String,
    last_poll: Mutex<Timestamp>,
    batches_in_flight: AtomicUsize,
}

impl Vitals {
    /// Of a worker that begins `now`.
    #[must_use]
    pub fn new(function: impl Into<String>, now: Timestamp) -> Self {
        Self { function: function.into(), last_poll: Mutex::new(now), batches_in_flight: AtomicUsize::new(0) }
    }

    pub(super) fn polled(&self, now: Timestamp) {
        *self.last_poll.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// A batch is in flight until the guard is dropped.
    pub(super) fn batch_begins(&self) -> InFlight<'_> {
        self.batches_in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    pub(super) fn report(&self, now: Timestamp) -> FunctionReport {
        let since = until(*self.last_poll.lock().unwrap_or_else(PoisonError::into_inner), now);
        let batches_in_flight = self.batches_in_flight.load(Ordering::Relaxed);
        FunctionReport {
            function: self.function.clone(),
            // A batch ends by its deadline, whatever it does: who has one is not stuck.
            healthy: since <= UNHEALTHY_AFTER || batches_in_flight > 0,
            seconds_since_poll: since.as_secs(),
            batches_in_flight,
        }
    }
}

#[derive(Debug)]
pub(super) struct InFlight<'a>(&'a Vitals);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.batches_in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The health of the whole process.
#[derive(Debug)]
pub struct Health {
    pub workers: Vec<Arc<Vitals>>,
    pub stop: Stop,
}

/// What `/healthz` answers.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether all is well; a process that is stopping is left alone.
    pub healthy: bool,
    pub functions: Vec<FunctionReport>,
}

/// What `/healthz` says of one function.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FunctionReport {
    /// Its name in logs and metrics.
    pub function: String,
    /// Whether it reaches its queue.
    pub healthy: bool,
    /// Since its queue answered a receive, or a batch ended.
    pub seconds_since_poll: u64,
    /// Batches that it is at.
    pub batches_in_flight: usize,
}

impl Health {
    #[must_use]
    pub fn report(&self, now: Timestamp) -> Report {
        let functions: Vec<_> = self.workers.iter().map(|vitals| vitals.report(now)).collect();
        let healthy = !self.is_ready() || functions.iter().all(|function| function.healthy);
        Report { healthy, functions }
    }

    /// Whether it takes on work: until it is to stop.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.stop.is_requested()
    }
}

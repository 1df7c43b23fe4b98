//! The health of the pollers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redeliver_aws::Stop;
use redeliver_core::deliver::until;
use redeliver_core::message::Timestamp;
use serde::Serialize;

use redeliver_core::lock;

/// A poller is unhealthy when its last successful poll is longer ago: a long poll and a pause take less.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The last poll and the batches of one poller.
#[derive(Debug)]
pub struct Heartbeat {
    function: String,
    last_poll: Mutex<Timestamp>,
    batches_in_flight: AtomicUsize,
}

impl Heartbeat {
    /// For a poller that starts `now`.
    #[must_use]
    pub fn new(function: impl Into<String>, now: Timestamp) -> Self {
        Self { function: function.into(), last_poll: Mutex::new(now), batches_in_flight: AtomicUsize::new(0) }
    }

    pub(super) fn polled(&self, now: Timestamp) {
        *lock(&self.last_poll) = now;
    }

    pub(super) fn batch_begins(&self) {
        self.batches_in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// The time of a batch is not time without a poll.
    pub(super) fn batch_ends(&self, now: Timestamp) {
        self.polled(now);
        self.batches_in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn report(&self, now: Timestamp) -> FunctionHealth {
        let since = until(*lock(&self.last_poll), now);
        let batches_in_flight = self.batches_in_flight.load(Ordering::Relaxed);
        FunctionHealth {
            function: self.function.clone(),
            // A batch ends by its deadline, so a poller with a batch is not stuck.
            healthy: since <= UNHEALTHY_AFTER || batches_in_flight > 0,
            seconds_since_poll: since.as_secs(),
            batches_in_flight,
        }
    }
}

/// The health of the whole process.
#[derive(Clone, Debug)]
pub struct Health {
    pub pollers: Vec<Arc<Heartbeat>>,
    pub stop: Stop,
}

/// The body of `/healthz`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// True if all functions are healthy, or if the process is stopping.
    pub healthy: bool,
    pub functions: Vec<FunctionHealth>,
}

/// The health of one function.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FunctionHealth {
    /// Its name in logs and metrics.
    pub function: String,
    /// True if the function reaches its queue.
    pub healthy: bool,
    /// Since the queue answered a receive, or a batch ended.
    pub seconds_since_poll: u64,
    pub batches_in_flight: usize,
}

impl Health {
    #[must_use]
    pub fn report(&self, now: Timestamp) -> HealthReport {
        let functions: Vec<_> = self.pollers.iter().map(|heartbeat| heartbeat.report(now)).collect();
        let healthy = !self.is_ready() || functions.iter().all(|function| function.healthy);
        HealthReport { healthy, functions }
    }

    /// True while the process receives messages: until it is asked to stop.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.stop.is_requested()
    }
}

//! The health of the pollers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redeliver_aws::Stop;
use redeliver_core::deliver::time_until;
use redeliver_core::message::Timestamp;
use serde::Serialize;

use redeliver_core::lock;

/// The age of the last successful poll beyond which a poller is unhealthy. A long poll plus a pause is shorter.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(60);

/// A poller's last poll and its batches in flight.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    function: String,
    last_poll: Mutex<Timestamp>,
    batches_in_flight: AtomicUsize,
}

impl Heartbeat {
    /// Creates the heartbeat of a poller that starts at `now`.
    pub(crate) fn new(function: impl Into<String>, now: Timestamp) -> Self {
        Self { function: function.into(), last_poll: Mutex::new(now), batches_in_flight: AtomicUsize::new(0) }
    }

    pub(crate) fn record_poll(&self, now: Timestamp) {
        *lock(&self.last_poll) = now;
    }

    pub(crate) fn begin_batch(&self) {
        self.batches_in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Resets the time since the last poll: a batch in progress does not count against the poller.
    pub(crate) fn end_batch(&self, now: Timestamp) {
        self.record_poll(now);
        self.batches_in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn function_health(&self, now: Timestamp) -> FunctionHealth {
        let since = time_until(*lock(&self.last_poll), now);
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
pub(crate) struct Health {
    pub(crate) pollers: Vec<Arc<Heartbeat>>,
    pub(crate) stop: Stop,
}

/// The body of `/healthz`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HealthReport {
    /// True if all functions are healthy, or if the process is stopping.
    pub(crate) healthy: bool,
    pub(crate) functions: Vec<FunctionHealth>,
}

/// The health of one function.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FunctionHealth {
    /// The function's name in logs and metrics.
    pub(crate) function: String,
    /// True if the function can reach its queue.
    pub(crate) healthy: bool,
    /// Seconds since the last successful receive or the end of the last batch.
    pub(crate) seconds_since_poll: u64,
    pub(crate) batches_in_flight: usize,
}

impl Health {
    pub(crate) fn health_report(&self, now: Timestamp) -> HealthReport {
        let functions: Vec<_> = self.pollers.iter().map(|heartbeat| heartbeat.function_health(now)).collect();
        let healthy = !self.is_ready() || functions.iter().all(|function| function.healthy);
        HealthReport { healthy, functions }
    }

    /// Returns true while the process receives messages, that is, until a stop is requested.
    pub(crate) fn is_ready(&self) -> bool {
        !self.stop.is_requested()
    }
}

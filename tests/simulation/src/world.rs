//! The state that the actors of a run share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{SubsecRound as _, TimeDelta};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Fault, Observer};
use redeliver_core::trace::Tracer;
use redeliver_embedded::{EmbeddedSqs, FaultPlan, MemoryBucket, VirtualClock};

use crate::knobs::{
    Capacity, OutageEffect, OutageScope, PlannedOutage, RequestedDelay, Silences, SimulationKnobs,
    TracingKnobs,
};
use crate::ledger::{Actor, Ledger};
use crate::messages::ProducedMessage;

/// The number of queue changes after which the faults end, regardless of the knobs.
const FAULT_CHANGES_MAX: u64 = 30_000;

/// The world of one run.
pub struct SimulationWorld {
    pub knobs: SimulationKnobs,
    pub messages: Vec<ProducedMessage>,
    pub clock: VirtualClock,
    pub sqs: EmbeddedSqs,
    pub bucket: MemoryBucket,
    tracer: Option<Tracer>,
    ledger: Mutex<Ledger>,
    rng: Mutex<StdRng>,
    invocations: AtomicU64,
    environments: AtomicU64,
    /// Number of target calls so far, used so that no two end at the same time.
    calls: AtomicU64,
    load: Mutex<TargetLoad>,
    start: Timestamp,
    healed: AtomicBool,
    over: AtomicBool,
}

/// The load of a target with limited capacity. Times are in seconds since the start of the run.
#[derive(Clone, Copy, Default)]
struct TargetLoad {
    window: u64,
    calls: u32,
    banned_until: u64,
    ban_seconds: u64,
}

impl SimulationWorld {
    /// Creates a world in which nothing has happened yet.
    #[must_use]
    pub fn new(
        knobs: SimulationKnobs,
        messages: Vec<ProducedMessage>,
        sqs: EmbeddedSqs,
        ledger: Ledger,
    ) -> Self {
        Self {
            messages,
            clock: sqs.clock().clone(),
            start: sqs.clock().now(),
            sqs,
            bucket: MemoryBucket::default(),
            // All processes share one tracer, so that no two spans of a run have the same id.
            tracer: knobs.tracing.map(|TracingKnobs { continues }| Tracer::new(|| [7; 32], continues)),
            ledger: Mutex::new(ledger),
            rng: Mutex::new(StdRng::seed_from_u64(knobs.seed ^ 0x5eed)),
            invocations: AtomicU64::new(0),
            environments: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            load: Mutex::default(),
            healed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            knobs,
        }
    }

    /// Locks the ledger. Everything runs on one thread, so the lock is never contended.
    pub fn lock_ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the latest queue changes to the ledger.
    pub fn apply_changes(&self, actor: Actor) {
        // The span of a send was recorded before the send.
        self.record_spans();
        self.lock_ledger().apply_changes(actor, self.sqs.take_changes());
    }

    /// Passes the latest spans to the ledger.
    pub fn record_spans(&self) {
        if let Some(tracer) = &self.tracer {
            let ended = tracer.take_ended();
            self.lock_ledger().record_spans(&ended.spans, ended.dropped);
        }
    }

    /// Returns true with this probability during the faults, and never afterwards.
    pub fn fault_strikes(&self, chance: f64) -> bool {
        !self.is_healed() && chance > 0.0 && self.lock_rng().random_bool(chance)
    }

    /// Draws a number in `0..=most`.
    pub fn draw_up_to(&self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.lock_rng().random_range(0..=most) }
    }

    /// Draws a number in `0.0..1.0`.
    pub fn random_fraction(&self) -> f64 {
        self.lock_rng().random()
    }

    /// Ends all faults.
    pub fn end_faults(&self) {
        self.healed.store(true, Ordering::Relaxed);
        self.sqs.set_faults(FaultPlan::default());
        // The end of the run depends on exact counts: it waits until all queues are empty.
        self.sqs.set_counts_lag(Duration::ZERO);
    }

    /// Returns true if the faults are over.
    pub fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    /// Ends the run.
    pub fn end_run(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Returns true if the faults and the operator's work should end: their time is over, or the queues have changed so
    /// often that the run would not finish.
    pub fn should_wind_down(&self) -> bool {
        self.is_healed() || self.lock_ledger().change_count() > FAULT_CHANGES_MAX
    }

    /// Returns the number of a new invocation.
    pub fn next_invocation(&self) -> u64 {
        self.invocations.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of a new process.
    pub fn next_environment(&self) -> u64 {
        self.environments.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a call to the target take a few milliseconds. No two calls end in the same nanosecond, so the ledger knows
    /// which result reached the circuit breaker first.
    pub async fn take_a_moment(&self) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) % 999_999 + 1;
        let now = self.clock.now().trunc_subsecs(3);
        let milliseconds = i64::try_from(1 + self.draw_up_to(20)).unwrap_or(1);
        let nanoseconds = i64::try_from(call).unwrap_or(1);
        let end = now + TimeDelta::milliseconds(milliseconds) + TimeDelta::nanoseconds(nanoseconds);
        self.clock.sleep_until(end).await;
    }

    /// Delays a call if the target is slow, possibly beyond the end of the invocation.
    pub async fn delay_slow_call(&self) {
        if self.fault_strikes(self.knobs.target.slow) {
            let most = 2000 * self.knobs.invocation_seconds;
            self.clock.sleep(Duration::from_millis(self.draw_up_to(most))).await;
        }
    }

    /// Returns the effect of the current outage on this tenant's messages, if any.
    pub fn current_outage(&self, tenant: Option<&str>) -> Option<OutageEffect> {
        let PlannedOutage { shape, down, from_seconds, seconds } = self.knobs.outage?;
        let since = (self.clock.now() - self.start).num_seconds() - i64::from(from_seconds);
        if self.is_healed() || !(0..i64::from(seconds)).contains(&since) {
            return None;
        }
        let is_down = match shape {
            OutageScope::Whole => true,
            OutageScope::Flapping => since / 20 % 2 == 0,
            OutageScope::Partial => self.random_fraction() < 0.3,
            OutageScope::OneTenant => tenant == Some("tenant-3"),
            OutageScope::SomeTenants => ["tenant-1", "tenant-3", "tenant-5"].map(Some).contains(&tenant),
        };
        is_down.then_some(down)
    }

    /// Returns true if the bucket currently refuses all requests.
    pub fn bucket_is_down(&self) -> bool {
        let outage = self.knobs.archiving.as_ref().and_then(|archiving| archiving.outage_seconds.clone());
        let since = (self.clock.now() - self.start).num_seconds().unsigned_abs();
        !self.is_healed() && outage.is_some_and(|outage| outage.contains(&since))
    }

    /// Counts a call against the target's capacity. Returns `None` if the target accepts it, and otherwise the
    /// `Retry-After` of the refusal, if it has one.
    pub fn refusal_over_capacity(&self) -> Option<Option<u64>> {
        let Capacity { calls, seconds, asks } = self.knobs.capacity.filter(|_| !self.is_healed())?;
        let now = (self.clock.now() - self.start).num_seconds().unsigned_abs();
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        let window = now / u64::from(seconds);
        if load.window != window {
            *load = TargetLoad { window, calls: 0, ..*load };
        }
        load.calls += 1;
        let rest = (window + 1) * u64::from(seconds) - now;
        let is_banned = now < load.banned_until;
        if load.calls <= calls && !is_banned {
            return None;
        }
        Some(match asks {
            RequestedDelay::Nothing => None,
            RequestedDelay::UntilAvailable => Some(rest),
            RequestedDelay::Ban => {
                load.ban_seconds = if is_banned { (2 * load.ban_seconds).min(600) } else { 2 * rest };
                load.banned_until = now + load.ban_seconds;
                Some(load.ban_seconds)
            }
        })
    }

    /// Returns true if the run is finished or a rule is broken.
    pub fn has_ended(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.lock_ledger().violation().is_some()
    }

    /// Waits for one trip over the network.
    pub async fn cross_network(&self) {
        // A slow network is also a fault: it makes processes miss their deadlines.
        let most = if self.is_healed() { self.knobs.latency_ms.min(20) } else { self.knobs.latency_ms };
        if most > 0 {
            self.clock.sleep(Duration::from_millis(self.draw_up_to(most))).await;
        }
    }

    /// Returns true if a request accepted now gets no response in time.
    pub fn is_silent(&self) -> bool {
        let Silences { every_seconds, seconds } = self.knobs.silences;
        let now = u64::try_from(self.clock.now().timestamp()).unwrap_or(0);
        !self.is_healed() && now.checked_rem(every_seconds).is_some_and(|since| since < seconds)
    }

    /// Returns the fault that replaces the response to a request accepted during a silence, or `None` if the response
    /// is only late. One time in four, this never returns.
    pub async fn silent_fault(&self) -> Option<Fault> {
        let (fault, seconds_max) = match self.draw_up_to(3) {
            0 => return std::future::pending().await,
            1 => (None, 60),
            2 => (Some(Fault::NoAnswer), 10),
            _ => (Some(Fault::Service), 10),
        };
        self.clock.sleep(Duration::from_secs(self.draw_up_to(seconds_max))).await;
        fault
    }

    /// Creates a clock for a new process. The clock can be wrong.
    pub fn skewed_clock(&self) -> SkewedClock {
        let most = u64::try_from(self.knobs.skew_ms).unwrap_or(0);
        let skew_ms = i64::try_from(self.draw_up_to(2 * most)).unwrap_or(0) - self.knobs.skew_ms;
        SkewedClock { clock: self.clock.clone(), skew_ms }
    }

    fn lock_rng(&self) -> MutexGuard<'_, StdRng> {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A clock with a constant error.
#[derive(Clone, Debug)]
pub struct SkewedClock {
    clock: VirtualClock,
    skew_ms: i64,
}

impl SkewedClock {
    /// Returns the error in milliseconds.
    #[must_use]
    pub fn skew_ms(&self) -> i64 {
        self.skew_ms
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        self.clock.now() + TimeDelta::milliseconds(self.skew_ms)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.clock.sleep(duration)
    }
}

/// An observer that passes the functions' events to the ledger.
#[derive(Clone, Copy)]
pub struct LedgerObserver<'a>(pub &'a SimulationWorld);

impl Observer for LedgerObserver<'_> {
    fn observe(&self, event: &Event) {
        self.0.lock_ledger().check_event(event, self.0.clock.now());
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.0.tracer.as_ref()
    }
}

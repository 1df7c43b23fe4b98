//! Virtual time, which advances only when nothing can run.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use chrono::TimeDelta;
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;

/// A clock that stops while [`VirtualClock::run`] has work to do and then jumps to the next timer. An hour of sleep
/// takes no real time. Clones share the same time.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    state: Arc<Mutex<ClockState>>,
}

#[derive(Debug)]
struct ClockState {
    now: Timestamp,
    /// Timers by due time, then in registration order.
    timers: BTreeMap<(Timestamp, u64), Waker>,
    next_timer: u64,
    holds: usize,
    /// The waker of the running executor, called when the last hold is dropped.
    executor: Option<Waker>,
}

/// The result of an attempt to advance time.
pub(crate) enum AdvanceOutcome {
    /// Time has advanced, and a timer was woken.
    Moved,
    /// Time has not advanced: the future can make progress now.
    Woken,
    /// Time is held: the executor must wait for a real event.
    Held,
    /// No timer and no hold exists: the future can never make progress.
    Nothing,
}

impl VirtualClock {
    /// Creates a clock that starts at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        let state =
            ClockState { now: start, timers: BTreeMap::new(), next_timer: 0, holds: 0, executor: None };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Keeps time from jumping while the guard exists, for work in real time such as an HTTP call.
    #[must_use = "time jumps again as soon as the guard is dropped"]
    pub fn hold_time(&self) -> TimeHold {
        self.lock_state().holds += 1;
        TimeHold { clock: self.clone() }
    }

    /// Completes at `deadline`, or immediately if `deadline` has passed.
    #[must_use]
    pub fn sleep_until(&self, deadline: Timestamp) -> Sleep {
        Sleep { clock: self.clone(), deadline, timer: None }
    }

    /// Jumps to the next timer and wakes it, unless time is held or `is_woken` returns true. A thread that drops the
    /// last hold wakes the executor.
    pub(crate) fn advance_time(&self, is_woken: impl FnOnce() -> bool) -> AdvanceOutcome {
        let mut state = self.lock_state();
        if state.holds > 0 {
            return AdvanceOutcome::Held;
        }
        if is_woken() {
            return AdvanceOutcome::Woken;
        }
        let Some(((due, _), waker)) = state.timers.pop_first() else {
            return AdvanceOutcome::Nothing;
        };
        // The timer may be overdue, but time never runs backwards.
        state.now = state.now.max(due);
        // The waker may call back into this clock.
        drop(state);
        waker.wake();
        AdvanceOutcome::Moved
    }

    /// Replaces the executor; returns the previous one.
    pub(crate) fn set_executor(&self, executor: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut self.lock_state().executor, executor)
    }

    fn lock_state(&self) -> MutexGuard<'_, ClockState> {
        // No foreign code runs under the lock, so a panic leaves the state intact.
        lock(&self.state)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.lock_state().now
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.sleep_until(add_duration(self.now(), duration))
    }
}

/// Adds `duration` to `moment`, up to `Timestamp::MAX_UTC`.
pub(crate) fn add_duration(moment: Timestamp, duration: Duration) -> Timestamp {
    TimeDelta::from_std(duration)
        .ok()
        .and_then(|delta| moment.checked_add_signed(delta))
        .unwrap_or(Timestamp::MAX_UTC)
}

/// A future that waits for a point in time on a [`VirtualClock`]. Dropping it removes its timer, which then no longer
/// advances time.
#[derive(Debug)]
pub struct Sleep {
    clock: VirtualClock,
    deadline: Timestamp,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sleep = &mut *self;
        let mut state = sleep.clock.lock_state();
        if state.now >= sleep.deadline {
            return Poll::Ready(());
        }
        let timer = *sleep.timer.get_or_insert_with(|| {
            state.next_timer += 1;
            state.next_timer
        });
        state.timers.insert((sleep.deadline, timer), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.clock.lock_state().timers.remove(&(self.deadline, timer));
        }
    }
}

/// A guard that keeps time from jumping; see [`VirtualClock::hold_time`].
#[derive(Debug)]
pub struct TimeHold {
    clock: VirtualClock,
}

impl Drop for TimeHold {
    fn drop(&mut self) {
        let mut state = self.clock.lock_state();
        state.holds -= 1;
        if state.holds > 0 {
            return;
        }
        let executor = state.executor.clone();
        drop(state);
        if let Some(executor) = executor {
            executor.wake();
        }
    }
}

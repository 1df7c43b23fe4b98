//! Runs a future in virtual time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use thiserror::Error;

use crate::clock::{AdvanceOutcome, VirtualClock};

/// An error: the future waits for an event that can never happen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "stuck at {at}: the future is waiting, but no timer is set and nothing holds the clock; \
     if it waits for a real event (a socket, a thread), keep a VirtualClock::hold_time guard meanwhile"
)]
pub struct StuckError {
    pub at: Timestamp,
}

impl VirtualClock {
    /// Runs `future` on this clock: whenever the future waits and has not been woken, time jumps to the next timer.
    ///
    /// Works under any runtime. While a [`hold`](Self::hold_time) exists, the future waits for a real wake-up, like any
    /// other future.
    ///
    /// # Errors
    /// [`StuckError`] if the future waits, no timer is set and no hold exists.
    ///
    /// # Panics
    /// If this clock is already running a future, since two executors would advance each other's time.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, StuckError> {
        let flag = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&flag));
        let _running = ExecutorGuard::start(self, &waker);
        let mut future = pin!(future);
        poll_fn(move |outer| {
            loop {
                flag.clear_wakeup();
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Poll::Ready(Ok(output));
                }
                // The future woke itself while it ran, so it can make progress and time must not advance.
                if flag.is_woken() {
                    continue;
                }
                match self.advance_time(|| flag.is_woken()) {
                    AdvanceOutcome::Moved | AdvanceOutcome::Woken => {}
                    // Registered before `Pending` is returned: otherwise a wake-up in between would be lost, and the
                    // run would hang.
                    AdvanceOutcome::Held if flag.register_outer(outer.waker()) => return Poll::Pending,
                    AdvanceOutcome::Held => {}
                    AdvanceOutcome::Nothing => return Poll::Ready(Err(StuckError { at: self.now() })),
                }
            }
        })
        .await
    }

    /// Runs a future on this clock and the current thread, for tests; see [`run`](Self::run).
    ///
    /// # Panics
    /// Like [`run`](Self::run), and if the run ends with [`StuckError`].
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match futures_executor::block_on(self.run(future)) {
            Ok(output) => output,
            Err(stuck) => panic!("{stuck}"),
        }
    }
}

/// The only executor of a clock.
struct ExecutorGuard<'a> {
    clock: &'a VirtualClock,
}

impl<'a> ExecutorGuard<'a> {
    fn start(clock: &'a VirtualClock, waker: &Waker) -> Self {
        let other = clock.set_executor(Some(waker.clone()));
        assert!(
            other.is_none(),
            "this VirtualClock is already running a future; give each run its own clock"
        );
        Self { clock }
    }
}

impl Drop for ExecutorGuard<'_> {
    fn drop(&mut self) {
        self.clock.set_executor(None);
    }
}

/// A flag that records a wake-up and wakes the outer executor if it is waiting.
#[derive(Default)]
struct WakeFlag {
    woken: AtomicBool,
    outer: AtomicWaker,
}

impl WakeFlag {
    fn clear_wakeup(&self) {
        drop(self.outer.take());
        self.woken.store(false, Ordering::SeqCst);
    }

    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Registers the outer waker. Returns false if a wake-up came first.
    fn register_outer(&self, outer: &Waker) -> bool {
        // Registers, then checks the flag. `wake` sets the flag, then wakes the registered waker, so no wake-up is
        // lost.
        self.outer.register(outer);
        !self.is_woken()
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.outer.wake();
    }
}

#[cfg(test)]
mod tests;

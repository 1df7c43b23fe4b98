//! The environments of a function, as Lambda has them: each does one invocation at a time, and has a memory of its own,
//! which is where a circuit breaker lives.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redeliver_core::deliver::until;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Function};
use redeliver_embedded::VirtualClock;

use crate::sync::lock;

/// An assumption: AWS does not say for how long an idle environment is kept; people have measured 5 to 15 minutes.
const IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// "Lambda terminates execution environments every few hours", also those at work ("Understanding the Lambda execution
/// environment lifecycle"). How many hours a few are is an assumption.
const LIFETIME: Duration = Duration::from_secs(2 * 3600);

/// A function each of whose environments is made by `start`.
pub(super) struct Environments<'a, S, F> {
    start: S,
    clock: &'a VirtualClock,
    taken: Taken,
    /// The one that was used last is the last one.
    idle: Mutex<VecDeque<Environment<F>>>,
    started: AtomicU64,
}

/// Which of the idle environments an invocation gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// As it seems to be in Lambda: the one that was used last, and a new one only if none is idle.
    MostRecent,
    /// One after the other, of so many. If invocations take no time, the one that was used last would do them all.
    InTurn(usize),
}

struct Environment<F> {
    function: F,
    started_at: Timestamp,
    used_at: Timestamp,
}

impl<'a, S: Fn() -> F, F> Environments<'a, S, F> {
    pub(super) fn new(taken: Taken, clock: &'a VirtualClock, start: S) -> Self {
        Self { start, clock, taken, idle: Mutex::default(), started: AtomicU64::new(0) }
    }

    /// How many were started.
    pub(super) fn started(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    fn take(&self) -> Environment<F> {
        let now = self.clock.now();
        let idle = {
            let mut idle = lock(&self.idle);
            idle.retain(|environment| {
                until(environment.used_at, now) < IDLE_MAX && until(environment.started_at, now) < LIFETIME
            });
            match self.taken {
                Taken::MostRecent => idle.pop_back(),
                Taken::InTurn(of) if idle.len() < of => None,
                Taken::InTurn(_) => idle.pop_front(),
            }
        };
        idle.unwrap_or_else(|| {
            self.started.fetch_add(1, Ordering::Relaxed);
            Environment { function: (self.start)(), started_at: now, used_at: now }
        })
    }
}

impl<S: Fn() -> F + Send + Sync, F: Function> Function for Environments<'_, S, F> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let mut environment = self.take();
        let response = environment.function.process(records, deadline).await;
        environment.used_at = self.clock.now();
        lock(&self.idle).push_back(environment);
        response
    }
}

#[cfg(test)]
mod tests {
    use futures_util::join;

    use super::*;

    /// Takes a second, and notes who it was.
    struct Numbered<'a> {
        number: u64,
        clock: &'a VirtualClock,
        invoked: &'a Mutex<Vec<u64>>,
    }

    impl Function for Numbered<'_> {
        async fn process(&self, _: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            self.invoked.lock().unwrap().push(self.number);
            self.clock.sleep(Duration::from_secs(1)).await;
            Vec::new()
        }
    }

    /// A clock, and which environments were invoked: known by how many were started before.
    fn world() -> (VirtualClock, Mutex<Vec<u64>>) {
        (VirtualClock::new(Timestamp::UNIX_EPOCH), Mutex::default())
    }

    macro_rules! environments {
        ($taken:expr, $clock:ident, $invoked:ident) => {{
            let numbers = AtomicU64::new(0);
            let (clock, invoked) = (&$clock, &$invoked);
            Environments::new($taken, clock, move || {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                Numbered { number, clock, invoked }
            })
        }};
    }

    async fn invoke(function: &impl Function) {
        function.process(Vec::new(), Timestamp::MAX_UTC).await;
    }

    #[test]
    fn who_is_idle_is_taken_and_the_last_one_first() {
        let (clock, invoked) = world();
        let environments = environments!(Taken::MostRecent, clock, invoked);
        clock.block_on(async {
            invoke(&environments).await;
            invoke(&environments).await;
            let late = async {
                clock.sleep(Duration::from_millis(500)).await;
                invoke(&environments).await;
            };
            join!(invoke(&environments), late);
            invoke(&environments).await;
        });
        assert_eq!(*invoked.lock().unwrap(), [0, 0, 0, 1, 1]);
        assert_eq!(environments.started(), 2);
    }

    #[test]
    fn in_turn_all_of_them_are_used() {
        let (clock, invoked) = world();
        let environments = environments!(Taken::InTurn(3), clock, invoked);
        clock.block_on(async {
            for _ in 0..7 {
                invoke(&environments).await;
            }
        });
        assert_eq!(*invoked.lock().unwrap(), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn who_is_idle_for_long_or_old_goes() {
        let (clock, invoked) = world();
        let environments = environments!(Taken::MostRecent, clock, invoked);
        clock.block_on(async {
            invoke(&environments).await;
            clock.sleep(IDLE_MAX - Duration::from_secs(1)).await;
            invoke(&environments).await;
            clock.sleep(IDLE_MAX).await;
            // Never idle for long, from here on.
            for _ in 0..60 {
                invoke(&environments).await;
                clock.sleep(Duration::from_secs(119)).await;
            }
            invoke(&environments).await;
        });
        let mut expected = vec![0; 2];
        expected.extend([1; 60]);
        expected.push(2);
        assert_eq!(*invoked.lock().unwrap(), expected, "60 times two minutes are two hours");
    }
}

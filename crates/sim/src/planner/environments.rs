//! Execution environments of a function, as in Lambda: each handles one invocation at a time and has its own memory,
//! including its own circuit breaker.

use std::sync::Mutex;
use std::time::Duration;

use redeliver_core::deliver::time_until;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Function};
use redeliver_embedded::VirtualClock;

use super::invocation_counter::Counter;
use redeliver_core::lock;

/// An assumption: AWS does not document how long it keeps an idle environment. Measurements range from 5 to 15 minutes.
const IDLE_MAX: Duration = Duration::from_secs(5 * 60);
/// "Lambda terminates execution environments every few hours", even busy ones ("Understanding the Lambda execution
/// environment lifecycle"). Two hours is an assumption.
const LIFETIME: Duration = Duration::from_secs(2 * 3600);

/// A function with several environments, each created by `start`. An invocation uses the most recently used idle
/// environment, or a new one if none is idle. Lambda appears to do the same.
pub(super) struct Environments<'a, S, F> {
    start: S,
    clock: &'a VirtualClock,
    /// The delay before a new environment handles its first invocation.
    cold_start: Duration,
    /// Idle environments; the most recently used is the last one.
    idle: Mutex<Vec<ExecutionEnvironment<F>>>,
    /// The number of environments started so far.
    started: &'a Counter,
}

struct ExecutionEnvironment<F> {
    function: F,
    started_at: Timestamp,
    used_at: Timestamp,
}

impl<'a, S: Fn() -> F, F> Environments<'a, S, F> {
    pub(super) fn new(cold_start: Duration, clock: &'a VirtualClock, started: &'a Counter, start: S) -> Self {
        Self { start, clock, cold_start, idle: Mutex::default(), started }
    }

    async fn take_environment(&self) -> ExecutionEnvironment<F> {
        let now = self.clock.now();
        let idle = {
            let mut idle = lock(&self.idle);
            idle.retain(|environment| {
                time_until(environment.used_at, now) < IDLE_MAX
                    && time_until(environment.started_at, now) < LIFETIME
            });
            idle.pop()
        };
        if let Some(environment) = idle {
            return environment;
        }
        self.started.add(1);
        let function = (self.start)();
        self.clock.sleep(self.cold_start).await;
        ExecutionEnvironment { function, started_at: now, used_at: now }
    }
}

impl<S: Fn() -> F + Send + Sync, F: Function> Function for Environments<'_, S, F> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let mut environment = self.take_environment().await;
        let response = environment.function.process_batch(records, deadline).await;
        environment.used_at = self.clock.now();
        lock(&self.idle).push(environment);
        response
    }
}

#[cfg(test)]
mod tests {
    use futures_util::join;

    use super::*;

    /// A function that runs for a second per invocation and records its number.
    struct NumberedFunction<'a> {
        number: u64,
        clock: &'a VirtualClock,
        invoked: &'a Mutex<Vec<u64>>,
    }

    impl Function for NumberedFunction<'_> {
        async fn process_batch(&self, _: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
            self.invoked.lock().unwrap().push(self.number);
            self.clock.sleep(Duration::from_secs(1)).await;
            Vec::new()
        }
    }

    /// Returns a clock, a list for the numbers of the invoked environments, and a counter for the environments started.
    fn fixture() -> (VirtualClock, Mutex<Vec<u64>>, Counter) {
        (VirtualClock::new(Timestamp::UNIX_EPOCH), Mutex::default(), Counter::default())
    }

    macro_rules! environments {
        ($cold_start:expr, $clock:ident, $invoked:ident, $started:ident) => {{
            let (clock, invoked, started) = (&$clock, &$invoked, &$started);
            // The environment being started is already counted.
            let start = move || NumberedFunction { number: started.get() - 1, clock, invoked };
            Environments::new($cold_start, clock, started, start)
        }};
    }

    async fn invoke(function: &impl Function) {
        function.process_batch(Vec::new(), Timestamp::MAX_UTC).await;
    }

    #[test]
    fn the_most_recently_used_idle_environment_is_reused() {
        let (clock, invoked, started) = fixture();
        let environments = environments!(Duration::ZERO, clock, invoked, started);
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
        assert_eq!(started.get(), 2);
    }

    #[test]
    fn only_the_first_invocation_in_an_environment_has_a_cold_start() {
        let (clock, invoked, started) = fixture();
        let environments = environments!(Duration::from_millis(150), clock, invoked, started);
        let ends = clock.block_on(async {
            invoke(&environments).await;
            let first = clock.now().timestamp_millis();
            invoke(&environments).await;
            (first, clock.now().timestamp_millis())
        });
        assert_eq!(ends, (1150, 2150));
    }

    #[test]
    fn an_idle_or_old_environment_ends() {
        let (clock, invoked, started) = fixture();
        let environments = environments!(Duration::ZERO, clock, invoked, started);
        clock.block_on(async {
            invoke(&environments).await;
            clock.sleep(IDLE_MAX - Duration::from_secs(1)).await;
            invoke(&environments).await;
            clock.sleep(IDLE_MAX).await;
            // From here on, the environment is never idle for long.
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

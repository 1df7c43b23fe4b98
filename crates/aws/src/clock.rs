//! The real clock.

use std::time::{Duration, SystemTime};

use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;

/// The system clock, which only this module reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "only this function reads the clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(test)]
pub(crate) mod manual {
    //! A stopped clock for tests; its sleeps end on request.

    use std::sync::{Arc, Mutex};

    use tokio::sync::Notify;

    use super::*;

    #[derive(Clone, Debug, Default)]
    pub(crate) struct ManualClock(Arc<State>);

    #[derive(Debug, Default)]
    struct State {
        passed: Mutex<Duration>,
        sleeps: Mutex<Vec<Duration>>,
        end: Notify,
    }

    impl ManualClock {
        pub(crate) fn advance(&self, time: Duration) {
            *self.0.passed.lock().unwrap() += time;
        }

        pub(crate) fn set_back(&self, time: Duration) {
            *self.0.passed.lock().unwrap() -= time;
        }

        /// Ends the sleeps in progress.
        pub(crate) fn end_sleeps(&self) {
            self.0.end.notify_waiters();
        }

        /// Returns the requested durations of the sleeps so far.
        pub(crate) fn sleeps(&self) -> Vec<Duration> {
            self.0.sleeps.lock().unwrap().clone()
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::UNIX_EPOCH + *self.0.passed.lock().unwrap()
        }

        async fn sleep(&self, duration: Duration) {
            let end = self.0.end.notified();
            self.0.sleeps.lock().unwrap().push(duration);
            end.await;
        }
    }
}

//! The real clock.

use std::time::{Duration, SystemTime};

use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;

/// The machine's clock: the one door to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one door to the clock")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

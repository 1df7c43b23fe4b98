//! The ends of answers, which nobody reads: the head has decided. They are taken while calls go on, so that a
//! connection can be used again and no outcome waits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use redeliver_core::ports::Clock;
use tokio::sync::Semaphore;

use crate::SystemClock;

/// A longer answer costs its connection instead.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);
/// At the same time: each holds a connection, and a Lambda function has 1,024 file descriptors ("Lambda quotas").
const DRAINS_MAX: usize = 64;

/// Takes the ends of answers.
#[derive(Clone, Debug)]
pub(super) struct Drains<C = SystemClock> {
    clock: C,
    free: Arc<Semaphore>,
}

impl<C: Clock + Clone + 'static> Drains<C> {
    pub(super) fn new(clock: C) -> Self {
        Self { clock, free: Arc::new(Semaphore::new(DRAINS_MAX)) }
    }

    /// Takes what `body` reads, in a task of its own: it ends with the body, after [`TIMEOUT`], or with the process.
    pub(super) fn drain(&self, body: impl Future<Output = ()> + Send + 'static) {
        // With no place left the body is dropped, which closes its connection: an outcome never waits for a drain.
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else { return };
        let clock = self.clock.clone();
        tokio::spawn(async move {
            let _place = place;
            select(pin!(body), pin!(clock.sleep(TIMEOUT))).await;
        });
    }
}

/// To be awaited before a call. The runtime looks at its sockets meanwhile, and at what is left of the last answers: no
/// request is written to a connection that was closed while this thread was busy or frozen, and one that is free by now
/// is used again.
pub(super) async fn settle_connections() {
    tokio::task::yield_now().await;
}

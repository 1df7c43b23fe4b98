//! Reads response bodies to the end in the background, so that connections can be reused. The response head determines
//! the outcome, which never waits for the body.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use redeliver_core::ports::Clock;
use tokio::sync::Semaphore;

use crate::SystemClock;

/// The time limit for one body. If reading takes longer, the connection is closed.
pub(super) const TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum number of concurrent drains: each occupies a connection, and a Lambda function has 1,024 file
/// descriptors ("Lambda quotas").
const DRAINS_MAX: usize = 64;

/// The concurrent drains of response bodies.
#[derive(Clone, Debug)]
pub(super) struct Drains<C = SystemClock> {
    clock: C,
    free: Arc<Semaphore>,
}

impl<C: Clock + Clone + 'static> Drains<C> {
    pub(super) fn new(clock: C) -> Self {
        Self { clock, free: Arc::new(Semaphore::new(DRAINS_MAX)) }
    }

    /// Reads `body` in a separate task, which ends with the body, after [`TIMEOUT`], or with the process, whichever
    /// comes first.
    pub(super) fn spawn_drain(&self, body: impl Future<Output = ()> + Send + 'static) {
        // At the limit, the body is dropped, which closes its connection.
        let Ok(place) = Arc::clone(&self.free).try_acquire_owned() else { return };
        let clock = self.clock.clone();
        tokio::spawn(async move {
            let _place = place;
            select(pin!(body), pin!(clock.sleep(TIMEOUT))).await;
        });
    }
}

/// Lets the runtime detect connections that were closed while this thread was busy or frozen, so that no request is
/// written to them, and lets drains finish, so that their connections can be reused. Awaited before every call.
pub(super) async fn settle_connections() {
    tokio::task::yield_now().await;
}

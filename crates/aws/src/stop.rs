//! A request to stop all tasks of a process.

use std::sync::Arc;

use tokio::sync::watch;

/// A stop request. Clones share its state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Requests a stop. No new work starts afterwards.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes once a stop is requested.
    pub async fn wait_until_requested(&self) {
        // Cannot fail: `self` owns the sender.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}

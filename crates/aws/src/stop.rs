//! The wish to stop, made once for all.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether to stop. Clones share one wish.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// From now on nothing new is begun.
    pub fn request(&self) {
        self.0.send_replace(true);
    }

    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes once it is requested.
    pub async fn requested(&self) {
        // The sender lives as long as `self`, so there is no other end than the wish.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }
}

//! Ctrl-C: asked for between two steps, so that none is broken off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether Ctrl-C came.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on; needs a runtime.
    pub(crate) fn listen() -> Self {
        let came = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&came);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                told.store(true, Ordering::Relaxed);
            }
        });
        Self(came)
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

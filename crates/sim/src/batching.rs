//! The batches of an event source mapping.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The batches of an event source mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// The largest number of messages in a batch, 1 to 10.
    pub size: u8,
    /// `MaximumBatchingWindowInSeconds`: the time that a batch that is not full waits for more messages.
    pub window: Duration,
}

/// The batches of the inner functions, and of the message-processor unless it is deployed otherwise.
impl Default for Batching {
    fn default() -> Self {
        Self { size: 10, window: Duration::ZERO }
    }
}

impl Serialize for Batching {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([
            ("batch_size", self.size.into()),
            ("batching_window_seconds", self.window.as_secs()),
        ])
    }
}

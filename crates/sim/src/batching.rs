//! The batch settings of an event source mapping.

use std::time::Duration;

use redeliver_core::strategy::Strategy;
use serde::{Serialize, Serializer};

/// The batch settings of an event source mapping. The default is ten messages without a window, as for the inner
/// functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// The maximum number of messages per batch, 1 to 10.
    pub size: u8,
    /// `MaximumBatchingWindowInSeconds`: the time for which an incomplete batch waits for more messages.
    pub window: Duration,
}

impl Batching {
    /// Returns the construct's default for the message-processor: ten messages and a window of one second, or one
    /// message without a window for a FIFO queue. Lambda has no batching window for FIFO queues, and only batches of
    /// one guarantee that each receive results in a call.
    pub fn for_message_processor(strategy: Strategy) -> Self {
        if strategy.definition().is_fifo {
            Self { size: 1, ..Self::default() }
        } else {
            Self { window: Duration::from_secs(1), ..Self::default() }
        }
    }
}

/// The batch settings of the inner functions.
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

//! Holds: messages that are not called now.

use std::time::Duration;

use crate::message::Timestamp;

/// The hold of a message that is not called now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub reason: HoldReason,
    /// Start of the outage or of the rate limit.
    pub since: Timestamp,
    /// At least a second, at most 900 s.
    pub delay: Duration,
}

/// Why a message is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The target is down.
    Down,
    /// The target takes no more calls now.
    RateLimited,
}

//! Holds, which delay messages without spending an attempt while the target is down or limits the rate of calls.

use std::time::Duration;

pub use crate::message::outage::Outage;

/// A hold on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub reason: HoldReason,
    /// The outage during which the message is held.
    pub outage: Outage,
    /// At least 1 s, at most 900 s.
    pub delay: Duration,
}

/// The reason why a message is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The target is down: its circuit is open.
    Down,
    /// The target responded "not now" to the message's own call.
    NotNow,
    /// The target limits the rate of calls, and the limit is reached.
    RateLimited,
}

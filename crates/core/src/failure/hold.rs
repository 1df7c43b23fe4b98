//! Holds: messages that come back later without spending an attempt, because their target takes no calls now.

use std::time::Duration;

pub use crate::message::outage::Outage;

/// The hold of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub reason: HoldReason,
    /// The trouble for which the message is held.
    pub outage: Outage,
    /// At least a second, at most 900 s.
    pub delay: Duration,
}

/// Why a message is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The target is down: its circuit is open.
    Down,
    /// Its own call was answered "not now".
    NotNow,
    /// The target takes fewer calls.
    RateLimited,
}

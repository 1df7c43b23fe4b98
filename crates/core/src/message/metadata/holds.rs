//! The hold members of a message. Whether they are trusted depends on the message's origin.

use crate::message::Timestamp;
use crate::message::origin::Origin;
use crate::message::outage::Outage;

/// `held_since`, `outage_failures` and `held_seconds` of a message. Producers can write them too, so reading them
/// requires the message's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    since: Option<Timestamp>,
    outage_failures: u16,
    seconds: u32,
}

impl Holds {
    /// Stores the values as written in a message.
    #[must_use]
    pub const fn from_members(since: Option<Timestamp>, outage_failures: u16, seconds: u32) -> Self {
        Self { since, outage_failures, seconds }
    }

    /// Returns the total number of seconds held: the part of `hold_seconds_max` that is spent. If the origin is
    /// unknown, the message's own value counts, because holds must end even if the re-senders are not configured.
    #[must_use]
    pub fn trusted_seconds(self, origin: Origin) -> u32 {
        match origin {
            Origin::Resent | Origin::Unknown => self.seconds,
            Origin::Producer => 0,
        }
    }

    /// Returns the outage during which the message was held, for a delivery sent at `sent_at`; `None` unless redeliver
    /// wrote it.
    #[must_use]
    pub fn trusted_outage(self, origin: Origin, sent_at: Timestamp) -> Option<Outage> {
        let is_ours = origin == Origin::Resent && self.seconds > 0;
        let since = self.since.filter(|since| is_ours && *since <= sent_at)?;
        Some(Outage { since, first_failures: self.outage_failures })
    }

    /// Returns true if the message claims that it was held, trusted or not.
    pub(super) const fn are_claimed(self) -> bool {
        self.seconds > 0
    }
}

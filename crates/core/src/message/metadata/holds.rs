//! The hold members of a message, which need an origin to be trusted.

use crate::message::Timestamp;
use crate::message::origin::Origin;

/// `held_since` and `held_seconds` of a message. Anyone can write them into a new message, so reading them requires the
/// message's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    since: Option<Timestamp>,
    seconds: u32,
}

impl Holds {
    /// The values as written in a message.
    #[must_use]
    pub const fn written(since: Option<Timestamp>, seconds: u32) -> Self {
        Self { since, seconds }
    }

    /// Seconds held in all: the part of `hold_seconds_max` that is spent. With an unknown origin the message's own
    /// value counts, since holds must end even where no setting names the re-senders.
    #[must_use]
    pub fn seconds(self, origin: Origin) -> u32 {
        match origin {
            Origin::Resent | Origin::Unknown => self.seconds,
            Origin::Producer => 0,
        }
    }

    /// Start of the outage, in a delivery sent at `sent_at`: for the message's own next hold.
    #[must_use]
    pub fn since(self, origin: Origin, sent_at: Timestamp) -> Option<Timestamp> {
        // An invalid date would make the next body invalid.
        self.since.filter(|since| self.seconds(origin) > 0 && *since <= sent_at)
    }

    /// Start of the outage, as information for other messages: trusted only if redeliver wrote it.
    #[must_use]
    pub fn outage_since(self, origin: Origin, sent_at: Timestamp) -> Option<Timestamp> {
        self.since(origin, sent_at).filter(|_| origin == Origin::Resent)
    }

    /// True if the message claims that it was held, trusted or not.
    pub(super) const fn are_claimed(self) -> bool {
        self.seconds > 0
    }
}

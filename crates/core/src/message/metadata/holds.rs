//! How long a message says that it was held.

use crate::message::Timestamp;
use crate::message::origin::Origin;

/// `held_since` and `held_seconds` as they stand in a message. Anybody may write them into a new one, so nobody can read
/// them without knowing where it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    since: Option<Timestamp>,
    seconds: u32,
}

impl Holds {
    /// As they stand in a message.
    #[must_use]
    pub const fn written(since: Option<Timestamp>, seconds: u32) -> Self {
        Self { since, seconds }
    }

    /// How long it was held, all times together: what it has spent of `hold_seconds_max`. Of an unknown origin its own
    /// words count, since its holds must come to an end also where nobody has said who re-sends.
    #[must_use]
    pub fn seconds(self, origin: Origin) -> u32 {
        match origin {
            Origin::Resent | Origin::Unknown => self.seconds,
            Origin::Producer => 0,
        }
    }

    /// Since when it is held, of a delivery that was sent then: for its own next hold.
    #[must_use]
    pub fn since(self, origin: Origin, sent_at: Timestamp) -> Option<Timestamp> {
        // A date that is none would make the next body invalid.
        self.since.filter(|since| self.seconds(origin) > 0 && *since <= sent_at)
    }

    /// Since when it says that its target is down, for other messages: only redeliver's own words count there.
    #[must_use]
    pub fn outage_since(self, origin: Origin, sent_at: Timestamp) -> Option<Timestamp> {
        self.since(origin, sent_at).filter(|_| origin == Origin::Resent)
    }

    /// Whether it says that it was held, whoever wrote that.
    pub(super) const fn are_told(self) -> bool {
        self.seconds > 0
    }
}

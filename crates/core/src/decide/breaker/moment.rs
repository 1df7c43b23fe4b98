//! Timestamps within an environment's lifetime, in four bytes each because there are thousands of keys.

use std::num::NonZeroU32;
use std::time::Duration;

use chrono::TimeDelta;

use crate::deliver::time_until;
use crate::message::Timestamp;

/// Hundredths of a second since the epoch of a [`MomentClock`]; the range is 497 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(NonZeroU32);

/// The shortest time between two moments.
pub(super) const MOMENT_SECONDS: f32 = 0.01;

impl Moment {
    fn from_hundredths(hundredths: u128) -> Self {
        let hundredths = u32::try_from(hundredths).unwrap_or(u32::MAX);
        Self(NonZeroU32::new(hundredths).unwrap_or(NonZeroU32::MIN))
    }

    /// Returns the number of seconds until `later`, or 0 if it is not later.
    pub(super) fn seconds_until(self, later: Self) -> f32 {
        Duration::from_millis(u64::from(later.0.get().saturating_sub(self.0.get())) * 10).as_secs_f32()
    }

    /// Returns true for the last representable moment, to which all later ones are clamped.
    pub(super) fn is_last(self) -> bool {
        self.0 == NonZeroU32::MAX
    }

    pub(super) fn plus_seconds(self, seconds: f32) -> Self {
        let later = Duration::try_from_secs_f32(seconds).unwrap_or_default();
        Self::from_hundredths(u128::from(self.0.get()) + later.as_millis() / 10)
    }
}

/// Converts timestamps to moments and back. The epoch is 15 days before the first use, because a message may have been
/// held for 14 days.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MomentClock(Option<Timestamp>);

impl MomentClock {
    const BEFORE: TimeDelta = TimeDelta::days(15);

    pub(super) fn moment_at(&mut self, at: Timestamp) -> Moment {
        let epoch = *self.0.get_or_insert(at - Self::BEFORE);
        Moment::from_hundredths(time_until(epoch, at).as_millis() / 10)
    }

    pub(super) fn timestamp_at(&self, moment: Moment) -> Timestamp {
        let epoch = self.0.unwrap_or_default();
        epoch + TimeDelta::milliseconds(i64::from(moment.0.get()) * 10)
    }
}

//! Which outages a message survives: one that fails while the target is down survives if an attempt falls after the
//! end.

use serde::Serialize;

use super::Schedule;
use crate::people::float;

/// The lengths that are shown in any case, in seconds: 1 minute to 24 hours.
pub(super) const LENGTHS: [u64; 11] = [60, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400];

/// The chance to survive an outage of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Survival {
    /// How long the target is down.
    pub outage_seconds: u64,
    /// Of a message that fails first at the beginning of the outage.
    pub from_its_beginning: f64,
    /// Of a message that fails first at any moment of it, each as likely.
    pub at_a_random_moment: f64,
}

impl Survival {
    /// By the schedule alone: a target that asks for delays of its own, or takes only so much, is not in it.
    pub fn of(schedule: &Schedule, outage_seconds: u64) -> Self {
        let last = &schedule.last;
        // With R seconds left of the outage, the chance is that of a last attempt at R or later; an attempt in the very
        // second of the end is after it. The mean of that over all R up to L is the mean of the smaller of the last
        // attempt and L, over L.
        let (mut from_its_beginning, mut mean) = (0.0, 0.0);
        for (step, chance) in (0..).zip(&last.chances) {
            let at = step * last.step;
            from_its_beginning += if at >= outage_seconds { *chance } else { 0.0 };
            mean += chance * float(at.min(outage_seconds));
        }
        Self {
            outage_seconds,
            from_its_beginning: from_its_beginning.min(1.0),
            at_a_random_moment: (mean / float(outage_seconds.max(1))).min(1.0),
        }
    }
}

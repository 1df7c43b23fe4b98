//! The phases of a run, and the number of messages that it sends at once.

use crate::redrive::task::Limits;

/// Messages that are being sent at a time: some requests at once, and not much to do again after a crash.
pub(super) const SENDING_MAX: u64 = 100;
/// Sent before the rest and watched.
const PILOT: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Deletes what earlier runs have sent. It sends nothing: without the right to delete it would send more and more.
    Finish,
    /// Sends the first messages ahead.
    Pilot,
    Rest,
}

impl Phase {
    /// The first one that sends. A pilot that is not watched is none.
    pub(super) fn of_sending(limits: Limits) -> Self {
        if limits.watch.is_zero() { Self::Rest } else { Self::Pilot }
    }

    /// True if the whole pilot is sent and can be watched.
    pub(super) fn has_its_pilot_out(self, sent: u64) -> bool {
        self == Self::Pilot && sent >= PILOT
    }

    /// Messages of the next round, within the limits of the rate, the pilot and the total. `sent` has those that are
    /// being sent, too.
    pub(super) fn round(self, limits: Limits, sent: u64) -> u64 {
        let rate = limits.rate.map_or(SENDING_MAX, u64::from);
        let pilot = if self == Self::Pilot { PILOT.saturating_sub(sent) } else { u64::MAX };
        let left = limits.max.saturating_sub(sent);
        rate.min(pilot).min(left).min(SENDING_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_round_is_no_larger_than_the_rate_the_pilot_and_what_is_left() {
        let limits =
            Limits { rate: None, max: u64::MAX, stop_after_failures_percent: 20, watch: Duration::ZERO };
        assert_eq!(Phase::Rest.round(limits, 7), 100);
        assert_eq!([0, 49, 50].map(|sent| Phase::Pilot.round(limits, sent)), [50, 1, 0]);
        assert_eq!(Phase::Rest.round(Limits { rate: Some(20), ..limits }, 0), 20);
        assert_eq!(Phase::Rest.round(Limits { max: 60, ..limits }, 50), 10);
        assert_eq!([49, 50].map(|sent| Phase::Pilot.has_its_pilot_out(sent)), [false, true]);
        assert!(!Phase::Rest.has_its_pilot_out(50));
    }
}

//! The phases of a run, and the number of messages that are sent concurrently.

use crate::redrive::task::RedriveLimits;

/// The maximum number of messages being sent at a time: enough for several concurrent requests, but few enough to
/// resend after a crash.
pub(super) const SENDING_MAX: u64 = 100;
/// The number of messages that are sent first and watched.
const PILOT_MESSAGES: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Deletes messages that earlier runs have sent, and sends nothing: without permission to delete, each run would
    /// send more messages.
    Finish,
    Send(Portion),
    /// Watches the pilot.
    Watch,
    /// Waits until messages that could not be kept hidden are visible again, then continues with this portion.
    Wait(Portion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Portion {
    /// The first messages, sent ahead of the rest.
    Pilot,
    Rest,
}

impl Phase {
    /// Returns the first phase that sends. Without a watch time, there is no pilot.
    pub(super) fn first_send(limits: RedriveLimits) -> Self {
        Self::Send(if limits.watch.is_zero() { Portion::Rest } else { Portion::Pilot })
    }

    /// Returns true if the whole pilot has been sent and can be watched.
    pub(super) fn is_pilot_sent(self, sent: u64) -> bool {
        self == Self::Send(Portion::Pilot) && sent >= PILOT_MESSAGES
    }

    /// Returns the size of the next round, limited by the rate, the pilot and the total. `sent` includes messages that
    /// are being sent.
    pub(super) fn round_size(self, limits: RedriveLimits, sent: u64) -> u64 {
        let rate = limits.rate.map_or(SENDING_MAX, u64::from);
        let pilot_rest =
            if self == Self::Send(Portion::Pilot) { PILOT_MESSAGES.saturating_sub(sent) } else { u64::MAX };
        let total_rest = limits.max.saturating_sub(sent);
        rate.min(pilot_rest).min(total_rest).min(SENDING_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_round_is_limited_by_the_rate_the_pilot_and_the_maximum() {
        let limits = RedriveLimits {
            rate: None,
            max: u64::MAX,
            stop_after_failures_percent: 20,
            watch: Duration::ZERO,
        };
        let [pilot, rest] = [Portion::Pilot, Portion::Rest].map(Phase::Send);
        assert_eq!(rest.round_size(limits, 7), 100);
        assert_eq!([0, 49, 50].map(|sent| pilot.round_size(limits, sent)), [50, 1, 0]);
        assert_eq!(rest.round_size(RedriveLimits { rate: Some(20), ..limits }, 0), 20);
        assert_eq!(rest.round_size(RedriveLimits { max: 60, ..limits }, 50), 10);
        assert_eq!([49, 50].map(|sent| pilot.is_pilot_sent(sent)), [false, true]);
        assert!(!rest.is_pilot_sent(50));
    }
}

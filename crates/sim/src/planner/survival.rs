//! Which outages a message survives: one that fails while the target is down survives if an attempt falls after the
//! end. One that is held spends no attempt, and survives as long as it may be held.

use redeliver_core::policy::Policy;
use serde::Serialize;

use super::schedule::Schedule;
use crate::number::float;

/// The lengths that are shown in any case, in seconds: 1 minute to 24 hours.
pub(super) const LENGTHS: [u64; 11] = [60, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400];

/// The chance to survive an outage of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Survival {
    /// How long the target is down.
    pub outage_seconds: u64,
    /// The chance of a message that fails first at the beginning of the outage.
    pub from_its_beginning: f64,
    /// The chance of a message that fails first at any moment of it, each as likely.
    pub at_a_random_moment: f64,
    /// The chance of a message that the circuit breaker holds from the outage's beginning on; `None` without a breaker.
    pub held: Option<f64>,
}

/// What becomes of a message that is held from the beginning of an outage on.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// For so long it is held; then it is called, and its failures spend attempts.
    hold_seconds_max: u64,
    /// It comes back so often.
    delay_seconds: u64,
    age_seconds_max: u64,
    /// The schedule of its attempts from then on.
    called: Schedule,
}

impl Held {
    /// `None` if the policy has no circuit breaker.
    pub(super) fn of(policy: &Policy) -> Option<Self> {
        let breaker = policy.circuit_breaker.as_ref()?;
        let hold_seconds_max = breaker.hold_max.as_secs();
        let age_left = |age: u32| age.saturating_sub(u32::try_from(hold_seconds_max).unwrap_or(u32::MAX));
        let called = Policy { max_age_seconds: policy.max_age_seconds.map(age_left), ..policy.clone() };
        Some(Self {
            hold_seconds_max,
            delay_seconds: u64::from(breaker.hold_delay_max().get()),
            age_seconds_max: policy.max_age_seconds.map_or(u64::MAX, u64::from),
            called: Schedule::of(&called),
        })
    }

    pub fn survives(&self, outage_seconds: u64) -> f64 {
        if outage_seconds > self.age_seconds_max {
            return 0.0;
        }
        if outage_seconds > self.hold_seconds_max {
            return Survival::of(&self.called, outage_seconds - self.hold_seconds_max).from_its_beginning;
        }
        // It comes back at some moment of the last delay, each as likely, and must not be too old then.
        (float(self.age_seconds_max - outage_seconds) / float(self.delay_seconds)).min(1.0)
    }
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
            held: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(policy: &str, outages: [u64; 3]) -> [f64; 3] {
        let held = Held::of(&Policy::from_json(policy).unwrap()).unwrap();
        outages.map(|outage_seconds| held.survives(outage_seconds))
    }

    #[test]
    fn what_is_held_survives_as_long_as_it_may_be_held_and_then_its_schedule() {
        assert_eq!(held("{}", [60, 3600, 86_400]), [1.0; 3]);
        let fixed = r#"{"max_attempts":3,"circuit_breaker":{"hold_seconds_max":3600},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
        assert_eq!(held(fixed, [3600, 3780, 3781]), [1.0, 1.0, 0.0]);
        assert_eq!(Held::of(&Policy::from_json(r#"{"circuit_breaker":false}"#).unwrap()), None);
    }

    #[test]
    fn what_is_held_ends_with_its_age() {
        // It comes back every 750 s: at half of that before its age's end, half of all come in time.
        assert_eq!(held(r#"{"max_age_seconds":7200}"#, [6450, 7200 - 375, 7201]), [1.0, 0.5, 0.0]);
        let seldom = r#"{"max_age_seconds":7200,"circuit_breaker":{"probe_interval_seconds_max":600}}"#;
        assert_eq!(held(seldom, [6930, 7200 - 135, 7201]), [1.0, 0.5, 0.0], "every 270 s");
        let both = r#"{"max_age_seconds":3700,"max_attempts":3,"circuit_breaker":{"hold_seconds_max":3600},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
        assert_eq!(held(both, [3601, 3660, 3661]), [1.0, 1.0, 0.0], "one attempt of three is early enough");
    }
}

//! The outages that a message survives. A failing message survives if one of its attempts takes place after the outage.
//! A held message spends no attempts and survives for as long as it may be held.

use redeliver_core::decide::breaker::HOLD_SECONDS_MAX;
use redeliver_core::decide::call_outcome;
use redeliver_core::handler::HandlerError;
use redeliver_core::policy::Policy;
use serde::Serialize;

use super::scenario::FailedCall;
use super::schedule::Schedule;
use crate::number::to_float;

/// The outages covered by every forecast, in seconds: 1 minute to 24 hours.
pub(super) const OUTAGES_SECONDS: [u64; 11] =
    [60, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400];

/// The chance that a message survives an outage of this duration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Survival {
    pub outage_seconds: u64,
    /// The chance if the message first fails at the beginning of the outage.
    pub from_its_beginning: f64,
    /// The chance if the message first fails at a random time during the outage.
    pub at_a_random_moment: f64,
    /// The chance if the circuit breaker holds the message from the beginning of the outage; `None` without a circuit
    /// breaker.
    pub held: Option<f64>,
}

/// A message's holds from the beginning of an outage, and its attempts afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldPlan {
    /// The maximum time for which the message is held. After that, the target is called once more.
    hold_seconds_max: u64,
    /// The interval between two receives of the message.
    delay_seconds: u64,
    age_seconds_max: u64,
    /// The attempts after the hold. `None` if the target responds with "not now", since the message is then given up
    /// after the hold.
    after_hold: Option<Schedule>,
}

impl HoldPlan {
    /// Creates the plan for a policy, or returns `None` if the policy has no circuit breaker.
    pub(super) fn new(policy: &Policy, failed_call: FailedCall) -> Option<Self> {
        let breaker = policy.circuit_breaker.as_ref()?;
        let hold_seconds_max = breaker.hold_max.as_secs();
        let age_left = |age: u32| age.saturating_sub(u32::try_from(hold_seconds_max).unwrap_or(u32::MAX));
        let policy_after_hold =
            Policy { max_age_seconds: policy.max_age_seconds.map(age_left), ..policy.clone() };
        let error = HandlerError::transient(failed_call.error_type(), "");
        let is_not_now = call_outcome(policy, &error).is_not_now();
        Some(Self {
            hold_seconds_max,
            delay_seconds: HOLD_SECONDS_MAX,
            age_seconds_max: policy.max_age_seconds.map_or(u64::MAX, u64::from),
            after_hold: (!is_not_now).then(|| Schedule::for_policy(&policy_after_hold)),
        })
    }

    fn survival_chance(&self, outage_seconds: u64) -> f64 {
        if outage_seconds > self.age_seconds_max {
            return 0.0;
        }
        if outage_seconds > self.hold_seconds_max {
            let left = outage_seconds - self.hold_seconds_max;
            let after_hold = self.after_hold.as_ref();
            return after_hold
                .map_or(0.0, |schedule| Survival::for_outage(schedule, None, left).from_its_beginning);
        }
        // The message is received again at a random time within one delay of the outage's end, and must not be too old
        // by then.
        (to_float(self.age_seconds_max - outage_seconds) / to_float(self.delay_seconds)).min(1.0)
    }
}

impl Survival {
    /// Returns the chances of surviving an outage of this duration, based only on the policy: the target's capacity and
    /// the delays that it requests are ignored.
    pub fn for_outage(schedule: &Schedule, hold: Option<&HoldPlan>, outage_seconds: u64) -> Self {
        let last = &schedule.last;
        // With R seconds of the outage left, the chance is the probability of a last attempt at R or later. An attempt
        // in the outage's last second counts as after the outage. The mean over all R up to the duration L is the mean
        // of min(last attempt, L), divided by L.
        let (mut from_its_beginning, mut mean) = (0.0, 0.0);
        for (step, chance) in (0..).zip(&last.chances) {
            let at = step * last.step;
            from_its_beginning += if at >= outage_seconds { *chance } else { 0.0 };
            mean += chance * to_float(at.min(outage_seconds));
        }
        Self {
            outage_seconds,
            from_its_beginning: from_its_beginning.min(1.0),
            at_a_random_moment: (mean / to_float(outage_seconds.max(1))).min(1.0),
            held: hold.map(|hold| hold.survival_chance(outage_seconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_NOW: FailedCall = FailedCall::Status(503);
    const FAULTS: [FailedCall; 2] = [FailedCall::Status(500), FailedCall::Hang];

    fn hold_survival_chances(failed_call: FailedCall, policy: &str, outages: [u64; 3]) -> [f64; 3] {
        let hold = HoldPlan::new(&Policy::from_json(policy).unwrap(), failed_call).unwrap();
        outages.map(|outage_seconds| hold.survival_chance(outage_seconds))
    }

    #[test]
    fn a_held_message_survives_for_its_hold_plus_its_schedule() {
        let fixed = r#"{"max_attempts":3,"circuit_breaker":{"hold_seconds_max":3600},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
        for fault in FAULTS {
            assert_eq!(hold_survival_chances(fault, "{}", [60, 3600, 86_400]), [1.0; 3]);
            assert_eq!(hold_survival_chances(fault, fixed, [3600, 3780, 3781]), [1.0, 1.0, 0.0]);
        }
        let off = Policy::from_json(r#"{"circuit_breaker":false}"#).unwrap();
        assert_eq!(HoldPlan::new(&off, NOT_NOW), None);
    }

    /// After the holds, the target is called once more and the message is then given up.
    #[test]
    fn a_message_refused_with_not_now_survives_only_while_it_is_held() {
        assert_eq!(hold_survival_chances(NOT_NOW, "{}", [86_400, 86_401, 90_000]), [1.0, 0.0, 0.0]);
        let hour = r#"{"circuit_breaker":{"hold_seconds_max":3600}}"#;
        for not_now in [NOT_NOW, FailedCall::Status(429)] {
            assert_eq!(hold_survival_chances(not_now, hour, [60, 3600, 3601]), [1.0, 1.0, 0.0]);
        }
        let named = r#"{"circuit_breaker":{"hold_seconds_max":3600,"opens_on":["HttpStatus.500"]}}"#;
        assert_eq!(hold_survival_chances(FailedCall::Status(500), named, [60, 3600, 3601]), [1.0, 1.0, 0.0]);
    }

    #[test]
    fn a_held_message_is_given_up_at_its_maximum_age() {
        // A held message is received again every 750 s. With half of that left until the maximum age, half of all
        // messages are in time.
        let policy = r#"{"max_age_seconds":7200}"#;
        for failed_call in [NOT_NOW, FAULTS[0]] {
            assert_eq!(hold_survival_chances(failed_call, policy, [6450, 7200 - 375, 7201]), [1.0, 0.5, 0.0]);
        }
        let both = r#"{"max_age_seconds":3700,"max_attempts":3,"circuit_breaker":{"hold_seconds_max":3600},"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"}}"#;
        let early_enough = hold_survival_chances(FAULTS[0], both, [3601, 3660, 3661]);
        assert_eq!(early_enough, [1.0, 1.0, 0.0], "one attempt of three");
    }
}

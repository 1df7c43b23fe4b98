//! What a simulation says of each policy: computed, measured, and paid for.

use std::collections::BTreeSet;

use redeliver_core::decide::backoff::bounds;
use redeliver_core::limits::RetryDelay;
use redeliver_core::policy::Policy;
use serde::Serialize;

use super::run::{CircuitBreaker, Measured};
use super::scenario::Scenario;
use super::schedule::{Attempt, Schedule};
use super::survival::{Held, LENGTHS, Survival};
use crate::cost::{Architecture, Bill, Prices};
use crate::number::float;

/// As the stack's check has it (`RETENTION_SHARE` of infra/lib/plan.ts): retries must fit into this share of the
/// retention.
const RETENTION_SHARE: f64 = 0.8;
/// The stack's default timeout of the message-processor, which a call takes at worst.
const CALL_SECONDS_WORST: u64 = 60;
const MILLION: f64 = 1e6;

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub scenario: Scenario,
    pub prices: Prices,
    /// In the order of the command line.
    pub policies: Vec<PolicyReport>,
    #[serde(skip)]
    architecture: Architecture,
    #[serde(skip)]
    retention_seconds: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// Its file's name, without the ending.
    pub name: String,
    /// The attempts of one message, if all fail.
    pub schedule: Vec<Attempt>,
    /// Which outages a message survives.
    pub survival: Vec<Survival>,
    /// How long a message can be on its way.
    pub span: Span,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The same policy with `"circuit_breaker": false`; `None` if it has none.
    pub without_circuit_breaker: Option<Outcome>,
    #[serde(skip)]
    pub distribution: Schedule,
    #[serde(skip)]
    pub held: Option<Held>,
    /// The setting of the policy's circuit breaker, if it has one.
    #[serde(skip)]
    pub minimum_calls: Option<u32>,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub measured: Measured,
    /// What a million such messages need.
    pub per_million: PerMillion,
}

/// The worst case against the retention, as the stack checks it when it is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The longest that a message can be on its way: all delays as long as they can be, and every call cut off at the
    /// function's default timeout of 60 s; at most `max_age_seconds`.
    pub worst_case_seconds: u64,
    /// How long the source queue keeps a message.
    pub retention_seconds: u64,
    /// Whether the stack takes it: within 80 % of the retention, or with long delays, for which more is meant.
    pub fits: bool,
    /// The circuit breaker can hold a message for so long on top of that, within `max_age_seconds`.
    pub hold_seconds_max: Option<u64>,
}

/// What a million such messages need, and what it costs in dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerMillion {
    pub sqs_requests: f64,
    pub invocations: f64,
    pub gb_seconds: f64,
    pub log_gb: f64,
    pub dollars: Bill,
    pub total_dollars: f64,
}

impl Report {
    /// Without a policy yet.
    pub fn new(
        scenario: Scenario,
        retention_seconds: u64,
        architecture: Architecture,
        prices: Prices,
    ) -> Self {
        Self { scenario, prices, policies: Vec::new(), architecture, retention_seconds }
    }

    /// Adds what a policy came to, also without its circuit breaker.
    pub fn add(&mut self, name: String, policy: &Policy, measured: Measured, without: Option<Measured>) {
        let distribution = Schedule::of(policy);
        let held = Held::of(policy);
        let lengths: BTreeSet<_> =
            LENGTHS.into_iter().chain(self.scenario.trouble.outage_seconds()).collect();
        let survival = |seconds| Survival {
            held: held.as_ref().map(|held| held.survives(seconds)),
            ..Survival::of(&distribution, seconds)
        };
        self.policies.push(PolicyReport {
            name,
            schedule: distribution.attempts.clone(),
            survival: lengths.into_iter().map(survival).collect(),
            span: Span::of(policy, distribution.longest_seconds, self.retention_seconds),
            outcome: self.outcome(measured),
            without_circuit_breaker: without.map(|measured| self.outcome(measured)),
            distribution,
            held,
            minimum_calls: policy.circuit_breaker.as_ref().map(|breaker| breaker.minimum_calls),
        });
    }

    /// What each policy came to, with its circuit breaker if it has one.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.policies.iter().map(|policy| &policy.outcome)
    }

    /// The circuit breakers of those policies that have one.
    pub fn circuit_breakers(&self) -> impl Iterator<Item = CircuitBreaker> {
        self.outcomes().filter_map(|outcome| outcome.measured.circuit_breaker)
    }

    fn outcome(&self, measured: Measured) -> Outcome {
        let usage = measured.usage.times(MILLION / float(measured.sent.max(1)));
        let dollars = usage.bill(&self.prices.prices, self.architecture);
        let per_million = PerMillion {
            sqs_requests: usage.sqs_requests,
            invocations: usage.invocations.total(),
            gb_seconds: usage.invocations.gb_seconds(),
            log_gb: usage.log_gb(),
            dollars,
            total_dollars: dollars.total(),
        };
        Outcome { measured, per_million }
    }
}

impl Span {
    fn of(policy: &Policy, longest_seconds: u64, retention_seconds: u64) -> Self {
        let calls = (u64::from(policy.max_attempts) + 1) * CALL_SECONDS_WORST;
        let age = policy.max_age_seconds.map_or(u64::MAX, u64::from);
        let delays = match policy.max_redelivery_per_second {
            None => longest_seconds,
            // Where many messages wait, a paced retry waits as long as one `DelaySeconds` can be.
            Some(_) => (1..=policy.max_attempts)
                .map(|attempt| u64::from((*bounds(policy, attempt).end()).max(RetryDelay::SHORT_MAX).get()))
                .sum(),
        };
        let worst_case_seconds = (delays + calls).min(age);
        let is_within = float(worst_case_seconds) <= RETENTION_SHARE * float(retention_seconds);
        let fits = is_within || policy.long_delays || policy.max_attempts == 0;
        let held = policy.circuit_breaker.as_ref().map(|breaker| breaker.hold_max.as_secs().min(age));
        Self { worst_case_seconds, retention_seconds, fits, hold_seconds_max: held }
    }
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    fn span(policy: &str, retention_seconds: u64) -> Span {
        let policy = Policy::from_json(policy).unwrap();
        Span::of(&policy, Schedule::of(&policy).longest_seconds, retention_seconds)
    }

    #[test]
    fn a_paced_retry_may_wait_for_900_seconds() {
        let paced = r#"{"max_attempts":600,"backoff":{"kind":"fixed","delay_seconds":60,"jitter":"none"},"max_redelivery_per_second":10}"#;
        assert_eq!(span(paced, 604_800).worst_case_seconds, 600 * 900 + 601 * 60);
        assert!(!span(paced, 604_800).fits);
    }

    #[test]
    fn a_message_is_held_no_longer_than_its_age() {
        let held = |policy| span(policy, 604_800).hold_seconds_max;
        assert_eq!(held("{}"), Some(86_400));
        assert_eq!(held(r#"{"max_age_seconds":4000}"#), Some(4000));
        assert_eq!(
            held(r#"{"max_age_seconds":4000,"circuit_breaker":{"hold_seconds_max":3600}}"#),
            Some(3600)
        );
        assert_eq!(held(r#"{"circuit_breaker":false}"#), None);
    }

    #[test]
    fn retries_fit_into_four_fifths_of_the_retention_as_the_stack_has_it() {
        // 5 × 900 s of delays and 6 calls of 60 s
        let default = span("{}", 7 * 86_400);
        assert_eq!((default.worst_case_seconds, default.fits), (4860, true));
        assert!(span("{}", 6075).fits && !span("{}", 6074).fits, "4860 is 80 % of 6075");
        assert_eq!(span(r#"{"max_age_seconds":4000}"#, 5000).worst_case_seconds, 4000);
        assert!(span(r#"{"max_age_seconds":4000}"#, 5000).fits);
        assert!(span(r#"{"long_delays":true}"#, 60).fits, "with long delays more is meant");
        assert!(span(r#"{"max_attempts":0}"#, 60).fits);
    }
}

//! The forecast for each policy, computed, measured and priced.

use std::collections::BTreeSet;

use redeliver_core::policy::Policy;
use redeliver_core::strategy::Strategy;
use serde::Serialize;

use super::plain_sqs::PlainSqs;
use super::run::{BreakerCounts, Measurements, run_plain, run_policy};
use super::scenario::Scenario;
use super::schedule::Schedule;
use super::survival::{HoldPlan, OUTAGES_SECONDS, Survival};
use crate::cost::{Architecture, Bill, Prices};
use crate::error::LoopError;
use crate::number::to_float;

/// The maximum share of the retention that retries may use, as checked by the stack (`RETENTION_SHARE` in
/// infra/lib/plan.ts).
pub const RETENTION_SHARE_MAX: f64 = 0.8;
/// The longest call: the message-processor's default timeout in the stack.
const CALL_SECONDS_MAX: u64 = 60;
const MILLION: f64 = 1e6;

/// The forecast of one scenario for each policy, with plain SQS for comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    pub scenario: Scenario,
    pub prices: Prices,
    /// The policies, in command-line order.
    pub policies: Vec<PolicyForecast>,
    /// The same messages and target, with plain SQS.
    pub plain_sqs: Vec<PlainForecast>,
    #[serde(skip)]
    architecture: Architecture,
    #[serde(skip)]
    retention_seconds: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct PolicyForecast {
    /// The file name without its extension.
    pub name: String,
    /// The attempts of a message if all of them fail.
    pub schedule: Schedule,
    /// The outages that a message survives.
    pub survival: Vec<Survival>,
    #[serde(rename = "span")]
    pub worst_case: WorstCase,
    #[serde(flatten)]
    pub outcome: ForecastOutcome,
    /// The same policy with `"circuit_breaker": false`; `None` if the policy has no circuit breaker.
    pub without_circuit_breaker: Option<ForecastOutcome>,
    #[serde(skip)]
    pub hold: Option<HoldPlan>,
}

/// Plain SQS instead of redeliver.
#[derive(Clone, Debug, Serialize)]
pub struct PlainForecast {
    #[serde(flatten)]
    pub plain: PlainSqs,
    #[serde(flatten)]
    pub outcome: ForecastOutcome,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastOutcome {
    pub measured: Measurements,
    /// The usage and the cost of a million messages in this scenario.
    pub per_million: PerMillion,
}

/// The longest time that a message can take, checked against the retention as in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorstCase {
    /// The time if every delay is the longest possible and every call is cut off at the function's default timeout of
    /// 60 s; at most `max_age_seconds`.
    pub worst_case_seconds: u64,
    /// The source queue's retention.
    pub retention_seconds: u64,
    /// True if the stack accepts it: the time is within 80 % of the retention, or the policy has long delays.
    pub fits: bool,
    /// The additional time for which the circuit breaker can hold a message, within `max_age_seconds`.
    pub hold_seconds_max: Option<u64>,
}

/// The usage and the cost of a million messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerMillion {
    pub sqs_requests: f64,
    pub invocations: f64,
    pub gb_seconds: f64,
    pub log_gb: f64,
    pub dollars: Bill,
    pub total_dollars: f64,
    /// The cost of writing the dead letters to an archive, if one is configured; not included in the total.
    pub archive_dollars: f64,
}

impl Forecast {
    /// Creates a forecast without policies. `retention_seconds` is the source queue's retention.
    pub fn new(
        scenario: Scenario,
        retention_seconds: u64,
        architecture: Architecture,
        prices: Prices,
    ) -> Self {
        Self {
            scenario,
            prices,
            policies: Vec::new(),
            plain_sqs: Vec::new(),
            architecture,
            retention_seconds,
        }
    }

    /// Measures a policy and adds it to the forecast. A policy with a circuit breaker is also measured without it.
    /// Calls `progress` with the number of messages settled in the first run.
    ///
    /// # Errors
    /// If the scenario cannot run to completion.
    pub fn measure_policy(
        &mut self,
        name: String,
        policy: &Policy,
        progress: &dyn Fn(u64),
    ) -> Result<(), LoopError> {
        let measured = run_policy(policy, &self.scenario, progress)?;
        let without = policy.circuit_breaker.is_some().then(|| {
            run_policy(&Policy { circuit_breaker: None, ..policy.clone() }, &self.scenario, &|_| {})
        });
        self.add_policy(name, policy, measured, without.transpose()?);
        Ok(())
    }

    /// Measures plain SQS and adds it to the forecast. Calls `progress` with the number of settled messages.
    ///
    /// # Errors
    /// If the scenario cannot run to completion.
    pub fn measure_plain(&mut self, plain: PlainSqs, progress: &dyn Fn(u64)) -> Result<(), LoopError> {
        let outcome = self.price_outcome(run_plain(plain, &self.scenario, progress)?);
        self.plain_sqs.push(PlainForecast { plain, outcome });
        Ok(())
    }

    fn add_policy(
        &mut self,
        name: String,
        policy: &Policy,
        measured: Measurements,
        without: Option<Measurements>,
    ) {
        let strategy = self.scenario.strategy;
        let schedule = Schedule::for_policy(policy);
        let hold = HoldPlan::new(policy, self.scenario.failed_call);
        let outages: BTreeSet<_> =
            OUTAGES_SECONDS.into_iter().chain(self.scenario.fault.outage_seconds()).collect();
        let survival = |seconds| Survival::for_outage(&schedule, hold.as_ref(), seconds);
        self.policies.push(PolicyForecast {
            name,
            survival: outages.into_iter().map(survival).collect(),
            worst_case: WorstCase::for_policy(
                policy,
                strategy,
                schedule.longest_seconds,
                self.retention_seconds,
            ),
            outcome: self.price_outcome(measured),
            without_circuit_breaker: without.map(|measured| self.price_outcome(measured)),
            schedule,
            hold,
        });
    }

    /// Returns the outcome of each policy, with its circuit breaker if it has one.
    pub fn outcomes(&self) -> impl Iterator<Item = &ForecastOutcome> {
        self.policies.iter().map(|policy| &policy.outcome)
    }

    /// Returns the circuit breakers of the policies that have one.
    pub fn circuit_breakers(&self) -> impl Iterator<Item = BreakerCounts> {
        self.outcomes().filter_map(|outcome| outcome.measured.circuit_breaker)
    }

    fn price_outcome(&self, measured: Measurements) -> ForecastOutcome {
        let to_a_million = MILLION / to_float(measured.sent.max(1));
        let usage = measured.usage.scaled_by(to_a_million);
        let dead_letters = to_float(measured.dead_lettered.values().sum()) * to_a_million;
        let dollars = usage.compute_bill(&self.prices.prices, self.architecture);
        let per_million = PerMillion {
            sqs_requests: usage.sqs_requests + usage.sqs_fifo_requests,
            invocations: usage.invocations.count,
            gb_seconds: usage.invocations.gb_seconds(),
            log_gb: usage.log_gb(),
            dollars,
            total_dollars: dollars.total(),
            archive_dollars: dead_letters / 1e3 * self.prices.prices.s3_thousand_writes.dollars,
        };
        ForecastOutcome { measured, per_million }
    }
}

impl WorstCase {
    /// Returns the worst case as a share of the retention.
    pub fn retention_share(&self) -> f64 {
        to_float(self.worst_case_seconds) / to_float(self.retention_seconds)
    }

    fn for_policy(policy: &Policy, strategy: Strategy, longest_seconds: u64, retention_seconds: u64) -> Self {
        let calls = (u64::from(policy.max_attempts) + 1) * CALL_SECONDS_MAX;
        let age = policy.max_age_seconds.map_or(u64::MAX, u64::from);
        let worst_case_seconds = (longest_seconds + calls).min(age);
        let is_within = to_float(worst_case_seconds) <= RETENTION_SHARE_MAX * to_float(retention_seconds);
        // A message that remains on its queue has a single retention period for all of its retries.
        let may_outlast = policy.long_delays && !strategy.definition().stays_on_queue;
        let fits = is_within || may_outlast || policy.max_attempts == 0;
        let held = policy.circuit_breaker.as_ref().map(|breaker| breaker.hold_max.as_secs().min(age));
        Self { worst_case_seconds, retention_seconds, fits, hold_seconds_max: held }
    }
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scenario::TargetFault;
    use super::*;

    fn worst_case(policy: &str, retention_seconds: u64) -> WorstCase {
        let policy = Policy::from_json(policy).unwrap();
        let longest_seconds = Schedule::for_policy(&policy).longest_seconds;
        WorstCase::for_policy(&policy, Strategy::DelayedResend, longest_seconds, retention_seconds)
    }

    #[test]
    fn each_dead_letter_costs_one_write_to_the_archive() {
        let scenario = Scenario {
            messages: 20,
            fault: TargetFault::FailureRate(1.0),
            over: Duration::from_secs(10),
            ..Scenario::default()
        };
        let policy = Policy::from_json(r#"{"max_attempts":0,"circuit_breaker":false}"#).unwrap();
        let measured = run_policy(&policy, &scenario, &|_| {}).unwrap();
        assert_eq!(measured.dead_lettered.values().sum::<u64>(), 20);
        let forecast = Forecast::new(scenario, 604_800, Architecture::Arm64, Prices::shipped_list());
        // $0.005 per thousand
        assert_eq!(forecast.price_outcome(measured).per_million.archive_dollars, 5.0);
    }

    #[test]
    fn a_message_is_held_no_longer_than_its_maximum_age() {
        let held = |policy| worst_case(policy, 604_800).hold_seconds_max;
        assert_eq!(held("{}"), Some(86_400));
        assert_eq!(held(r#"{"max_age_seconds":4000}"#), Some(4000));
        assert_eq!(
            held(r#"{"max_age_seconds":4000,"circuit_breaker":{"hold_seconds_max":3600}}"#),
            Some(3600)
        );
        assert_eq!(held(r#"{"circuit_breaker":false}"#), None);
    }

    #[test]
    fn retries_must_fit_into_80_percent_of_the_retention() {
        // 5 × 900 s of delays and 6 calls of 60 s
        let default = worst_case("{}", 7 * 86_400);
        assert_eq!((default.worst_case_seconds, default.fits), (4860, true));
        assert!(worst_case("{}", 6075).fits && !worst_case("{}", 6074).fits, "4860 is 80 % of 6075");
        assert_eq!(worst_case(r#"{"max_age_seconds":4000}"#, 5000).worst_case_seconds, 4000);
        assert!(worst_case(r#"{"max_age_seconds":4000}"#, 5000).fits);
        assert!(worst_case(r#"{"long_delays":true}"#, 60).fits, "long delays are intended to take longer");
        let long = Policy::from_json(r#"{"long_delays":true}"#).unwrap();
        assert!(
            !WorstCase::for_policy(&long, Strategy::Ordered, 4500, 60).fits,
            "on its queue, a message has a single retention period"
        );
        assert!(worst_case(r#"{"max_attempts":0}"#, 60).fits);
    }
}

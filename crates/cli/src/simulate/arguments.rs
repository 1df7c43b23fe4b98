//! The arguments of `redeliver simulate`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use redeliver_core::strategy::Strategy;

use crate::local::{probability, strategies};
use crate::output::Printing;
use crate::people::{DAY, MINUTE, number, seconds};
use redeliver_sim::cost::Architecture;
use redeliver_sim::planner::{Concurrency, Scenario, TargetFault};

/// Longest outage and load, in seconds.
const SPAN: RangeInclusive<u64> = 1..=30 * DAY;
/// "Amazon SQS message quotas": 60 s to 14 days.
const RETENTION: RangeInclusive<u64> = MINUTE..=14 * DAY;
/// `MaximumBatchingWindowInSeconds` ("CreateEventSourceMapping", AWS Lambda API Reference).
const WINDOW: RangeInclusive<u64> = 0..=300;

/// Plan a policy before it is deployed: its schedule, what it survives, what hits the target when it returns, and what
/// it costs.
///
/// Schedule and survival are computed from the policy. Load, dead letters and requests are measured: the three
/// functions' own code runs on an SQS in memory, in virtual time, against a target that is down for a while, or fails
/// by chance.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver simulate --policy policy.json --outage 10m
  redeliver simulate --policy policy.json --outage 30m --capacity 500 \\
    --messages 100000 --plot outage.svg
  redeliver simulate --policy policy.json --compare other.json --plot both.html
  redeliver simulate --policy policy.json --failure-rate 0.05 --over 1h
  redeliver simulate --policy policy.json --strategy direct-resend
  redeliver simulate --policy policy.json --prices frankfurt.json --format json

Spans are numbers with units: 90s, 10m, 1h 30m, 7d. Messages come evenly over the outage, unless --over or --arrival-rate say \
otherwise. A call takes no time, and as many are made at once as are due; with --max-concurrency a call takes 0.3 s.

Each invocation runs in an environment of its own with its own circuit breaker, as in Lambda. With --max-concurrency N there are at most \
N, of the idle ones the last used comes first, and one ends after 5 idle minutes or 2 hours (assumptions: AWS says \"every few hours\"). \
Without it --environments take turns. A policy with a circuit breaker runs twice, with and without it.

Prices are AWS's list prices of us-east-1, without free tiers. --prices names a JSON file that replaces single ones: \
{\"sqs_million_requests\": 0.40, \"lambda_million_requests\": 0.20, \"lambda_gb_second_arm64\": 0.0000133334, \
\"lambda_gb_second_x86_64\": 0.0000166667, \"logs_gb\": 0.50}

Exit codes:
  0  every message was processed or dead-lettered
  1  a message was not: a queue's retention ended before
  2  bad usage, a refused policy, or a file that cannot be read or written")]
pub struct Arguments {
    /// The retry policy (JSON); without it: 5 retries, each after a random delay of up to 900 s
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Another policy to compare it with, in the tables and in the picture; may be given up to five times
    #[arg(long, value_name = "FILE", num_args = 1)]
    pub compare: Vec<PathBuf>,
    /// What becomes of a message that failed: the two that send it again
    #[arg(long, value_parser = strategies(&[Strategy::DelayedResend, Strategy::DirectResend]), default_value_t)]
    pub strategy: Strategy,
    /// How many messages are sent
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number(1..=1_000_000_u64))]
    pub messages: u64,
    /// The target is down for so long, from the first message on
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = seconds(SPAN), conflicts_with = "failure_rate")]
    pub outage: Duration,
    /// The target is up, and each call fails with this chance, 0 to 1
    #[arg(long, value_name = "P", value_parser = probability)]
    pub failure_rate: Option<f64>,
    /// Calls that the target can do with success in a second; those beyond it get HTTP status 429
    #[arg(long, value_name = "N", value_parser = number(1_u32..))]
    pub capacity: Option<u32>,
    /// The messages come evenly over this span [default: that of the outage; with --failure-rate 10m]
    #[arg(long, value_name = "SPAN", value_parser = seconds(SPAN), conflicts_with = "arrival_rate")]
    pub over: Option<Duration>,
    /// So many messages come in a second
    #[arg(long, value_name = "N", value_parser = number(1_u32..))]
    pub arrival_rate: Option<u32>,
    /// Invocations of the message-processor at the same time, as an event source mapping limits them
    #[arg(long, value_name = "N", value_parser = number(1..=1000_u16))]
    pub max_concurrency: Option<u16>,
    /// Environments of the message-processor, each with a circuit breaker of its own; with --max-concurrency there are as
    /// many as that. A small flow has one: give 1, or --max-concurrency
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number(1..=1000_u16), conflicts_with = "max_concurrency")]
    pub environments: u16,
    /// A batch that is not full waits so long for more messages: fewer invocations and lines of logs, and each message may
    /// be that much later
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = seconds(WINDOW))]
    pub batching_window: Duration,
    /// The same seed gives the same run, byte for byte
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0_u64..))]
    pub seed: u64,
    /// How long the source queue keeps a message, for the check of the worst case; the run's own queue keeps it for 7
    /// days
    #[arg(long, value_name = "SPAN", default_value = "7d", value_parser = seconds(RETENTION))]
    pub retention: Duration,
    /// The functions' processor
    #[arg(long, value_parser = architectures(), default_value = "arm64")]
    pub architecture: Architecture,
    /// Prices of your own, in dollars
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Draw it: load, schedule and survival. The name ends in .svg or .html; a file that is there is replaced
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub printing: Printing,
}

fn architectures() -> impl TypedValueParser<Value = Architecture> {
    let values = [
        PossibleValue::new("arm64").help("The stack's default"),
        PossibleValue::new("x86-64").help("The other"),
    ];
    PossibleValuesParser::new(values)
        .map(|name| if name == "arm64" { Architecture::Arm64 } else { Architecture::X86_64 })
}

impl Arguments {
    /// Each one's file; `None` is the default.
    pub(super) fn policies(&self) -> impl Iterator<Item = Option<&Path>> {
        let others = self.compare.iter().map(|path| Some(path.as_path()));
        std::iter::once(self.policy.as_deref()).chain(others)
    }

    pub(super) fn scenario(&self) -> Scenario {
        let fault = self.failure_rate.map_or(TargetFault::Outage(self.outage), TargetFault::FailureRate);
        let at_rate = self.arrival_rate.map(|rate| Duration::from_secs(self.messages.div_ceil(rate.into())));
        Scenario {
            strategy: self.strategy,
            messages: self.messages,
            fault,
            capacity: self.capacity,
            over: self.over.or(at_rate).unwrap_or(self.outage),
            invocations: match self.max_concurrency {
                Some(most) => Concurrency::Limited(most),
                None => Concurrency::Unlimited { environments: self.environments },
            },
            batching_window: self.batching_window,
            seed: self.seed,
        }
    }
}

/// What policies are called: their files' names without the ending, with as many folders as tell them apart.
pub(super) fn names_of(paths: &[Option<&Path>]) -> Vec<String> {
    let paths: Vec<_> =
        paths.iter().map(|path| path.unwrap_or(Path::new("default")).with_extension("")).collect();
    let name = |path: &Path| {
        let parts: Vec<_> = path.components().collect();
        let last = |count: usize| parts[parts.len() - count..].iter().collect::<PathBuf>();
        let tells_it_apart =
            |name: &PathBuf| paths.iter().filter(|other| *other != path).all(|other| !other.ends_with(name));
        (1..parts.len()).map(last).find(tells_it_apart).unwrap_or(path.to_owned())
    };
    paths.iter().map(|path| name(path).to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_limits_of_what_they_are_of() {
        assert_eq!(seconds(SPAN)("31d").unwrap_err(), "whole seconds from 1s to 30d");
        assert_eq!(seconds(RETENTION)("15d").unwrap_err(), "whole seconds from 1m to 14d");
    }

    #[test]
    fn a_policy_is_called_by_its_file() {
        let names =
            |paths: &[&str]| names_of(&paths.iter().map(|path| Some(Path::new(*path))).collect::<Vec<_>>());
        assert_eq!(names_of(&[Some(Path::new("policies/fixed.json")), None]), ["fixed", "default"]);
        assert_eq!(names(&["x/a/policy.json", "x/b/policy.json"]), ["a/policy", "b/policy"]);
        assert_eq!(names(&["policy.json", "b/policy.json"]), ["policy", "b/policy"]);
        assert_eq!(names(&["./policy.json", "other.json", "other.json"]), ["policy", "other", "other"]);
    }
}

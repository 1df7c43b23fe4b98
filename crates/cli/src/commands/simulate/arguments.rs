//! The arguments of `redeliver simulate`.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::strategy::Strategy;
use redeliver_sim::Batching;
use redeliver_sim::cost::Architecture;
use redeliver_sim::planner::{
    FailedCall, Flap, INNER_CONCURRENCY_MAX, ModelTimes, PlainSqs, Scenario, ScenarioGroups, TargetFault,
};

use crate::commands::run_args::{parse_probability, strategy_parser};
use redeliver_operator::terminal::help::{HelpFooter, SHOW};
use redeliver_operator::terminal::output::PrintArgs;
use redeliver_operator::terminal::units::{DAY, HOUR, MINUTE, format_count, format_span, number, seconds};
use redeliver_operator::{CommandFailure, ExitCode, UsageError};

/// The default for `--over` with `--flap`.
const FLAP_OVER: Duration = Duration::from_secs(HOUR);
/// The allowed values of `--outage` and `--over`, and of the spans in `--flap`, in seconds.
const SPAN: RangeInclusive<u64> = 1..=30 * DAY;
/// Maximum number of message groups, equal to the maximum number of messages.
const GROUPS_MAX: u32 = 1_000_000;
/// "Amazon SQS message quotas": 60 s to 14 days.
const RETENTION: RangeInclusive<u64> = MINUTE..=14 * DAY;
/// Lambda rejects a visibility timeout below the function's timeout, 60 s; SQS rejects one above 12 hours.
const VISIBILITY: RangeInclusive<u64> = MINUTE..=12 * HOUR;
/// `MaximumBatchingWindowInSeconds` ("CreateEventSourceMapping", AWS Lambda API Reference).
const WINDOW: RangeInclusive<u64> = 0..=300;

const MESSAGES: &str = "Messages";
const TARGET: &str = "Target";
const FUNCTIONS: &str = "Functions";

/// The closing text of the help for `simulate`.
const CLOSING: HelpFooter = HelpFooter {
    command: "simulate",
    page: "plan",
    examples: &[
        "redeliver simulate --policy policy.json --outage 10m",
        "redeliver simulate --policy policy.json --compare other.json --plot both.html",
        "redeliver simulate --policy policy.json --failure-rate 0.05 --over 1h",
        "redeliver simulate --policy policy.json --outage 30m --capacity 500 \\\n--messages 100000 --plot outage.svg",
        "redeliver simulate --outage 3h --arrival-rate 1 --messages 10800 \\\n\
         --compare-plain 180s,5 --compare-plain 900s,100",
        "redeliver simulate --policy policy.json --flap 20s,20s --capacity 500",
        "redeliver simulate --policy policy.json --outage 10m --hang",
        "redeliver simulate --policy policy.json --groups 100 --groups-down 1",
        "redeliver simulate --policy policy.json --strategy direct-resend",
        "redeliver simulate --strategy ordered --groups 10 --groups-down 1 --outage 1h",
        "redeliver simulate --arrival-rate 900 --messages 90000 --inner-concurrency 2",
        "redeliver simulate --policy policy.json --prices frankfurt.json --format json",
    ],
    notes: &[
        "Spans are numbers with units: 90s, 10m, 1h 30m, 7d. Unless --over or --arrival-rate is given, messages arrive \
         at random times during the outage or, with --flap, during one hour. A call takes 0.3 s on average, and a \
         refused call 0.02 s. If the failed-message-processor or the final-dlq-annotator cannot keep up, the output \
         recommends an --inner-concurrency.",
        "As in Lambda, each invocation runs in an environment with its own circuit breaker; with --max-concurrency N \
         there are at most N environments. The most recently used idle environment is used first, and an environment \
         ends after 5 idle minutes or 2 hours (assumptions: AWS says \"every few hours\"). A policy with a circuit \
         breaker is run twice, with and without it. The documentation of `simulate` lists all times of the model.",
        "Prices are AWS's list prices for us-east-1, without free tiers. --prices names a JSON file that replaces some \
         of them: {\"sqs_million_requests\": 0.40, \"sqs_fair_million_requests\": 0.10, \"sqs_fifo_million_requests\": \
         0.50, \"lambda_million_requests\": 0.20, \"lambda_gb_second_arm64\": 0.0000133334, \
         \"lambda_gb_second_x86_64\": 0.0000166667, \"logs_gb\": 0.50}",
    ],
    exit_codes: &[
        (ExitCode::Done, "", "Every message was processed or dead-lettered."),
        (ExitCode::Failed, "", "A policy is invalid, or a file cannot be read or written."),
        (ExitCode::Usage, "", ""),
        (
            ExitCode::ProblemsFound,
            "a lost message",
            "A queue's retention ended before a message was processed or dead-lettered.",
        ),
    ],
};

/// Plan a policy: what it survives, its load on the target, its cost. Runs the functions' own code on an in-memory SQS,
/// against a failing target.
///
/// Schedule and survival are computed from the policy. Load, dead letters and requests are measured: the functions' own
/// code runs on an in-memory SQS, in virtual time, against a target that is down for a while, flaps, or fails at
/// random.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
#[command(after_help = CLOSING.short_text(), after_long_help = CLOSING.long_text())]
pub struct Arguments {
    /// The retry policy [default: 5 retries, each within 900 s]
    ///
    /// A JSON file. The default is 5 retries, each after a random delay of up to 900 s. With --strategy ordered, the
    /// default is to retry for a day, with a maximum delay that doubles each time.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Another policy to compare with; may be repeated
    ///
    /// The tables and the picture show each of the policies. Up to five can be given.
    #[arg(long, value_name = "FILE", num_args = 1)]
    pub compare: Vec<PathBuf>,
    /// Plain SQS to compare with, such as 180s,5; may be repeated
    ///
    /// A source queue with this visibility timeout and maxReceiveCount, a DLQ, and partial batch responses.
    #[arg(long, value_name = "SPAN,N", num_args = 1, value_parser = parse_plain_sqs)]
    pub compare_plain: Vec<PlainSqs>,
    /// The strategy for failed messages
    #[arg(long, value_parser = strategy_parser([Strategy::DelayedResend, Strategy::DirectResend, Strategy::Ordered]), default_value_t)]
    pub strategy: Strategy,
    /// Number of messages
    #[arg(long, help_heading = MESSAGES, value_name = "N", default_value_t = 10_000, value_parser = number(1..=1_000_000_u64))]
    pub messages: u64,
    /// The length of the outage, starting at the first message
    #[arg(long, help_heading = TARGET, value_name = "SPAN", default_value = "10m", value_parser = seconds(SPAN), conflicts_with = "failure_rate", allow_hyphen_values = true)]
    pub outage: Duration,
    /// The target is alternately up and down for these spans
    ///
    /// It continues to do so until the last message.
    #[arg(long, help_heading = TARGET, value_name = "UP,DOWN", value_parser = parse_flap, conflicts_with_all = ["outage", "failure_rate"], allow_hyphen_values = true)]
    pub flap: Option<Flap>,
    /// The target is up, and each call fails with this probability
    #[arg(long, help_heading = TARGET, value_name = "P", value_parser = parse_probability)]
    pub failure_rate: Option<f64>,
    /// The HTTP status of failed calls
    ///
    /// Applies to outages, flaps and random failures. A status that an HTTP target does not retry, such as 400, is
    /// rejected unless the policy's `retryable` names it.
    #[arg(long, help_heading = TARGET, value_name = "N", default_value_t = 503, value_parser = number(300..=599_u16))]
    pub status: u16,
    /// Failed calls hang until the target's timeout of 30 s instead
    #[arg(long, help_heading = TARGET, conflicts_with = "status")]
    pub hang: bool,
    /// Number of message groups; required for --strategy ordered
    ///
    /// The messages are spread evenly over group-1, group-2 …
    #[arg(long, help_heading = MESSAGES, value_name = "N", value_parser = number(1..=GROUPS_MAX))]
    pub groups: Option<u32>,
    /// Only the calls for the first K groups fail [default: all groups]
    ///
    /// The outage, the flapping or the failure rate applies only to these groups.
    #[arg(long, help_heading = TARGET, value_name = "K", value_parser = number(1..=GROUPS_MAX), requires = "groups")]
    pub groups_down: Option<u32>,
    /// Calls per second that can succeed; others get HTTP status 429
    #[arg(long, help_heading = TARGET, value_name = "N", value_parser = number(1_u32..))]
    pub capacity: Option<u32>,
    /// Send messages at random times in this span [default: the outage]
    ///
    /// The default is 10m with --failure-rate, and 1h with --flap.
    #[arg(long, help_heading = MESSAGES, value_name = "SPAN", value_parser = seconds(SPAN), conflicts_with = "arrival_rate", allow_hyphen_values = true)]
    pub over: Option<Duration>,
    /// Messages per second
    #[arg(long, help_heading = MESSAGES, value_name = "N", value_parser = number(1_u32..))]
    pub arrival_rate: Option<u32>,
    /// Concurrent invocations of the message-processor
    ///
    /// The maximum concurrency of the event source mapping. Each invocation has an environment with its own circuit
    /// breaker.
    #[arg(long, help_heading = FUNCTIONS, value_name = "N", default_value_t = 10, value_parser = number(1..=1000_u16))]
    pub max_concurrency: u16,
    /// Concurrent invocations of each other function
    ///
    /// The construct's innerConcurrency, for the failed-message-processor and the final-dlq-annotator. A batch of ten
    /// takes 0.045 s.
    #[arg(long, help_heading = FUNCTIONS, value_name = "N", default_value_t = 10, value_parser = number(2..=INNER_CONCURRENCY_MAX))]
    pub inner_concurrency: u16,
    /// Messages per batch [default: 10; ordered: 1]
    ///
    /// A batch of the message-processor has at most 10 messages. The defaults are the construct's.
    #[arg(long, help_heading = FUNCTIONS, value_name = "N", value_parser = number(1..=10_u8))]
    pub batch_size: Option<u8>,
    /// Longest wait for a batch to fill [default: 1s; ordered: none]
    ///
    /// Waiting saves invocations and log lines, but delays each message by up to this time. The defaults are the
    /// construct's.
    #[arg(long, help_heading = FUNCTIONS, value_name = "SPAN", value_parser = seconds(WINDOW), allow_hyphen_values = true)]
    pub batching_window: Option<Duration>,
    /// Random seed; equal seeds give byte-identical runs
    #[arg(long, help_heading = MESSAGES, value_name = "N", default_value_t = 0, value_parser = number(0_u64..))]
    pub seed: u64,
    /// The source queue's retention [default: 7d; ordered: 14d]
    ///
    /// Used to check the worst case; the run itself uses the default.
    #[arg(long, value_name = "SPAN", value_parser = seconds(RETENTION), allow_hyphen_values = true)]
    pub retention: Option<Duration>,
    /// The functions' architecture
    #[arg(long, help_heading = FUNCTIONS, value_parser = architecture_parser(), default_value = "arm64")]
    pub architecture: Architecture,
    /// A JSON file with your own prices, in dollars
    #[arg(long, help_heading = SHOW, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Draw load, schedule and survival to a .svg or .html file
    ///
    /// An existing file is replaced.
    #[arg(long, help_heading = SHOW, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub printing: PrintArgs,
}

fn architecture_parser() -> impl TypedValueParser<Value = Architecture> {
    let values = [
        PossibleValue::new("arm64").help("The stack's default"),
        PossibleValue::new("x86-64").help("The alternative"),
    ];
    PossibleValuesParser::new(values)
        .map(|name| if name == "arm64" { Architecture::Arm64 } else { Architecture::X86_64 })
}

fn parse_plain_sqs(text: &str) -> Result<PlainSqs, String> {
    let (visibility, receives) = text
        .split_once(',')
        .ok_or("a visibility timeout, a comma and a number of receives, such as 180s,5")?;
    let visibility = seconds(VISIBILITY)(visibility)?.as_secs();
    let visibility = VisibilitySeconds::new(visibility).ok_or("at most 12h")?;
    Ok(PlainSqs { visibility, receives: number(1..=1000_u16)(receives)? })
}

fn parse_flap(text: &str) -> Result<Flap, String> {
    let (up, down) = text.split_once(',').ok_or("two spans with a comma between them, such as 20s,20s")?;
    let span = seconds(SPAN);
    Ok(Flap { up: span(up)?, down: span(down)? })
}

impl Arguments {
    /// Returns the path of each policy; `None` is the default policy.
    pub(super) fn policy_paths(&self) -> impl Iterator<Item = Option<&Path>> {
        let others = self.compare.iter().map(|path| Some(path.as_path()));
        std::iter::once(self.policy.as_deref()).chain(others)
    }

    pub(super) fn retention(&self) -> Duration {
        self.retention.unwrap_or(self.strategy.definition().source_retention())
    }

    /// Builds the scenario. Fails if the fault affects more groups than exist, or if an option does not fit the
    /// strategy's queue.
    pub(super) fn build_scenario(&self) -> Result<Scenario, CommandFailure> {
        let fault = match (self.flap, self.failure_rate) {
            (Some(flap), _) => TargetFault::Flap(flap),
            (None, Some(rate)) => TargetFault::FailureRate(rate),
            (None, None) => TargetFault::Outage(self.outage),
        };
        let groups =
            self.groups.map(|count| ScenarioGroups { count, down: self.groups_down.unwrap_or(count) });
        if let Some(ScenarioGroups { count, down }) = groups.filter(|groups| groups.down > groups.count) {
            let sentence =
                format!("--groups-down {down}: there are only {}", format_count(count.into(), "group"));
            return Err(UsageError::new(sentence).into());
        }
        let is_fifo = self.strategy.definition().is_fifo;
        if is_fifo && groups.is_none() {
            return Err(UsageError::new(format!(
                "--strategy {}: give --groups N, the number of message groups. Each group has its own order and waits \
                 behind its failed message; with --groups 1, all messages are in one order",
                self.strategy
            ))
            .into());
        }
        if is_fifo && self.batching_window.is_some() {
            return Err(UsageError::new(format!(
                "--batching-window: leave it out with --strategy {}, since Lambda has no batching window for FIFO queues",
                self.strategy
            ))
            .into());
        }
        if is_fifo && !self.compare_plain.is_empty() {
            return Err(UsageError::new(format!(
                "--compare-plain: leave it out with --strategy {}, since plain FIFO queues are not simulated",
                self.strategy
            ))
            .into());
        }
        let batching = Batching::for_message_processor(self.strategy);
        let at_rate = self.arrival_rate.map(|rate| Duration::from_secs(self.messages.div_ceil(rate.into())));
        Ok(Scenario {
            strategy: self.strategy,
            messages: self.messages,
            fault,
            failed_call: if self.hang { FailedCall::Hang } else { FailedCall::Status(self.status) },
            groups,
            capacity: self.capacity,
            over: self.over.or(at_rate).unwrap_or(self.flap.map_or(self.outage, |_| FLAP_OVER)),
            max_concurrency: self.max_concurrency,
            inner_concurrency: self.inner_concurrency,
            batching: Batching {
                size: self.batch_size.unwrap_or(batching.size),
                window: self.batching_window.unwrap_or(batching.window),
            },
            seed: self.seed,
            times: ModelTimes::default(),
        })
    }
}

/// Returns the name of a plain queue in tables and pictures.
pub(super) fn plain_queue_name(PlainSqs { visibility, receives }: PlainSqs) -> String {
    format!("SQS {},{receives}", format_span(visibility.get().into()))
}

/// Returns the display names of policies: file names without extension, preceded by enough folders to make them unique.
pub(super) fn policy_names(paths: &[Option<&Path>]) -> Vec<String> {
    let paths: Vec<_> =
        paths.iter().map(|path| path.unwrap_or(Path::new("default")).with_extension("")).collect();
    let name = |path: &Path| {
        let parts: Vec<_> = path.components().collect();
        let last = |count: usize| parts[parts.len() - count..].iter().collect::<PathBuf>();
        let is_distinct =
            |name: &PathBuf| paths.iter().filter(|other| *other != path).all(|other| !other.ends_with(name));
        (1..parts.len()).map(last).find(is_distinct).unwrap_or(path.to_owned())
    };
    paths.iter().map(|path| name(path).to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_outside_their_limits_are_rejected() {
        assert_eq!(seconds(SPAN)("31d").unwrap_err(), "whole seconds from 1s to 30d");
        assert_eq!(seconds(RETENTION)("15d").unwrap_err(), "whole seconds from 1m to 14d");
        assert_eq!(parse_flap("20s").unwrap_err(), "two spans with a comma between them, such as 20s,20s");
        assert_eq!(parse_flap("0s,20s").unwrap_err(), "whole seconds from 1s to 30d");
        assert_eq!(parse_plain_sqs("90s,5").map(plain_queue_name), Ok("SQS 1m 30s,5".to_owned()));
        assert_eq!(parse_plain_sqs("12h,100").map(plain_queue_name), Ok("SQS 12h,100".to_owned()));
        assert_eq!(parse_plain_sqs("30s,5").unwrap_err(), "whole seconds from 1m to 12h");
        assert!(parse_plain_sqs("180s").unwrap_err().starts_with("a visibility timeout, a comma"));
    }

    #[test]
    fn a_policy_is_named_after_its_file() {
        let names = |paths: &[&str]| {
            policy_names(&paths.iter().map(|path| Some(Path::new(*path))).collect::<Vec<_>>())
        };
        assert_eq!(policy_names(&[Some(Path::new("policies/fixed.json")), None]), ["fixed", "default"]);
        assert_eq!(names(&["x/a/policy.json", "x/b/policy.json"]), ["a/policy", "b/policy"]);
        assert_eq!(names(&["policy.json", "b/policy.json"]), ["policy", "b/policy"]);
        assert_eq!(names(&["./policy.json", "other.json", "other.json"]), ["policy", "other", "other"]);
    }
}

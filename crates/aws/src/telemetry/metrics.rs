//! The names, levels and metrics of events, for CloudWatch and for `/metrics` of `redeliver work`.

use redeliver_core::events::{Event, to_milliseconds};
use redeliver_core::failure::Kind;
use redeliver_core::failure::reason::DeadLetterReason;
use serde::{Serialize, Serializer};
use strum::{IntoStaticStr, VariantArray};

/// The namespace of all metrics.
pub const NAMESPACE: &str = "Redeliver";

/// The dimension of every metric: the function's name in Lambda.
pub const FUNCTION: &str = "Function";

/// A metric, named by its variant. docs/operate/metrics.md describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub enum Metric {
    Processed,
    HandedOff,
    NotConfirmed,
    RetriesScheduled,
    Hops,
    ImmediateRetries,
    CircuitOpen,
    Held,
    LongestHoldSeconds,
    Probes,
    GivenUp,
    Blocked,
    DeadLettered,
    ArrivedByRedrive,
    UnreadableRecord,
    ReceiveFailed,
    BatchBrokenOff,
    NotDeleted,
    ArchiveRefused,
    Notices,
    NoticeRefused,
    HeadersNotRefreshed,
    RetryAfterUnreadable,
    AnswerTakenAsSuccess,
    MessageAgeSeconds,
    TargetSeconds,
    RetryDelaySeconds,
    ReceiveCount,
}

impl Metric {
    /// The name in CloudWatch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Occurrences, which are added up.
    Count,
    /// A message's receives so far, as single values.
    Receives,
    /// Durations, as single values.
    Seconds,
}

/// The additional dimension of a counter. CloudWatch bills each of its values as a metric, so only counters in graphs
/// have one, with few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub name: &'static str,
    /// All possible values.
    pub values: &'static [&'static str],
}

const FAILURE_KIND: Dimension = Dimension {
    name: "FailureKind",
    values: &[
        Kind::Transient.as_str(),
        Kind::Permanent.as_str(),
        Kind::Snooze.as_str(),
        Kind::NotStarted.as_str(),
    ],
};

/// Single attempts up to 10, then ranges.
const RETRY_ATTEMPT: Dimension = Dimension {
    name: "RetryAttempt",
    values: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11-100", "101-1000"],
};

const ERROR_TYPE: Dimension = Dimension { name: "ErrorType", values: DeadLetterReason::CODES };

impl Metric {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The kind of its values.
    #[must_use]
    pub const fn measure(self) -> Measure {
        match self {
            Self::LongestHoldSeconds
            | Self::MessageAgeSeconds
            | Self::TargetSeconds
            | Self::RetryDelaySeconds => Measure::Seconds,
            Self::ReceiveCount => Measure::Receives,
            _ => Measure::Count,
        }
    }

    /// Its additional dimension.
    #[must_use]
    pub const fn dimension(self) -> Option<Dimension> {
        match self {
            Self::HandedOff => Some(FAILURE_KIND),
            Self::RetriesScheduled => Some(RETRY_ATTEMPT),
            Self::DeadLettered => Some(ERROR_TYPE),
            _ => None,
        }
    }
}

/// One value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub metric: Metric,
    pub value: Number,
}

/// A value, written to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count, or whole seconds of SQS.
    Whole(u32),
    /// A measured duration.
    Real(f64),
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(number) => serializer.serialize_u32(*number),
            Self::Real(number) => serializer.serialize_f64(to_milliseconds(*number)),
        }
    }
}

/// The line in which an event is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePolicy {
    /// Its own line: it needs action, or is a dead letter.
    Own,
    /// Its own line, but its batch's line with `LOG_LEVEL=WARN`: it is rare and needs no action.
    OwnUnlessWarn,
    /// Its batch's line.
    Batch,
}

/// The log entry and the metrics of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// `INFO` or `WARN`.
    pub level: &'static str,
    pub line: LinePolicy,
    /// Its name in logs.
    pub event: &'static str,
    /// The value of the first metric's dimension, if that has one.
    pub by: Option<&'static str>,
    /// At least one.
    pub metrics: Vec<Measured>,
}

impl Observed {
    /// Classifies an event: its level, its name in logs, its line and its metrics.
    #[must_use]
    pub fn of(event: &Event) -> Self {
        use Metric as M;
        match *event {
            Event::Processed { age_seconds, target_seconds, .. } => {
                let age = seconds(M::MessageAgeSeconds, age_seconds);
                let target = seconds(M::TargetSeconds, target_seconds);
                info("processed", None, &[once(M::Processed), age, target])
            }
            Event::HandedOff { kind, age_seconds, .. } => {
                let age = seconds(M::MessageAgeSeconds, age_seconds);
                info("handed_off", Some(kind), &[once(M::HandedOff), age])
            }
            Event::NotConfirmed { .. } => warn("not_confirmed", None, &[once(M::NotConfirmed)]),
            Event::RetryScheduled { retry_attempt, delay_seconds, age_seconds, .. } => {
                let delay = whole(M::RetryDelaySeconds, delay_seconds.get().into());
                let age = seconds(M::MessageAgeSeconds, age_seconds);
                let by = attempt_range(retry_attempt);
                info("retry_scheduled", Some(by), &[once(M::RetriesScheduled), delay, age])
            }
            Event::Hopped { messages } => info("hopped", None, &[whole(M::Hops, messages)]),
            Event::RetriedImmediately { .. } => {
                info("retried_immediately", None, &[once(M::ImmediateRetries)])
            }
            Event::CircuitOpened { .. } => warn("circuit_opened", None, &[once(M::CircuitOpen)]),
            Event::ProbeFailed { .. } => rare("probe_failed", None, &[once(M::Probes), once(M::CircuitOpen)]),
            Event::CircuitClosed { .. } => rare("circuit_closed", None, &[once(M::Probes)]),
            Event::Held { messages, longest_hold_seconds, .. } => {
                let longest = whole(M::LongestHoldSeconds, longest_hold_seconds);
                info("held", None, &[whole(M::Held, messages), longest, once(M::CircuitOpen)])
            }
            Event::RateLimited { messages, longest_hold_seconds, .. } => {
                let longest = whole(M::LongestHoldSeconds, longest_hold_seconds);
                info("rate_limited", None, &[whole(M::Held, messages), longest])
            }
            Event::NotNow { messages, longest_hold_seconds, .. } => {
                let longest = whole(M::LongestHoldSeconds, longest_hold_seconds);
                info("not_now", None, &[whole(M::Held, messages), longest])
            }
            Event::GivenUp { .. } => warn("given_up", None, &[once(M::GivenUp)]),
            Event::Blocked { .. } => warn("blocked", None, &[once(M::Blocked)]),
            Event::DeadLettered { error_type, age_seconds, .. } => {
                let age = seconds(M::MessageAgeSeconds, age_seconds);
                // A later version's code is not a value of the dimension and would be billed as another metric.
                let by = Some(error_type).filter(|code| ERROR_TYPE.values.contains(code));
                warn("dead_lettered", by, &[once(M::DeadLettered), age])
            }
            Event::ArrivedByRedrive { .. } => warn("arrived_by_redrive", None, &[once(M::ArrivedByRedrive)]),
            Event::ReceivedAgain { receive_count, age_seconds, .. } => {
                let age = seconds(M::MessageAgeSeconds, age_seconds);
                warn("received_again", None, &[whole(M::ReceiveCount, receive_count), age])
            }
            Event::UnreadableRecord { .. } => warn("unreadable_record", None, &[once(M::UnreadableRecord)]),
            Event::ReceiveFailed { .. } => warn("receive_failed", None, &[once(M::ReceiveFailed)]),
            Event::BatchBrokenOff { .. } => warn("batch_broken_off", None, &[once(M::BatchBrokenOff)]),
            Event::NotDeleted { .. } => warn("not_deleted", None, &[once(M::NotDeleted)]),
            Event::ArchiveRefused { .. } => warn("archive_refused", None, &[once(M::ArchiveRefused)]),
            Event::NoticePublished { .. } => rare("notice_published", None, &[once(M::Notices)]),
            Event::NoticeRefused { .. } => warn("notice_refused", None, &[once(M::NoticeRefused)]),
            Event::RetryAfterUnreadable { .. } => {
                info("retry_after_unreadable", None, &[once(M::RetryAfterUnreadable)])
            }
            Event::AnswerTakenAsSuccess { .. } => {
                warn("answer_taken_as_success", None, &[once(M::AnswerTakenAsSuccess)])
            }
            Event::HeadersNotRefreshed { .. } => {
                warn("headers_not_refreshed", None, &[once(M::HeadersNotRefreshed)])
            }
        }
    }
}

fn info(event: &'static str, by: Option<&'static str>, metrics: &[Measured]) -> Observed {
    Observed { level: "INFO", line: LinePolicy::Batch, event, by, metrics: metrics.to_vec() }
}

fn rare(event: &'static str, by: Option<&'static str>, metrics: &[Measured]) -> Observed {
    Observed { line: LinePolicy::OwnUnlessWarn, ..info(event, by, metrics) }
}

fn warn(event: &'static str, by: Option<&'static str>, metrics: &[Measured]) -> Observed {
    Observed { level: "WARN", line: LinePolicy::Own, event, by, metrics: metrics.to_vec() }
}

fn once(metric: Metric) -> Measured {
    whole(metric, 1)
}

fn whole(metric: Metric, count: u32) -> Measured {
    Measured { metric, value: Number::Whole(count) }
}

fn seconds(metric: Metric, seconds: f64) -> Measured {
    Measured { metric, value: Number::Real(seconds) }
}

/// A value of `RETRY_ATTEMPT`.
fn attempt_range(attempt: u32) -> &'static str {
    match usize::try_from(attempt) {
        // A value for each of a thousand attempts would be a thousand metrics at $0.30 a month ("Amazon CloudWatch
        // pricing").
        Ok(single @ ..=10) => RETRY_ATTEMPT.values[single],
        Ok(11..=100) => RETRY_ATTEMPT.values[11],
        _ => RETRY_ATTEMPT.values[12],
    }
}

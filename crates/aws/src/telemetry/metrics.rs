//! The names, levels and metrics of events, for CloudWatch and for the `/metrics` endpoint of `redeliver work`.

use redeliver_core::events::{Event, round_to_milliseconds};
use redeliver_core::failure::FailureClass;
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
    /// Returns the name in CloudWatch.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Occurrences, which are summed.
    Count,
    /// The number of times that a message has been received, recorded individually.
    Receives,
    /// Durations, recorded individually.
    Seconds,
}

/// The additional dimension of a counter. CloudWatch bills each of its values as a metric, so only counters shown in
/// graphs have such a dimension, and it has few values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub name: &'static str,
    /// All possible values.
    pub values: &'static [&'static str],
}

const FAILURE_KIND: Dimension = Dimension {
    name: "FailureKind",
    values: &[
        FailureClass::Transient.as_str(),
        FailureClass::Permanent.as_str(),
        FailureClass::Snooze.as_str(),
        FailureClass::NotStarted.as_str(),
    ],
};

/// Individual attempts up to 10, then ranges.
const RETRY_ATTEMPT: Dimension = Dimension {
    name: "RetryAttempt",
    values: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11-100", "101-1000"],
};

const ERROR_TYPE: Dimension = Dimension { name: "ErrorType", values: DeadLetterReason::CODES };

impl Metric {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the kind of the metric's values.
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

    /// Returns the metric's additional dimension, if any.
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
pub struct Measurement {
    pub metric: Metric,
    pub value: MetricValue,
}

/// A value, written with millisecond precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue {
    /// A count, or whole seconds from SQS.
    Whole(u32),
    /// A measured duration.
    Real(f64),
}

impl Serialize for MetricValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(number) => serializer.serialize_u32(*number),
            Self::Real(number) => serializer.serialize_f64(round_to_milliseconds(*number)),
        }
    }
}

/// The line in which an event is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePolicy {
    /// A separate line: the event needs action, or is a dead letter.
    Own,
    /// A separate line or, with `LOG_LEVEL=WARN`, the batch line: the event is rare and needs no action.
    OwnUnlessWarn,
    /// The batch line.
    Batch,
}

/// The log entry and the metrics of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventReport {
    /// `INFO` or `WARN`.
    pub level: &'static str,
    pub line: LinePolicy,
    /// The event's name in logs.
    pub event: &'static str,
    /// The value of the first metric's additional dimension, if it has one.
    pub by: Option<&'static str>,
    /// The event's metrics, at least one.
    pub metrics: Vec<Measurement>,
}

impl EventReport {
    /// Classifies an event: its level, its name in logs, its line and its metrics.
    #[must_use]
    pub fn from_event(event: &Event) -> Self {
        use Metric as M;
        match *event {
            Event::Processed { age_seconds, target_seconds, .. } => {
                let age = duration_measurement(M::MessageAgeSeconds, age_seconds);
                let target = duration_measurement(M::TargetSeconds, target_seconds);
                batch_event("processed", None, &[count_once(M::Processed), age, target])
            }
            Event::HandedOff { kind, age_seconds, .. } => {
                let age = duration_measurement(M::MessageAgeSeconds, age_seconds);
                batch_event("handed_off", Some(kind), &[count_once(M::HandedOff), age])
            }
            Event::NotConfirmed { .. } => {
                warning_event("not_confirmed", None, &[count_once(M::NotConfirmed)])
            }
            Event::RetryScheduled { retry_attempt, delay_seconds, age_seconds, .. } => {
                let delay = integer_measurement(M::RetryDelaySeconds, delay_seconds.get().into());
                let age = duration_measurement(M::MessageAgeSeconds, age_seconds);
                let by = attempt_range(retry_attempt);
                batch_event("retry_scheduled", Some(by), &[count_once(M::RetriesScheduled), delay, age])
            }
            Event::Hopped { messages } => {
                batch_event("hopped", None, &[integer_measurement(M::Hops, messages)])
            }
            Event::RetriedImmediately { .. } => {
                batch_event("retried_immediately", None, &[count_once(M::ImmediateRetries)])
            }
            Event::CircuitOpened { .. } => {
                warning_event("circuit_opened", None, &[count_once(M::CircuitOpen)])
            }
            Event::ProbeFailed { .. } => {
                rare_event("probe_failed", None, &[count_once(M::Probes), count_once(M::CircuitOpen)])
            }
            Event::CircuitClosed { .. } => rare_event("circuit_closed", None, &[count_once(M::Probes)]),
            Event::Held { messages, longest_hold_seconds, .. } => {
                let longest = integer_measurement(M::LongestHoldSeconds, longest_hold_seconds);
                batch_event(
                    "held",
                    None,
                    &[integer_measurement(M::Held, messages), longest, count_once(M::CircuitOpen)],
                )
            }
            Event::RateLimited { messages, longest_hold_seconds, .. } => {
                let longest = integer_measurement(M::LongestHoldSeconds, longest_hold_seconds);
                batch_event("rate_limited", None, &[integer_measurement(M::Held, messages), longest])
            }
            Event::NotNow { messages, longest_hold_seconds, .. } => {
                let longest = integer_measurement(M::LongestHoldSeconds, longest_hold_seconds);
                batch_event("not_now", None, &[integer_measurement(M::Held, messages), longest])
            }
            Event::GivenUp { .. } => warning_event("given_up", None, &[count_once(M::GivenUp)]),
            Event::Blocked { .. } => warning_event("blocked", None, &[count_once(M::Blocked)]),
            Event::DeadLettered { error_type, age_seconds, .. } => {
                let age = duration_measurement(M::MessageAgeSeconds, age_seconds);
                // A code from a later version is not a value of the dimension and would be billed as another metric.
                let by = Some(error_type).filter(|code| ERROR_TYPE.values.contains(code));
                warning_event("dead_lettered", by, &[count_once(M::DeadLettered), age])
            }
            Event::ArrivedByRedrive { .. } => {
                warning_event("arrived_by_redrive", None, &[count_once(M::ArrivedByRedrive)])
            }
            Event::ReceivedAgain { receive_count, age_seconds, .. } => {
                let age = duration_measurement(M::MessageAgeSeconds, age_seconds);
                warning_event(
                    "received_again",
                    None,
                    &[integer_measurement(M::ReceiveCount, receive_count), age],
                )
            }
            Event::UnreadableRecord { .. } => {
                warning_event("unreadable_record", None, &[count_once(M::UnreadableRecord)])
            }
            Event::ReceiveFailed { .. } => {
                warning_event("receive_failed", None, &[count_once(M::ReceiveFailed)])
            }
            Event::BatchBrokenOff { .. } => {
                warning_event("batch_broken_off", None, &[count_once(M::BatchBrokenOff)])
            }
            Event::NotDeleted { .. } => warning_event("not_deleted", None, &[count_once(M::NotDeleted)]),
            Event::ArchiveRefused { .. } => {
                warning_event("archive_refused", None, &[count_once(M::ArchiveRefused)])
            }
            Event::NoticePublished { .. } => rare_event("notice_published", None, &[count_once(M::Notices)]),
            Event::NoticeRefused { .. } => {
                warning_event("notice_refused", None, &[count_once(M::NoticeRefused)])
            }
            Event::RetryAfterUnreadable { .. } => {
                batch_event("retry_after_unreadable", None, &[count_once(M::RetryAfterUnreadable)])
            }
            Event::AnswerTakenAsSuccess { .. } => {
                warning_event("answer_taken_as_success", None, &[count_once(M::AnswerTakenAsSuccess)])
            }
            Event::HeadersNotRefreshed { .. } => {
                warning_event("headers_not_refreshed", None, &[count_once(M::HeadersNotRefreshed)])
            }
        }
    }
}

fn batch_event(event: &'static str, by: Option<&'static str>, metrics: &[Measurement]) -> EventReport {
    EventReport { level: "INFO", line: LinePolicy::Batch, event, by, metrics: metrics.to_vec() }
}

fn rare_event(event: &'static str, by: Option<&'static str>, metrics: &[Measurement]) -> EventReport {
    EventReport { line: LinePolicy::OwnUnlessWarn, ..batch_event(event, by, metrics) }
}

fn warning_event(event: &'static str, by: Option<&'static str>, metrics: &[Measurement]) -> EventReport {
    EventReport { level: "WARN", line: LinePolicy::Own, event, by, metrics: metrics.to_vec() }
}

fn count_once(metric: Metric) -> Measurement {
    integer_measurement(metric, 1)
}

fn integer_measurement(metric: Metric, count: u32) -> Measurement {
    Measurement { metric, value: MetricValue::Whole(count) }
}

fn duration_measurement(metric: Metric, seconds: f64) -> Measurement {
    Measurement { metric, value: MetricValue::Real(seconds) }
}

/// Returns the attempt's value in `RETRY_ATTEMPT`.
fn attempt_range(attempt: u32) -> &'static str {
    match usize::try_from(attempt) {
        // A value for each of a thousand attempts would be a thousand metrics at $0.30 per month each ("Amazon
        // CloudWatch pricing").
        Ok(single @ ..=10) => RETRY_ATTEMPT.values[single],
        Ok(11..=100) => RETRY_ATTEMPT.values[11],
        _ => RETRY_ATTEMPT.values[12],
    }
}

//! A scenario for a policy: the messages, the target's fault, and the concurrency of the callers.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::time::Duration;

use redeliver_core::decide::is_permanent_status;
use redeliver_core::handler::ErrorType;
use redeliver_core::strategy::Strategy;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::times::ModelTimes;
use crate::batching::Batching;

/// A scenario. By default, 10,000 messages are sent over ten minutes, during which the target is down, and are
/// processed by up to 10 concurrent invocations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    #[serde(serialize_with = "serialize_as_name")]
    pub strategy: Strategy,
    pub messages: u64,
    #[serde(flatten)]
    pub fault: TargetFault,
    /// The outcome of calls that fail because of the fault.
    #[serde(rename = "error_type", serialize_with = "serialize_as_name")]
    pub failed_call: FailedCall,
    /// The message groups. Without groups, messages have no `MessageGroupId` and all are affected by the fault.
    /// Required for a FIFO queue.
    pub groups: Option<ScenarioGroups>,
    /// The maximum number of successful calls per second.
    #[serde(rename = "capacity_per_second")]
    pub capacity: Option<u32>,
    /// The time span over which the messages are sent, at random times.
    #[serde(rename = "over_seconds", serialize_with = "serialize_as_seconds")]
    pub over: Duration,
    /// Concurrent invocations of the message-processor, each in its own environment.
    pub max_concurrency: u16,
    /// Concurrent invocations of each inner function: the failed-message-processor and the final-dlq-annotator.
    pub inner_concurrency: u16,
    /// The message-processor's batches.
    #[serde(flatten)]
    pub batching: Batching,
    /// The seed for the message ids, send times, call durations, and random failures.
    pub seed: u64,
    #[serde(skip)]
    pub times: ModelTimes,
}

/// The defaults of `redeliver simulate`. They match the construct's where both exist.
impl Default for Scenario {
    fn default() -> Self {
        let outage = Duration::from_secs(600);
        Self {
            strategy: Strategy::default(),
            messages: 10_000,
            fault: TargetFault::Outage(outage),
            failed_call: FailedCall::Status(503),
            groups: None,
            capacity: None,
            over: outage,
            max_concurrency: 10,
            inner_concurrency: 10,
            batching: Batching::for_message_processor(Strategy::default()),
            seed: 0,
            times: ModelTimes::default(),
        }
    }
}

/// The times, in seconds, of a target that alternates between up and down.
struct FaultCycle {
    /// The time for which the target is up at the start of each period.
    up: u64,
    period: u64,
    /// The time after which the target is always up.
    end: u64,
}

/// The target's fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetFault {
    /// The target is down for this duration, from the first message on.
    Outage(Duration),
    /// The target alternates between up and down, from the first message until the end of the scenario's `over`.
    Flap(Flap),
    /// Each call fails with this probability.
    FailureRate(f64),
}

/// The outcome of a call that fails because of the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCall {
    /// The target responds with this HTTP status. See [`FailedCall::is_permanent`] for those that are not retried.
    Status(u16),
    /// The target does not respond within [`TARGET_TIMEOUT`].
    Hang,
}

/// The timeout of a call to an HTTP target: the construct's default.
pub const TARGET_TIMEOUT: Duration = Duration::from_secs(30);

impl FailedCall {
    pub fn error_type(self) -> ErrorType {
        match self {
            Self::Status(status) => ErrorType::HttpStatus(status),
            Self::Hang => "Http.Timeout".into(),
        }
    }

    /// Returns true for a status that is not retried for an HTTP target unless the policy's `retryable` lists it.
    /// If it is not listed, `redeliver simulate` rejects it, because the simulated target has no permanent errors.
    pub const fn is_permanent(self) -> bool {
        match self {
            Self::Status(status) => is_permanent_status(status),
            Self::Hang => false,
        }
    }
}

/// Formats the outcome as its error type.
impl Display for FailedCall {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.error_type().name())
    }
}

/// The durations for which a flapping target is up and then down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flap {
    #[serde(rename = "up_seconds", serialize_with = "serialize_as_seconds")]
    pub up: Duration,
    #[serde(rename = "down_seconds", serialize_with = "serialize_as_seconds")]
    pub down: Duration,
}

/// Message groups. The messages cycle through the groups; each round is in a new random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScenarioGroups {
    pub count: u32,
    /// The number of affected groups, counted from the first.
    pub down: u32,
}

impl TargetFault {
    pub const fn outage_seconds(&self) -> Option<u64> {
        match self {
            Self::Outage(length) => Some(length.as_secs()),
            Self::Flap(_) | Self::FailureRate(_) => None,
        }
    }

    pub const fn failure_rate(&self) -> Option<f64> {
        match self {
            Self::Outage(_) | Self::Flap(_) => None,
            Self::FailureRate(rate) => Some(*rate),
        }
    }

    const fn flap(&self) -> Option<Flap> {
        match self {
            Self::Flap(flap) => Some(*flap),
            Self::Outage(_) | Self::FailureRate(_) => None,
        }
    }
}

impl Serialize for TargetFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([
            ("outage_seconds", json!(self.outage_seconds())),
            ("flap", json!(self.flap())),
            ("failure_rate", json!(self.failure_rate())),
        ])
    }
}

impl ScenarioGroups {
    /// Returns the `MessageGroupId` of a group; groups are numbered from 0.
    pub(super) fn group_id(group: u32) -> String {
        format!("group-{}", group + 1)
    }

    fn is_group_affected(self, message_group_id: Option<&str>) -> bool {
        let number = message_group_id.and_then(|id| id.strip_prefix("group-")?.parse::<u32>().ok());
        number.is_some_and(|number| number <= self.down)
    }
}

impl Scenario {
    /// Returns the times at which the target is down, in seconds since the first message.
    pub fn down_times(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator {
        let FaultCycle { up, period, end } = self.fault_cycle();
        let count = usize::try_from(end.saturating_sub(up).div_ceil(period)).unwrap_or(usize::MAX);
        (0..count).map(move |index| {
            let start = up + index as u64 * period;
            start..(start + period - up).min(end)
        })
    }

    /// Returns true if the target's fault affects the messages of this group.
    pub(super) fn is_affected(&self, message_group_id: Option<&str>) -> bool {
        self.groups.is_none_or(|groups| groups.is_group_affected(message_group_id))
    }

    /// Returns true if the target is down in this second for the affected messages.
    pub(super) fn is_down(&self, second: u64) -> bool {
        let FaultCycle { up, period, end } = self.fault_cycle();
        second < end && second % period >= up
    }

    fn fault_cycle(&self) -> FaultCycle {
        match self.fault {
            TargetFault::Outage(length) => {
                FaultCycle { up: 0, period: length.as_secs().max(1), end: length.as_secs() }
            }
            TargetFault::Flap(Flap { up, down }) => {
                FaultCycle { up: up.as_secs(), period: (up + down).as_secs(), end: self.over.as_secs() }
            }
            TargetFault::FailureRate(_) => FaultCycle { up: 0, period: 1, end: 0 },
        }
    }

    /// Returns the second at which the target recovers for good, or `None` if it is never down.
    pub fn recovery_second(&self) -> Option<u64> {
        self.down_times().next_back().map(|down| down.end)
    }

    /// Returns the send times, relative to the start of the run.
    pub(super) fn send_times(&self) -> Vec<Duration> {
        self.times.send_times(self.messages, self.over, self.seed)
    }
}

/// Serializes a value as its name.
pub(super) fn serialize_as_name<S: Serializer>(
    value: &impl Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn serialize_as_seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If no group were affected, a plan for one tenant's outage would predict no effect.
    #[test]
    fn the_first_groups_are_affected_by_the_fault() {
        let groups = ScenarioGroups { count: 5, down: 2 };
        let affected = (0..5).map(|group| groups.is_group_affected(Some(&ScenarioGroups::group_id(group))));
        assert_eq!(affected.collect::<Vec<_>>(), [true, true, false, false, false]);
        assert!(!groups.is_group_affected(None));
    }

    #[test]
    fn a_flapping_target_goes_down_after_each_up_time_until_the_last_message() {
        let down_times = |up, down, over| {
            let [up, down, over] = [up, down, over].map(Duration::from_secs);
            let fault = TargetFault::Flap(Flap { up, down });
            let scenario = Scenario { fault, over, ..Scenario::default() };
            let times: Vec<_> = scenario.down_times().collect();
            for second in 0..200 {
                let is_in_down_time = times.iter().any(|time| time.contains(&second));
                assert_eq!(scenario.is_down(second), is_in_down_time, "{second}");
            }
            (times, scenario.recovery_second())
        };
        assert_eq!(down_times(20, 10, 60), (vec![20..30, 50..60], Some(60)));
        assert_eq!(down_times(20, 10, 75), (vec![20..30, 50..60], Some(60)), "the target is up at the end");
        assert_eq!(
            down_times(20, 10, 85),
            (vec![20..30, 50..60, 80..85], Some(85)),
            "the last down time is cut short"
        );
        assert_eq!(down_times(20, 10, 20), (vec![], None));
    }
}

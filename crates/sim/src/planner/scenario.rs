//! A scenario for a policy: the messages, the fault of the target, and the concurrency of its callers.

use std::time::Duration;

use redeliver_core::strategy::Strategy;
use serde::{Serialize, Serializer};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    #[serde(serialize_with = "name")]
    pub strategy: Strategy,
    pub messages: u64,
    #[serde(flatten)]
    pub fault: TargetFault,
    /// Calls per second that can succeed.
    #[serde(rename = "capacity_per_second")]
    pub capacity: Option<u32>,
    /// The messages are sent evenly over this span.
    #[serde(rename = "over_seconds", serialize_with = "seconds")]
    pub over: Duration,
    #[serde(flatten)]
    pub invocations: Concurrency,
    /// The time that a batch that is not full waits for more messages.
    #[serde(rename = "batching_window_seconds", serialize_with = "seconds")]
    pub batching_window: Duration,
    /// Seeds the message ids, and the failures by chance.
    pub seed: u64,
}

/// The fault of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TargetFault {
    /// It is down for this long, from the first message on.
    Outage(Duration),
    /// Each call fails with this chance.
    FailureRate(f64),
}

/// Concurrent invocations of the message-processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Concurrency {
    /// At most this many, each in an environment of its own. A call takes time.
    Limited(u16),
    /// As many as are due; a call takes no time. The environments take turns.
    Unlimited { environments: u16 },
}

impl Concurrency {
    pub const fn limit(self) -> Option<u16> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited { .. } => None,
        }
    }

    /// The largest number of environments.
    pub const fn environments(self) -> u16 {
        match self {
            Self::Limited(environments) | Self::Unlimited { environments } => environments,
        }
    }
}

impl Serialize for Concurrency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let environments = Some(self.environments());
        serializer.collect_map([("max_concurrency", self.limit()), ("environments", environments)])
    }
}

impl TargetFault {
    pub const fn outage_seconds(&self) -> Option<u64> {
        match self {
            Self::Outage(length) => Some(length.as_secs()),
            Self::FailureRate(_) => None,
        }
    }

    pub const fn failure_rate(&self) -> Option<f64> {
        match self {
            Self::Outage(_) => None,
            Self::FailureRate(rate) => Some(*rate),
        }
    }
}

impl Serialize for TargetFault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (outage, rate) = (self.outage_seconds(), self.failure_rate());
        serializer.collect_map([("outage_seconds", json!(outage)), ("failure_rate", json!(rate))])
    }
}

impl Scenario {
    /// The second at which message `number` is sent, counted from the first message.
    pub(super) fn second_of(&self, number: u64) -> u64 {
        let second = u128::from(number) * u128::from(self.over.as_secs()) / u128::from(self.messages.max(1));
        u64::try_from(second).unwrap_or(u64::MAX)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn name<S: Serializer>(strategy: &Strategy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(strategy)
}

fn seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_secs())
}

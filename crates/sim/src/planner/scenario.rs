//! What a policy is tried on: how many messages come and when, what is wrong with the target, and who calls it.

use std::time::Duration;

use redeliver_core::strategy::Strategy;
use serde::{Serialize, Serializer};
use serde_json::json;

/// What happens to the policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// How a message that failed comes back.
    #[serde(serialize_with = "name")]
    pub strategy: Strategy,
    /// How many messages are sent.
    pub messages: u64,
    #[serde(flatten)]
    pub trouble: Trouble,
    /// Calls that the target takes in a second.
    #[serde(rename = "capacity_per_second")]
    pub capacity: Option<u32>,
    /// The messages come evenly over this.
    #[serde(rename = "over_seconds", serialize_with = "seconds")]
    pub over: Duration,
    #[serde(flatten)]
    pub invocations: Concurrency,
    /// How long a batch that is not full waits for more messages.
    #[serde(rename = "batching_window_seconds", serialize_with = "seconds")]
    pub batching_window: Duration,
    /// Seeds the messages' ids, and failures by chance.
    pub seed: u64,
}

/// What is wrong with the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// It is down for so long, from the first message on.
    Outage(Duration),
    /// Each call fails with this chance.
    FailureRate(f64),
}

/// Invocations of the message-processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Concurrency {
    /// So many at the same time, and a call takes time. There is an environment for each of them.
    Limited(u16),
    /// A call takes no time, and as many are made as are due. So many environments take turns.
    Unlimited { environments: u16 },
}

impl Concurrency {
    pub const fn limit(self) -> Option<u16> {
        match self {
            Self::Limited(most) => Some(most),
            Self::Unlimited { .. } => None,
        }
    }

    /// How many there are at most.
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

impl Trouble {
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

impl Serialize for Trouble {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (outage, rate) = (self.outage_seconds(), self.failure_rate());
        serializer.collect_map([("outage_seconds", json!(outage)), ("failure_rate", json!(rate))])
    }
}

impl Scenario {
    /// When message `number` is sent, in seconds since the first.
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

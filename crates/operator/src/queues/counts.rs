//! The message counts of a queue.

use std::collections::BTreeMap;

use redeliver_dead_letters::Retention;
use serde::Serialize;

/// The approximate message counts that SQS reports for a queue, up to a minute old. `None` if a count is not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Messages available to be received.
    pub visible: Option<u64>,
    /// Messages received but not yet deleted.
    pub in_flight: Option<u64>,
    /// Messages whose delay has not expired.
    pub delayed: Option<u64>,
    /// The message retention period.
    pub retention_seconds: Option<u64>,
}

impl QueueCounts {
    /// Parses the counts from a queue's attributes.
    pub fn from_attributes(attributes: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| attributes.get(name)?.parse().ok();
        Self {
            visible: number("ApproximateNumberOfMessages"),
            in_flight: number("ApproximateNumberOfMessagesNotVisible"),
            delayed: number("ApproximateNumberOfMessagesDelayed"),
            retention_seconds: number("MessageRetentionPeriod"),
        }
    }

    /// Returns the retention, if SQS reports it.
    pub fn retention(&self) -> Option<Retention> {
        Retention::from_seconds(self.retention_seconds?)
    }

    /// Returns the number of messages in all states.
    pub fn total_messages(&self) -> u64 {
        [self.visible, self.in_flight, self.delayed].into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// Returns true if the queue has messages in any state.
    pub fn has_messages(&self) -> bool {
        self.total_messages() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_any_state_are_counted() {
        for state in ["", "NotVisible", "Delayed"] {
            let counts = |number: &str| {
                let name = format!("ApproximateNumberOfMessages{state}");
                QueueCounts::from_attributes(&BTreeMap::from([(name, number.to_owned())]))
            };
            assert!(counts("1").has_messages() && !counts("0").has_messages(), "{state}");
        }
        assert!(!QueueCounts::default().has_messages());
    }
}

//! The counts of a queue.

use std::collections::BTreeMap;

use redeliver_dead_letters::Retention;
use serde::Serialize;

/// SQS's approximate counts of a queue, up to a minute old. `None` if SQS does not report one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Messages that wait to be received.
    pub visible: Option<u64>,
    /// Messages that were received and not deleted.
    pub in_flight: Option<u64>,
    /// Messages whose delay is not over.
    pub delayed: Option<u64>,
    /// The retention of a message.
    pub retention_seconds: Option<u64>,
}

impl QueueCounts {
    /// The counts in a queue's attributes.
    pub fn from_attributes(attributes: &BTreeMap<String, String>) -> Self {
        let number = |name: &str| attributes.get(name)?.parse().ok();
        Self {
            visible: number("ApproximateNumberOfMessages"),
            in_flight: number("ApproximateNumberOfMessagesNotVisible"),
            delayed: number("ApproximateNumberOfMessagesDelayed"),
            retention_seconds: number("MessageRetentionPeriod"),
        }
    }

    /// The retention, if SQS reports it.
    pub fn retention(&self) -> Option<Retention> {
        Retention::from_seconds(self.retention_seconds?)
    }

    /// Messages in all states.
    pub fn total_messages(&self) -> u64 {
        [self.visible, self.in_flight, self.delayed].into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// True if it has messages in any state.
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

//! The deduplication ids of a FIFO queue.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use redeliver_core::message::Timestamp;

use crate::clock::add_duration;

/// The deduplication interval ("Exactly-once processing in Amazon SQS").
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The deduplication ids of the last five minutes, including those of deleted messages.
#[derive(Debug, Default)]
pub(super) struct Deduplication {
    /// SQS message ids by deduplication id.
    sqs_ids: HashMap<String, String>,
    /// The ids and the ends of their intervals, in chronological order.
    ends: VecDeque<(Timestamp, String)>,
}

impl Deduplication {
    /// Returns the SQS message id of the message that was sent with this deduplication id in the last five minutes.
    pub(super) fn find_sent_id(&mut self, now: Timestamp, id: &str) -> Option<&String> {
        while self.ends.front().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, expired_id)) = self.ends.pop_front() {
                self.sqs_ids.remove(&expired_id);
            }
        }
        self.sqs_ids.get(id)
    }

    pub(super) fn remember_id(&mut self, now: Timestamp, id: String, sqs_id: String) {
        self.ends.push_back((add_duration(now, INTERVAL), id.clone()));
        self.sqs_ids.insert(id, sqs_id);
    }
}

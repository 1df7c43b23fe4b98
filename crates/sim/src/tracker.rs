//! Tracks each message from its send until it is settled, independently of the functions' own events.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use redeliver_core::message::Timestamp;
use serde::Deserialize;

/// A tracker that counts how often each message was sent and settled. A message is identified by its
/// `metadata.message_id`, or by its body if it has none; a re-send changes neither.
#[derive(Debug, Default)]
pub struct Tracker {
    messages: HashMap<u64, MessageCount>,
    dead_letters: BTreeMap<String, u64>,
    settled: u64,
    expected: u64,
    sent: u64,
    processed: u64,
    last_settled_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default)]
struct MessageCount {
    sent: u32,
    times_settled: u32,
}

impl Tracker {
    /// Announces messages still to be sent. The run is not settled without them.
    pub fn expect_messages(&mut self, messages: u64) {
        self.expected += messages;
    }

    /// Returns true while announced messages are still to be sent.
    #[must_use]
    pub fn expects_more(&self) -> bool {
        self.expected > 0
    }

    /// Records that a message is about to be sent to the source queue. Called before the send, since the target may
    /// have processed the message by the time SQS responds.
    pub fn record_sent(&mut self, body: &str) {
        self.sent += 1;
        self.expected = self.expected.saturating_sub(1);
        let count = self.messages.entry(identity_hash(body)).or_default();
        count.sent += 1;
        // A copy may already have been settled.
        self.settled += u64::from(count.times_settled >= count.sent);
    }

    /// Records that the target has processed a message.
    pub fn record_processed(&mut self, body: &str, now: Timestamp) {
        self.processed += 1;
        self.record_settled(body, now);
    }

    /// Records that a message was read from the final DLQ.
    pub fn record_dead_letter(&mut self, body: &str, error_type: &str, now: Timestamp) {
        *self.dead_letters.entry(error_type.to_owned()).or_default() += 1;
        self.record_settled(body, now);
    }

    /// Returns the number of settled messages. A message counts at most as many times as it was sent.
    #[must_use]
    pub fn settled_count(&self) -> u64 {
        self.settled
    }

    /// Returns the number of messages that were sent but are not settled.
    #[must_use]
    pub fn missing_count(&self) -> u64 {
        self.sent - self.settled
    }

    /// Returns true if every sent message is settled, and no more are expected.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.missing_count() == 0 && !self.expects_more()
    }

    /// Returns the number of surplus settlements: copies from at-least-once delivery.
    #[must_use]
    pub fn copy_count(&self) -> u64 {
        self.processed + self.dead_letters.values().sum::<u64>() - self.settled
    }

    #[must_use]
    pub fn total_sent(&self) -> u64 {
        self.sent
    }

    #[must_use]
    pub fn total_processed(&self) -> u64 {
        self.processed
    }

    /// Returns the number of final records by `ErrorType`.
    #[must_use]
    pub fn dead_letters(&self) -> &BTreeMap<String, u64> {
        &self.dead_letters
    }

    /// Returns the time at which the last message was settled.
    #[must_use]
    pub fn last_settled_at(&self) -> Option<Timestamp> {
        self.last_settled_at
    }

    fn record_settled(&mut self, body: &str, now: Timestamp) {
        let count = self.messages.entry(identity_hash(body)).or_default();
        count.times_settled += 1;
        if count.times_settled <= count.sent {
            self.settled += 1;
            self.last_settled_at = Some(now);
        }
    }
}

fn identity_hash(body: &str) -> u64 {
    parse_message_id(body).map_or_else(|| hash_text(body), |message_id| hash_text(&message_id))
}

pub(crate) fn hash_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Returns `metadata.message_id`, even if the rest of the body is invalid.
pub(crate) fn parse_message_id(body: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct IdentifiedBody {
        metadata: IdentifiedMetadata,
    }
    #[derive(Deserialize)]
    struct IdentifiedMetadata {
        message_id: String,
    }
    serde_json::from_str(body).ok().map(|IdentifiedBody { metadata }| metadata.message_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = r#"{"metadata":{"message_id":"a"},"data":{}}"#;
    const ONE_RETRIED: &str = r#"{"metadata":{"message_id":"a","retry_attempt":1},"data":{}}"#;

    #[test]
    fn a_retried_message_is_the_same_message() {
        let mut tracker = Tracker::default();
        tracker.record_sent(ONE);
        assert!(!tracker.is_settled());
        tracker.record_processed(ONE_RETRIED, Timestamp::UNIX_EPOCH);
        assert!(tracker.is_settled());
        assert_eq!((tracker.settled_count(), tracker.copy_count()), (1, 0));
    }

    /// `serde_json` alone would accept the inner string as the id.
    #[test]
    fn an_object_is_not_a_message_id() {
        let mut tracker = Tracker::default();
        tracker.record_sent(ONE);
        let object = r#"{"metadata":{"message_id":{"$serde_json::private::RawValue":"\"a\""}},"data":{}}"#;
        tracker.record_processed(object, Timestamp::UNIX_EPOCH);
        assert!(!tracker.is_settled());
    }

    #[test]
    fn a_copy_does_not_replace_a_lost_message() {
        let mut tracker = Tracker::default();
        tracker.record_sent(ONE);
        tracker.record_sent("not JSON");
        tracker.record_processed(ONE, Timestamp::UNIX_EPOCH);
        tracker.record_dead_letter(ONE_RETRIED, "RETRY_ATTEMPT_EXCEEDED", Timestamp::UNIX_EPOCH);
        assert!(!tracker.is_settled());
        assert_eq!((tracker.settled_count(), tracker.copy_count()), (1, 1));
        tracker.record_dead_letter("not JSON", "INVALID_MESSAGE_FORMAT", Timestamp::UNIX_EPOCH);
        assert!(tracker.is_settled());
    }

    #[test]
    fn a_copy_settled_before_a_resend_counts_for_the_resend() {
        let mut tracker = Tracker::default();
        tracker.record_sent(ONE);
        tracker.record_processed(ONE, Timestamp::UNIX_EPOCH);
        tracker.record_processed(ONE, Timestamp::UNIX_EPOCH);
        assert_eq!((tracker.settled_count(), tracker.copy_count()), (1, 1));
        tracker.record_sent(ONE);
        assert_eq!((tracker.settled_count(), tracker.copy_count()), (2, 0));
        tracker.record_processed(ONE, Timestamp::UNIX_EPOCH);
        assert_eq!((tracker.settled_count(), tracker.copy_count()), (2, 1));
    }

    #[test]
    fn nothing_is_settled_while_messages_are_still_to_be_sent() {
        let mut tracker = Tracker::default();
        tracker.expect_messages(2);
        tracker.record_sent("a");
        tracker.record_processed("a", Timestamp::UNIX_EPOCH);
        assert!(!tracker.is_settled() && tracker.expects_more());
        tracker.record_sent("b");
        tracker.record_processed("b", Timestamp::UNIX_EPOCH);
        assert!(tracker.is_settled() && !tracker.expects_more());
    }

    #[test]
    fn the_same_line_twice_is_two_messages() {
        let mut tracker = Tracker::default();
        tracker.record_sent(ONE);
        tracker.record_sent(ONE);
        tracker.record_processed(ONE, Timestamp::UNIX_EPOCH);
        assert!(!tracker.is_settled());
        tracker.record_processed(ONE, Timestamp::UNIX_EPOCH);
        assert!(tracker.is_settled());
    }
}

//! Counts the attempts for messages on an ordered queue. A message on a queue cannot be changed, so either SQS counts
//! the attempts or the environment remembers them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::decide::Attempts;
use crate::lock;
use crate::message::{ReceivedMessage, Timestamp};

/// Maximum number of messages whose calls an environment remembers, in about 3 MB. The message with the oldest last
/// call is dropped first.
const REMEMBERED_MAX: usize = 10_000;

/// Counts the attempts for messages on an ordered queue.
#[derive(Debug)]
pub enum AttemptCounter {
    /// Each batch has a single message, so each receive is a call: `ApproximateReceiveCount` and
    /// `ApproximateFirstReceiveTimestamp` suffice. Holds and crashes count, too.
    Receives,
    /// In a larger batch, a message is also received while it waits behind a failed one, so the environment counts its
    /// own calls. A new environment starts from zero: a message gets all calls that the policy allows, and possibly
    /// more.
    Calls(Mutex<RememberedCalls>),
}

impl AttemptCounter {
    /// Creates a counter for batches of at most this many messages.
    #[must_use]
    pub fn for_batch_size(messages: u16) -> Self {
        if messages <= 1 { Self::Receives } else { Self::Calls(Mutex::default()) }
    }

    /// Returns the number of retries made before this receive.
    #[must_use]
    pub fn retries_made(&self, record: &ReceivedMessage) -> u32 {
        match self {
            Self::Receives => record.receive_count.saturating_sub(1),
            Self::Calls(remembered) => lock(remembered).calls_made(&record.sqs_message_id),
        }
    }

    /// Returns the time from which the message's age is counted: its first receive, or its first failed call, which may
    /// have led to a hold.
    #[must_use]
    pub fn age_start(&self, record: &ReceivedMessage, now: Timestamp) -> Timestamp {
        match self {
            Self::Receives => record.first_received_at.unwrap_or(record.sent_at),
            Self::Calls(remembered) => {
                lock(remembered).first_called_at(&record.sqs_message_id).unwrap_or(now)
            }
        }
    }

    /// Returns the time from which the message's holds are counted: as for its age, but from its first receive if this
    /// environment has recorded no failed call. During an outage, only SQS records how long a message without a call
    /// has been held. Its holds must grow with that time: a thousand holds of two seconds would use up all its
    /// receives.
    #[must_use]
    pub fn held_since(&self, record: &ReceivedMessage, now: Timestamp) -> Timestamp {
        match self {
            Self::Receives => self.age_start(record, now),
            Self::Calls(remembered) => {
                let called = lock(remembered).first_called_at(&record.sqs_message_id);
                called.or(record.first_received_at).unwrap_or(now)
            }
        }
    }

    /// Counts a failed call, and returns all attempts for the message.
    pub fn record_failure(&self, record: &ReceivedMessage, now: Timestamp) -> Attempts {
        match self {
            Self::Receives => Attempts { made: record.receive_count, since: self.age_start(record, now) },
            Self::Calls(remembered) => lock(remembered).record_call(&record.sqs_message_id, 1, now),
        }
    }

    /// Records a call whose message is held: the call spends no attempt, but if it is the first, the message's age is
    /// counted from it.
    pub fn record_hold(&self, record: &ReceivedMessage, now: Timestamp) -> Attempts {
        match self {
            Self::Receives => {
                Attempts { made: self.retries_made(record), since: self.age_start(record, now) }
            }
            Self::Calls(remembered) => lock(remembered).record_call(&record.sqs_message_id, 0, now),
        }
    }

    /// Forgets a completed message.
    pub fn forget(&self, sqs_message_id: &str) {
        if let Self::Calls(remembered) = self {
            lock(remembered).forget(sqs_message_id);
        }
    }
}

/// Failed calls, by SQS message id.
#[derive(Debug, Default)]
pub struct RememberedCalls {
    calls: BTreeMap<String, (Attempts, Timestamp)>,
    by_last_call: BTreeSet<(Timestamp, String)>,
}

impl RememberedCalls {
    fn calls_made(&self, id: &str) -> u32 {
        self.calls.get(id).map_or(0, |(attempts, _)| attempts.made)
    }

    fn first_called_at(&self, id: &str) -> Option<Timestamp> {
        self.calls.get(id).map(|(attempts, _)| attempts.since)
    }

    fn record_call(&mut self, id: &str, attempts: u32, now: Timestamp) -> Attempts {
        let before = self.forget(id).unwrap_or(Attempts { made: 0, since: now });
        let attempts = Attempts { made: before.made.saturating_add(attempts), ..before };
        if self.calls.len() >= REMEMBERED_MAX
            && let Some((_, oldest)) = self.by_last_call.pop_first()
        {
            self.calls.remove(&oldest);
        }
        self.calls.insert(id.to_owned(), (attempts, now));
        self.by_last_call.insert((now, id.to_owned()));
        attempts
    }

    fn forget(&mut self, id: &str) -> Option<Attempts> {
        let (id, (attempts, last)) = self.calls.remove_entry(id)?;
        self.by_last_call.remove(&(last, id));
        Some(attempts)
    }
}

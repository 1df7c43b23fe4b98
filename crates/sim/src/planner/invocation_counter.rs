//! Counts the invocations of the functions, their billed duration, and the held messages.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redeliver_core::deliver::time_until;
use redeliver_core::failure::FAILURE;
use redeliver_core::message::{Attribute, Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock as _, Function};
use redeliver_embedded::VirtualClock;

use redeliver_core::lock;

/// A counter that can be shared by several functions.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}

/// The messages that were held at least once, by `message_id`.
#[derive(Debug, Default)]
pub(super) struct HeldMessageIds(Mutex<BTreeSet<String>>);

impl HeldMessageIds {
    pub(super) fn count(&self) -> u64 {
        lock(&self.0).len() as u64
    }

    pub(super) fn record_held(&self, message_id: &str) {
        lock(&self.0).insert(message_id.to_owned());
    }

    /// Records the messages that were handed off as held or re-sent after a hold. Simulated bodies begin with the
    /// `message_id`.
    fn record_all_held(&self, records: &[ReceivedMessage]) {
        let held = records.iter().filter(|record| was_held(record));
        held.filter_map(|record| record.body.split('"').nth(5)).for_each(|id| self.record_held(id));
    }
}

/// Returns true if the message was handed off as held or re-sent after a hold. The original simulated bodies never
/// contain these strings.
fn was_held(record: &ReceivedMessage) -> bool {
    let failure = record.attributes.get(FAILURE).and_then(Attribute::text);
    failure.is_some_and(|failure| failure.contains(r#""kind":"held""#))
        || record.body.contains("\"held_seconds\"")
}

/// The number of invocations of all functions, and their billed milliseconds.
#[derive(Debug, Default)]
pub(super) struct InvocationCounter {
    pub(super) count: Counter,
    pub(super) milliseconds: Counter,
}

impl InvocationCounter {
    /// Adds an invocation. "Duration is calculated from the time your code begins executing until it returns [...],
    /// rounded up to the nearest 1 ms" ("AWS Lambda pricing").
    fn add_invocation(&self, duration: Duration) {
        self.count.add(1);
        let milliseconds = duration.as_micros().div_ceil(1000);
        self.milliseconds.add(u64::try_from(milliseconds).unwrap_or(u64::MAX));
    }
}

/// A function whose invocations are counted.
pub(super) struct CountedFunction<'a, F> {
    pub(super) function: F,
    pub(super) clock: &'a VirtualClock,
    pub(super) invocations: &'a InvocationCounter,
    pub(super) held: &'a HeldMessageIds,
}

impl<F: Function> Function for CountedFunction<'_, F> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let begin = self.clock.now();
        self.held.record_all_held(&records);
        let confirmed = self.function.process_batch(records, deadline).await;
        self.invocations.add_invocation(time_until(begin, self.clock.now()));
        confirmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_millisecond_is_billed_as_one() {
        let invocations = InvocationCounter::default();
        for micros in [0, 1, 25_000, 25_001] {
            invocations.add_invocation(Duration::from_micros(micros));
        }
        assert_eq!((invocations.count.get(), invocations.milliseconds.get()), (4, 1 + 25 + 26));
    }
}

//! Counts of retries, and attempts missing from the history.

use std::collections::BTreeMap;

use redeliver_dead_letters::DeadLetterRecord;
use serde::Serialize;

use crate::dead_letter::skipped_attempts;

/// The highest `retry_attempt` that redeliver writes. Higher values are counted as this value.
const ATTEMPTS_MAX: u32 = 1000;
const EXAMPLES_MAX: usize = 10;

/// Dead letters by number of retries. In JSON: `{"0":12,"5":3,"unknown":1}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AttemptCounts {
    #[serde(flatten)]
    pub known: BTreeMap<u32, u64>,
    /// Dead letters with an unknown number of retries.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: u64,
}

impl AttemptCounts {
    pub(super) fn add_record(&mut self, record: &DeadLetterRecord) {
        match record.attempts() {
            Some(attempts) => *self.known.entry(attempts.min(ATTEMPTS_MAX)).or_default() += 1,
            None => self.unknown += 1,
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Attempts counted by `retry_attempt` but missing from `retry_history`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SkippedAttempts {
    /// Dead letters with missing attempts.
    pub messages: u64,
    pub attempts: u64,
    /// The ids of some of these dead letters.
    pub examples: Vec<String>,
}

impl SkippedAttempts {
    pub(super) fn add_record(&mut self, record: &DeadLetterRecord) {
        let skipped = skipped_attempts(record).len() as u64;
        if skipped > 0 {
            self.messages += 1;
            self.attempts += skipped;
            if self.examples.len() < EXAMPLES_MAX {
                self.examples.push(record.message_id().to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{foreign_dead_letter, retried_dead_letter};

    #[test]
    fn unknown_attempts_are_counted_separately() {
        let mut attempts = AttemptCounts::default();
        for record in [
            retried_dead_letter(5, &[]),
            retried_dead_letter(5, &[]),
            retried_dead_letter(10, &[]),
            retried_dead_letter(0, &[]),
            foreign_dead_letter("x", 1),
        ] {
            attempts.add_record(&record);
        }
        assert_eq!(serde_json::to_string(&attempts).unwrap(), r#"{"0":1,"5":2,"10":1,"unknown":1}"#);
    }

    #[test]
    fn skipped_attempts_are_counted_by_message_and_by_attempt() {
        let mut skipped = SkippedAttempts::default();
        for record in
            [retried_dead_letter(2, &[]), retried_dead_letter(3, &[0, 2]), retried_dead_letter(1, &[0])]
        {
            skipped.add_record(&record);
        }
        assert_eq!((skipped.messages, skipped.attempts, skipped.examples.len()), (2, 3, 2));
    }
}

//! Counts copies of the same message, which are due to at-least-once delivery or to two verdicts on one message.

use std::collections::HashMap;

use redeliver_dead_letters::DeadLetterRecord;
use serde::Serialize;

/// The SQS limit on messages in flight, so no audit of a queue can read more.
const MESSAGES_MAX: usize = 120_000;
const EXAMPLES_MAX: usize = 10;

/// Dead letters with the same `message_id` and generation as another one: a message is given up once per generation.
/// Copies can have different attempt counts, since each counts its own attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Duplicates {
    /// Messages that have copies.
    pub messages: u64,
    /// All copies, excluding the first of each message.
    pub extra: u64,
    /// The ids of some of the messages.
    pub examples: Vec<String>,
}

type CopyIdentity = (Box<str>, u32);

/// A counter of copies. A message without redeliver's metadata has only the SQS id, and no SQS id is read twice.
#[derive(Debug, Default)]
pub(super) struct CopyCounter {
    seen: HashMap<CopyIdentity, u64>,
    duplicates: Duplicates,
}

impl CopyCounter {
    pub(super) fn add_record(&mut self, record: &DeadLetterRecord) {
        let Some(metadata) = &record.metadata else {
            return;
        };
        // UUIDs can be in upper case.
        let id = metadata.message_id_text.to_ascii_lowercase();
        let identity = (id.into_boxed_str(), metadata.generation());
        if self.seen.len() >= MESSAGES_MAX && !self.seen.contains_key(&identity) {
            return;
        }
        let copies = self.seen.entry(identity).or_default();
        *copies += 1;
        if *copies == 1 {
            return;
        }
        self.duplicates.extra += 1;
        if *copies == 2 {
            self.duplicates.messages += 1;
            if self.duplicates.examples.len() < EXAMPLES_MAX {
                self.duplicates.examples.push(metadata.message_id_text.clone());
            }
        }
    }

    pub(super) fn into_duplicates(self) -> Duplicates {
        self.duplicates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::examples::{foreign_dead_letter, message};

    #[test]
    fn messages_with_the_same_id_and_generation_are_copies() {
        let id = "0191f3a2-7b1c-7d3e-8f00-0123456789ab";
        let copy = |id: &str, rest: &str| {
            message(&format!(r#"{{"metadata":{{"message_id":"{id}"{rest}}},"data":{{}}}}"#))
        };
        let mut copies = CopyCounter::default();
        for record in [
            copy(id, ""),
            copy(&id.to_uppercase(), r#","retry_attempt":0"#),
            copy(id, r#","redrive_generation":0"#),
            copy(id, r#","retry_attempt":1"#),
            copy(id, r#","redrive_generation":1"#),
            foreign_dead_letter("same", 1),
            foreign_dead_letter("same", 1),
        ] {
            copies.add_record(&record);
        }
        let expected = Duplicates { messages: 1, extra: 3, examples: vec![id.to_uppercase()] };
        assert_eq!(copies.into_duplicates(), expected);
    }
}

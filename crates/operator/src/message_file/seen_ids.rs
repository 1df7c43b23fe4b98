//! Detects lines that have the same `message_id`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

use super::FileMessage;

/// Maximum number of ids to store: 25 bytes per slot in a map of 2^20 slots, 26 MB in total. Later ids are compared
/// with the stored ones, but not stored.
const IDS_MAX: usize = 900_000;
/// Maximum number of lines reported individually.
const REPORTED_MAX: u64 = 10;

/// The ids of the messages read so far, as keyed 64-bit hashes. With 900,000 ids, a collision occurs once in 45 million
/// runs and only causes a wrong warning.
#[derive(Debug, Default)]
pub struct SeenIds {
    keys: RandomState,
    /// Maps the hash of an id to the first line that has it and to the hash of that line's body.
    first: HashMap<u64, (usize, u64)>,
    repeated: u64,
    is_full: bool,
}

impl SeenIds {
    /// Returns a warning about a line whose `message_id` also appears on an earlier line; `None` for a new id, for a
    /// message without an id, and from the eleventh repeated line on.
    pub fn record_id(&mut self, number: usize, message: &FileMessage) -> Option<String> {
        let id = self.keys.hash_one(message.id?);
        let body = self.keys.hash_one(&message.sendable.content().body);
        let has_room = self.first.len() < IDS_MAX;
        let (first, is_copy) = match self.first.entry(id) {
            Entry::Occupied(seen) => (seen.get().0, seen.get().1 == body),
            Entry::Vacant(slot) if has_room => {
                slot.insert((number, body));
                return None;
            }
            Entry::Vacant(_) => {
                self.is_full = true;
                return None;
            }
        };
        self.repeated += 1;
        (self.repeated <= REPORTED_MAX).then(|| {
            if is_copy {
                return format!("the same message as on line {first}: a copy");
            }
            format!(
                "the message_id of line {first} with different content: a consumer that deduplicates by id \
                 processes only one of the two"
            )
        })
    }

    /// Summarizes the repeated ids that were not reported individually.
    pub fn describe_rest(&self) -> Vec<String> {
        let more = self.repeated.saturating_sub(REPORTED_MAX);
        let more = match more {
            0 => None,
            1 => Some("1 more line repeats a message_id of an earlier line".to_owned()),
            _ => Some(format!("{more} more lines repeat a message_id of an earlier line")),
        };
        let limit = format!(
            "only the first {IDS_MAX} message_ids were remembered; repeats of later ones are not reported"
        );
        more.into_iter().chain(self.is_full.then_some(limit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use redeliver_core::message::{Content, OutgoingMessage};
    use uuid::Uuid;

    use super::*;

    fn message(id: u128, body: &str) -> FileMessage {
        let content = Content { body: body.to_owned(), ..Content::default() };
        let sendable = OutgoingMessage::new(content).unwrap();
        FileMessage { sendable, id: Some(Uuid::from_u128(id)), is_plain: false }
    }

    #[test]
    fn ten_repeated_ids_are_listed_and_the_others_are_counted() {
        let mut seen = SeenIds::default();
        assert_eq!((seen.record_id(1, &message(1, "a")), seen.record_id(2, &message(2, "a"))), (None, None));
        assert_eq!(seen.record_id(3, &message(1, "a")).unwrap(), "the same message as on line 1: a copy");
        assert!(
            seen.record_id(4, &message(2, "b"))
                .unwrap()
                .starts_with("the message_id of line 2 with different content: ")
        );
        assert_eq!(
            seen.record_id(5, &FileMessage { id: None, ..message(2, "b") }),
            None,
            "SQS assigns it an id"
        );
        assert_eq!(seen.describe_rest(), [""; 0]);
        let reported = (6..=14).filter(|line| seen.record_id(*line, &message(1, "c")).is_some()).count();
        assert_eq!(reported, 8);
        assert_eq!(seen.describe_rest(), ["1 more line repeats a message_id of an earlier line"]);
        assert!((15..=25).all(|line| seen.record_id(line, &message(1, "c")).is_none()));
        assert_eq!(seen.describe_rest(), ["12 more lines repeat a message_id of an earlier line"]);
    }

    #[test]
    fn reaching_the_memory_limit_for_ids_is_reported() {
        let mut seen = SeenIds::default();
        for number in 1..=IDS_MAX + 1 {
            assert_eq!(seen.record_id(number, &message(number as u128, "a")), None);
        }
        assert_eq!((seen.first.len(), seen.first.capacity()), (IDS_MAX, 917_504));
        assert!(seen.record_id(IDS_MAX + 2, &message(7, "b")).unwrap().contains("of line 7 "));
        assert_eq!(
            seen.describe_rest(),
            ["only the first 900000 message_ids were remembered; repeats of later ones are not reported"]
        );
    }
}

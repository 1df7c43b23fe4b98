//! Packs messages into batches within the SQS limits.

use crate::limits::{BATCH_BYTES_MAX, BATCH_ENTRIES_MAX};
use crate::message::OutgoingMessage;

/// A batch of 1 to 10 messages, at most 1 MiB in total. Created only by [`pack_batches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    entries: &'a [OutgoingMessage],
}

impl<'a> Batch<'a> {
    /// Returns the messages, in order.
    #[must_use]
    pub fn entries(&self) -> &'a [OutgoingMessage] {
        self.entries
    }
}

/// Packs all messages into batches, in order. Each batch is as full as the order and the limits allow.
#[must_use]
pub fn pack_batches(messages: &[OutgoingMessage]) -> Vec<Batch<'_>> {
    let mut batches = Vec::new();
    let mut rest = messages;
    while !rest.is_empty() {
        let (entries, after) = rest.split_at(count_fitting(rest));
        batches.push(Batch { entries });
        rest = after;
    }
    batches
}

/// Returns the number of leading messages that fit in one batch: at least one, because no message is larger than a
/// batch.
fn count_fitting(messages: &[OutgoingMessage]) -> usize {
    let mut bytes = 0;
    let count = messages
        .iter()
        .take(BATCH_ENTRIES_MAX)
        .take_while(|message| {
            bytes += message.size();
            bytes <= BATCH_BYTES_MAX
        })
        .count();
    // The type guarantees that a single message fits; 0 would make the caller loop forever.
    count.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Content;

    /// Creates a message of this size.
    fn message(bytes: usize) -> OutgoingMessage {
        let body = "x".repeat(bytes);
        OutgoingMessage::new(Content { body, ..Content::default() }).unwrap()
    }

    fn batch_lengths(messages: &[OutgoingMessage]) -> Vec<usize> {
        pack_batches(messages).iter().map(|batch| batch.entries().len()).collect()
    }

    #[test]
    fn a_batch_has_at_most_ten_entries() {
        assert_eq!(batch_lengths(&vec![message(1); 21]), [10, 10, 1]);
        assert_eq!(batch_lengths(&[]), [0; 0]);
    }

    #[test]
    fn a_batch_has_at_most_1_mib() {
        let half = BATCH_BYTES_MAX / 2;
        assert_eq!(batch_lengths(&[message(half), message(half), message(1)]), [2, 1]);
        assert_eq!(batch_lengths(&[message(half), message(half + 1), message(1)]), [1, 2]);
        assert_eq!(batch_lengths(&[message(1), message(BATCH_BYTES_MAX), message(1)]), [1, 1, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn packing_never_breaks_a_limit_and_never_loses_or_reorders_an_entry(
            bytes in prop::collection::vec(
                prop_oneof![1..2000_usize, 90_000..120_000_usize, 500_000..=BATCH_BYTES_MAX],
                0..40,
            ),
        ) {
            // Messages are numbered by group id, so that their bodies can have any size.
            let messages: Vec<_> = bytes
                .iter()
                .enumerate()
                .map(|(index, bytes)| Content {
                    message_group_id: Some(index.to_string()),
                    ..message(*bytes).into_content()
                })
                .map(|content| OutgoingMessage::new(content).unwrap())
                .collect();
            let batches = pack_batches(&messages);
            for (index, batch) in batches.iter().enumerate() {
                let total: usize = batch.entries().iter().map(OutgoingMessage::size).sum();
                prop_assert!((1..=BATCH_ENTRIES_MAX).contains(&batch.entries().len()));
                prop_assert!(total <= BATCH_BYTES_MAX);
                if let Some(next) = batches.get(index + 1) {
                    let full = batch.entries().len() == BATCH_ENTRIES_MAX;
                    prop_assert!(full || total + next.entries()[0].size() > BATCH_BYTES_MAX, "not as full as possible");
                }
            }
            let groups: Vec<_> = batches
                .iter()
                .flat_map(Batch::entries)
                .map(|message| message.content().message_group_id.clone().unwrap())
                .collect();
            let expected: Vec<_> = (0..bytes.len()).map(|index| index.to_string()).collect();
            prop_assert_eq!(groups, expected);
        }
    }
}

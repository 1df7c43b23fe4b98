//! Sent and to be deleted. A failed deletion leaves the message in both queues, and is reported.

use std::collections::BTreeMap;

use crate::redrive::journal::{JournalEntry, JournalError, RedriveJournal};
use crate::{DeadLetterRecord, NotDeleted};

/// Stop after this many deletions in a row without a confirmed one.
const FAILED_MAX: u64 = 10;

/// The deletions of a run.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Sent, by whichever run, and not deleted by this one; with the pass that tried it last.
    left: BTreeMap<String, u32>,
    /// The number of the present pass.
    pass: u32,
    /// Those that failed since the last one that did not.
    failed: u64,
    /// The reason of the last failure.
    pub(super) why_not: Option<NotDeleted>,
}

impl Deletions {
    pub(super) fn start_pass(&mut self) {
        self.pass += 1;
    }

    /// Counts the outcomes of deletions of messages whose sends are confirmed, and returns what the journal is to say of
    /// them. The next pass or run deletes the rest.
    pub(super) fn count_outcomes(
        &mut self,
        records: Vec<DeadLetterRecord>,
        outcomes: Vec<Result<(), NotDeleted>>,
    ) -> Vec<JournalEntry> {
        let mut deleted = Vec::with_capacity(records.len());
        for (record, outcome) in records.into_iter().zip(outcomes) {
            let sqs_message_id = record.message.sqs_message_id;
            match outcome {
                Ok(()) => {
                    self.left.remove(&sqs_message_id);
                    deleted.push(JournalEntry::Deleted { sqs_message_id });
                }
                // It stays, or is gone and SQS's answer got lost. The next pass shows which: it is received again, or
                // not.
                Err(why) => {
                    // A message that another program may have received says nothing about the next one.
                    self.failed += u64::from(matches!(why, NotDeleted::Failed(_)));
                    self.left.insert(sqs_message_id, self.pass);
                    self.why_not = Some(why);
                }
            }
        }
        // One that succeeds shows that deleting is allowed: only an unbroken row of failures ends the run.
        if !deleted.is_empty() {
            self.failed = 0;
        }
        deleted
    }

    /// The number of deletions that are not confirmed.
    pub(super) fn left_count(&self) -> u64 {
        self.left.len() as u64
    }

    /// True if deletions fail, so that further messages would be in both queues.
    pub(super) fn are_failing(&self) -> bool {
        self.failed >= FAILED_MAX
    }

    /// After a complete pass: a sent message that is no longer in the DLQ was deleted, although the answer was lost.
    ///
    /// A file may be another one than an earlier run had: the absence of a message of that run says nothing.
    pub(super) fn forget_gone(
        &mut self,
        journal: &mut RedriveJournal,
        can_come_back: bool,
    ) -> Result<(), JournalError> {
        // Messages that this pass could not delete came out of the queue in it. Those of an earlier pass that this one
        // did not see are gone.
        let pass = self.pass;
        let gone_here: Vec<_> =
            self.left.extract_if(.., |_, tried| *tried != pass).map(|(id, _)| id).collect();
        let gone: Vec<_> = if can_come_back {
            journal.not_deleted().filter(|id| !self.left.contains_key(*id)).map(str::to_owned).collect()
        } else {
            gone_here
        };
        let gone: Vec<_> =
            gone.into_iter().map(|sqs_message_id| JournalEntry::Deleted { sqs_message_id }).collect();
        journal.write_entries(&gone)
    }
}

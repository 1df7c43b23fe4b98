//! Tracks the deletion of sent messages. A failed deletion leaves the message in both queues, and is reported.

use std::collections::BTreeMap;

use crate::redrive::journal::{JournalEntry, JournalError, RedriveJournal};
use crate::{DeadLetterRecord, NotDeleted};

/// Stop after this many unconfirmed deletions in a row.
const FAILED_MAX: u64 = 10;

/// The deletions of a run.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Messages sent by any run and not deleted by this one, with the last pass that tried.
    left: BTreeMap<String, u32>,
    /// The number of the current pass.
    pass: u32,
    /// The number of failed deletions since the last successful one.
    failed: u64,
    /// The reason of the last failure.
    pub(super) why_not: Option<NotDeleted>,
}

impl Deletions {
    pub(super) fn start_pass(&mut self) {
        self.pass += 1;
    }

    /// Counts the outcomes of deletions of messages whose sends are confirmed, and returns their journal entries. The
    /// next pass or run deletes the rest.
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
                // Either the message was not deleted, or SQS's response was lost. The next pass shows which: the
                // message is received again or not.
                Err(why) => {
                    // A message that another program may have received does not show that the next deletion will fail.
                    self.failed += u64::from(matches!(why, NotDeleted::Failed(_)));
                    self.left.insert(sqs_message_id, self.pass);
                    self.why_not = Some(why);
                }
            }
        }
        // A success shows that deletion is permitted: only consecutive failures end the run.
        if !deleted.is_empty() {
            self.failed = 0;
        }
        deleted
    }

    /// The number of unconfirmed deletions.
    pub(super) fn left_count(&self) -> u64 {
        self.left.len() as u64
    }

    /// True if deletions keep failing, so that further messages would end up in both queues.
    pub(super) fn are_failing(&self) -> bool {
        self.failed >= FAILED_MAX
    }

    /// Called after a complete pass: a sent message that is no longer in the DLQ was deleted, although the response was
    /// lost.
    ///
    /// A file may differ from that of an earlier run, so the absence of that run's messages proves nothing.
    pub(super) fn forget_gone(
        &mut self,
        journal: &mut RedriveJournal,
        can_come_back: bool,
    ) -> Result<(), JournalError> {
        // Messages that this pass failed to delete were received in it. Those of an earlier pass that this one did not
        // receive are gone.
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

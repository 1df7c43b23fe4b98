//! Tracks the deletion of sent messages. A failed deletion leaves the message in both queues, and is reported.

use std::collections::BTreeMap;

use crate::redrive::journal::{JournalEntry, JournalError, RedriveJournal};
use crate::{DeadLetterRecord, DeletionError};

/// The number of consecutive failed deletions after which the run ends.
const FAILED_IN_A_ROW_MAX: u64 = 10;

/// A run's deletions.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// Messages sent by any run and not deleted by this one, with the last pass that tried to delete them.
    remaining: BTreeMap<String, u32>,
    /// The number of the current pass.
    pass: u32,
    /// The number of failed deletions since the last successful one.
    failed: u64,
    /// The reason for the last failure.
    pub(super) why_not: Option<DeletionError>,
}

impl Deletions {
    pub(super) fn start_pass(&mut self) {
        self.pass += 1;
    }

    /// Counts the outcomes of the deletions, and returns the journal entries for those that succeeded. The next pass or
    /// run deletes the rest. Each message's send must already be confirmed.
    pub(super) fn count_outcomes(
        &mut self,
        records: Vec<DeadLetterRecord>,
        outcomes: Vec<Result<(), DeletionError>>,
    ) -> Vec<JournalEntry> {
        let mut deleted = Vec::with_capacity(records.len());
        for (record, outcome) in records.into_iter().zip(outcomes) {
            let sqs_message_id = record.message.sqs_message_id;
            match outcome {
                Ok(()) => {
                    self.remaining.remove(&sqs_message_id);
                    deleted.push(JournalEntry::Deleted { sqs_message_id });
                }
                // Either the message was not deleted, or SQS's response was lost. The next pass shows which: a message
                // that still exists is received again.
                Err(why) => {
                    // A message that another program may have received says nothing about the next deletion.
                    self.failed += u64::from(matches!(why, DeletionError::Failed(_)));
                    self.remaining.insert(sqs_message_id, self.pass);
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

    /// Returns the number of unconfirmed deletions.
    pub(super) fn remaining_count(&self) -> u64 {
        self.remaining.len() as u64
    }

    /// Returns true if deletions keep failing, so that more messages would end up in both queues.
    pub(super) fn are_failing(&self) -> bool {
        self.failed >= FAILED_IN_A_ROW_MAX
    }

    /// Records missing messages as deleted, after a complete pass: a sent message that is no longer in the DLQ was
    /// deleted, although the response was lost.
    ///
    /// If messages cannot come back, the source is a file. It may differ from the file of an earlier run, so the
    /// absence of that run's messages proves nothing.
    pub(super) fn record_missing_messages_as_deleted(
        &mut self,
        journal: &mut RedriveJournal,
        can_come_back: bool,
    ) -> Result<(), JournalError> {
        // Messages that this pass failed to delete were received in it. Messages that only an earlier pass failed to
        // delete were not received in this one, so they are gone.
        let pass = self.pass;
        let gone_here: Vec<_> =
            self.remaining.extract_if(.., |_, tried| *tried != pass).map(|(id, _)| id).collect();
        let gone: Vec<_> = if can_come_back {
            journal
                .undeleted_ids()
                .filter(|id| !self.remaining.contains_key(*id))
                .map(str::to_owned)
                .collect()
        } else {
            gone_here
        };
        let gone: Vec<_> =
            gone.into_iter().map(|sqs_message_id| JournalEntry::Deleted { sqs_message_id }).collect();
        journal.write_entries(&gone)
    }
}

//! Sent, so to be deleted: what is not stays in both queues, and is told.

use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::RedriveError;
use super::run::Run;
use crate::redrive::journal::Entry;
use crate::{DeadLetterRecord, Reader};

/// So many deletions in a row without one that is confirmed: the next would not fare better.
const DELETIONS_FAILED_MAX: u64 = 10;

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Run<'_, '_, D, S, C> {
    /// Deletes what is confirmed to be elsewhere; how many are gone. One that is not is deleted by the next pass or run.
    pub(super) async fn delete(
        &mut self,
        records: Vec<DeadLetterRecord>,
        reader: &mut Reader<'_, D, C>,
    ) -> Result<u64, RedriveError> {
        if records.is_empty() {
            return Ok(0);
        }
        let messages: Vec<_> = records.iter().map(|record| &record.message).collect();
        let outcomes = reader.delete(&messages).await;
        let mut deleted = Vec::with_capacity(records.len());
        for (record, outcome) in records.into_iter().zip(outcomes) {
            let sqs_message_id = record.message.sqs_message_id;
            match outcome {
                Ok(()) => {
                    self.not_deleted.remove(&sqs_message_id);
                    deleted.push(Entry::Deleted { sqs_message_id });
                }
                Err(error) => {
                    self.deletions_failed += 1;
                    self.not_deleted.insert(sqs_message_id, self.pass);
                    self.report.why_not_deleted = Some(error.to_string());
                }
            }
        }
        if !deleted.is_empty() {
            self.deletions_failed = 0;
        }
        self.journal.write(&deleted)?;
        Ok(deleted.len() as u64)
    }

    /// Whether what is sent now would stay in the DLQ, too.
    pub(super) fn deletes_nothing(&self) -> bool {
        self.deletions_failed >= DELETIONS_FAILED_MAX
    }

    /// What was sent and is not in the DLQ any more was deleted, although the answer to that got lost.
    pub(super) fn forget_what_is_gone(&mut self) -> Result<(), RedriveError> {
        let pass = self.pass;
        self.not_deleted.retain(|_, tried| *tried == pass);
        let gone = self.journal.not_deleted().filter(|id| !self.not_deleted.contains_key(*id));
        let gone = gone.map(|id| Entry::Deleted { sqs_message_id: id.to_owned() }).collect::<Vec<_>>();
        Ok(self.journal.write(&gone)?)
    }
}

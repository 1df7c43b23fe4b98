//! One round: on disk, sent, on disk, deleted.

use std::time::Duration;

use redeliver_core::deliver::{deliver_counted, until};
use redeliver_core::ports::{Clock, EntryOutcome, Queue, QueueDepth, QueueSender};

use super::Run;
use crate::redrive::journal::{Entry, JournalError};
use crate::redrive::plan::SendBack;
use crate::redrive::report::Early;
use crate::redrive::task::{Progress, Redrive};
use crate::{DeadLetterRecord, Failure, Reader};

const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// Stop after this many sends in a row without a confirmed one.
const SENDS_FAILED_MAX: u64 = 100;

/// One dead letter that is to go back.
pub(super) struct Going {
    pub(super) record: DeadLetterRecord,
    pub(super) send_back: SendBack,
}

impl Going {
    /// SQS's id of the dead letter.
    pub(super) fn id(&self) -> &str {
        &self.record.message.sqs_message_id
    }
}

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Run<'_, '_, D, S, C> {
    /// Sends messages, and deletes those whose send is confirmed. It takes as long as the rate wants.
    pub(super) async fn send(
        &mut self,
        going: Vec<Going>,
        reader: &mut Reader<'_, D, C>,
    ) -> Result<(), Failure> {
        let Redrive { clock, limits, progress, .. } = self.redrive;
        let started = clock.now();
        // Somebody else may have received it since: then it is perhaps sent already, and could not be deleted.
        let (going, visible): (Vec<_>, Vec<_>) =
            going.into_iter().partition(|going| reader.is_hidden(&going.record.message));
        self.no_longer_hidden += visible.len() as u64;
        self.comes_out_again |= !visible.is_empty();
        visible.iter().for_each(|going| self.report.no_longer_hidden(going.id()));

        // When this returns, the journal has each outcome. If the process dies before, it has the intents: the next run
        // sends these again, and reports them as possible copies.
        let count = going.len();
        let mut confirmed = Vec::with_capacity(count);
        for (going, outcome) in self.send_journaled(going, reader).await? {
            match outcome {
                Ok(_) => {
                    self.sends_failed = 0;
                    self.report.sent(&going.record, &going.send_back);
                    confirmed.push(going.record);
                }
                Err(error) => {
                    self.sends_failed += 1;
                    self.report.not_sent(going.id(), &error);
                    if self.sends_failed >= SENDS_FAILED_MAX {
                        let why =
                            format!("{SENDS_FAILED_MAX} sends in a row failed, the last one with {error}");
                        self.report.early = Some(Early::Failed(why));
                    }
                }
            }
        }
        // If the process dies here, a message is in both queues, and the journal says that it was sent: the next run
        // deletes it.
        self.deletions.delete(confirmed, reader, self.journal).await?;
        progress(Progress::Sent(self.report.sent));
        // The pause for the rate comes last, so that nothing that was sent waits for it in both queues.
        if let Some(rate) = limits.rate {
            let due = started + Duration::from_secs_f64(count as f64 / f64::from(rate));
            reader.during(clock.sleep(until(clock.now(), due))).await;
        }
        Ok(())
    }

    /// The outcome of each send, in order; it is in the journal, too.
    async fn send_journaled(
        &mut self,
        going: Vec<Going>,
        reader: &mut Reader<'_, D, C>,
    ) -> Result<Vec<(Going, EntryOutcome<String>)>, JournalError> {
        let Redrive { source, clock, .. } = self.redrive;
        // 1. The intents are on disk before any message leaves, so no send is without a trace.
        self.journal.write(&going.iter().map(intent).collect::<Vec<_>>())?;
        // 2. The reader keeps these messages hidden while they are sent. Another program could receive a visible one
        // and send it, too.
        let messages = going.iter().map(|going| going.send_back.message.clone()).collect();
        let sending = deliver_counted(*source, *clock, clock.now() + SEND_TIMEOUT, messages);
        let delivered = reader.during(sending).await;
        // 3. The outcomes are on disk before the caller deletes anything. If the process dies between 2 and 3, the journal
        //    has intents without an outcome, and the next run sends them again: a copy with the same `message_id`, never
        //    a loss.
        let mut entries = Vec::with_capacity(going.len());
        let mut sent = Vec::with_capacity(going.len());
        for (going, delivered) in going.into_iter().zip(delivered) {
            let (sqs_message_id, sends) = (going.id().to_owned(), delivered.perhaps_done);
            entries.push(match &delivered.outcome {
                Ok(sent_as) => Entry::Sent { sqs_message_id, sent_as: sent_as.clone(), sends },
                Err(error) => Entry::NotSent { sqs_message_id, code: error.code.clone(), sends },
            });
            sent.push((going, delivered.outcome));
        }
        self.journal.write(&entries)?;
        Ok(sent)
    }
}

fn intent(going: &Going) -> Entry {
    let SendBack { message_id, old_message_id, generation, edited, .. } = &going.send_back;
    Entry::Intent {
        sqs_message_id: going.id().to_owned(),
        message_id: message_id.clone(),
        old_message_id: old_message_id.clone(),
        generation: *generation,
        original_body: edited.then(|| going.record.message.body.clone()),
    }
}

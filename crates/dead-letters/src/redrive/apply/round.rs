//! One round: on disk, sent, on disk, deleted.

use std::time::Duration;

use redeliver_core::delivery::{deliver_counted, until};
use redeliver_core::ports::{Clock, Queue, QueueDepth, QueueSender};

use super::run::Run;
use super::{Progress, RedriveError};
use crate::redrive::journal::Entry;
use crate::redrive::plan::SendBack;
use crate::{DeadLetterRecord, Reader};

/// For one round's sends.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// So many sends in a row without one that is confirmed: the next would not fare better.
const SENDS_FAILED_MAX: u64 = 100;

/// One dead letter that is to go back.
pub(super) struct Going {
    pub(super) record: DeadLetterRecord,
    pub(super) send_back: SendBack,
}

impl<D: Queue, S: QueueSender + QueueDepth, C: Clock> Run<'_, '_, D, S, C> {
    /// Sends messages, and deletes those whose send is confirmed. It takes as long as the rate wants.
    pub(super) async fn send(
        &mut self,
        going: Vec<Going>,
        reader: &mut Reader<'_, D, C>,
    ) -> Result<(), RedriveError> {
        let (clock, started) = (self.redrive.clock, self.redrive.clock.now());
        // Somebody else may have received it since: then it is perhaps sent already, and could not be deleted.
        let (going, visible): (Vec<_>, Vec<_>) =
            going.into_iter().partition(|going| reader.is_hidden(&going.record.message));
        self.comes_out_again |= !visible.is_empty();
        visible.iter().for_each(|going| self.report.no_longer_hidden(&going.record.message.sqs_message_id));

        self.journal.write(&going.iter().map(intent).collect::<Vec<_>>())?;
        let messages = going.iter().map(|going| going.send_back.message.clone()).collect();
        let sending = deliver_counted(self.redrive.source, clock, started + SEND_TIMEOUT, messages);
        let delivered = reader.during(sending).await;

        let mut entries = Vec::with_capacity(going.len());
        let mut confirmed = Vec::with_capacity(going.len());
        let count = going.len();
        for (going, delivered) in going.into_iter().zip(delivered) {
            let sqs_message_id = going.record.message.sqs_message_id.clone();
            let sends = delivered.perhaps_done;
            match delivered.outcome {
                Ok(sent_as) => {
                    entries.push(Entry::Sent { sqs_message_id, sent_as, sends });
                    self.sends_failed = 0;
                    self.report.sent(&going.record, &going.send_back);
                    confirmed.push(going.record);
                }
                Err(error) => {
                    self.sends_failed += 1;
                    if self.sends_failed >= SENDS_FAILED_MAX {
                        self.report.failed = Some(format!(
                            "{SENDS_FAILED_MAX} sends in a row failed, the last one with {error}"
                        ));
                    }
                    self.report.not_sent(&sqs_message_id, &error);
                    entries.push(Entry::NotSent { sqs_message_id, code: error.code, sends });
                }
            }
        }
        self.journal.write(&entries)?;
        self.delete(confirmed, reader).await?;
        (self.redrive.progress)(Progress::Sent(self.report.sent));
        if let Some(rate) = self.redrive.limits.rate {
            let due = started + Duration::from_secs_f64(count as f64 / f64::from(rate));
            reader.during(clock.sleep(until(clock.now(), due))).await;
        }
        Ok(())
    }
}

fn intent(going: &Going) -> Entry {
    let SendBack { message_id, old_message_id, generation, edited, .. } = &going.send_back;
    Entry::Intent {
        sqs_message_id: going.record.message.sqs_message_id.clone(),
        message_id: message_id.clone(),
        old_message_id: old_message_id.clone(),
        generation: *generation,
        original_body: edited.then(|| going.record.message.body.clone()),
    }
}

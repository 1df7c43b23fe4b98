//! One round: on disk, sent, on disk. Nothing may be deleted before that.

use std::time::Duration;

use redeliver_core::delivery::deliver_counted;
use redeliver_core::ports::{Clock, EntryOutcome, Queue, QueueSender};

use crate::redrive::journal::{Entry, Journal};
use crate::redrive::plan::SendBack;
use crate::{DeadLetterRecord, Failure, Reader};

const SEND_TIMEOUT: Duration = Duration::from_secs(60);

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

/// Sends messages and answers with the outcome of each, in order; both are in the journal then.
pub(super) async fn send<D: Queue, S: QueueSender, C: Clock>(
    going: Vec<Going>,
    source: &S,
    clock: &C,
    reader: &mut Reader<'_, D, C>,
    journal: &mut Journal,
) -> Result<Vec<(Going, EntryOutcome<String>)>, Failure> {
    // 1. What is going to be sent is on disk before any of it leaves: from here on nobody can send without a trace.
    journal.write(&going.iter().map(intent).collect::<Vec<_>>())?;
    // 2. The reader goes on hiding these messages while they are sent. One that became visible could be received by somebody
    //    else, who would send it, too.
    let messages = going.iter().map(|going| going.send_back.message.clone()).collect();
    let sending = deliver_counted(source, clock, clock.now() + SEND_TIMEOUT, messages);
    let delivered = reader.during(sending).await;
    // 3. The outcomes are on disk before the caller deletes anything. If the process dies between 2 and 3, the journal has
    //    intents without an outcome, and the next run sends them again: a copy with the same `message_id`, never a loss.
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
    journal.write(&entries)?;
    Ok(sent)
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

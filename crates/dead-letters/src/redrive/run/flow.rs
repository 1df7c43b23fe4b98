//! The dead letters in progress: they are waiting, being sent, or being deleted. Several requests run concurrently.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt as _, pending};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{pin_mut, select_biased};
use redeliver_core::deliver::{DeliveryOutcome, deliver_and_count_copies, time_until};
use redeliver_core::limits::{BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX};
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, Queue, QueueSender};

use crate::reader::{DeletionResponse, REQUESTS_MAX, ReaderError};
use crate::redrive::journal::JournalEntry;
use crate::redrive::plan::PlannedSend;
use crate::{DeadLetterReader, DeadLetterRecord};

const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of bytes being sent at a time, so that large messages are sent before the timeout.
const SENDING_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX;

/// A dead letter to be sent back.
pub(super) struct Candidate {
    pub(super) record: DeadLetterRecord,
    pub(super) send_back: PlannedSend,
}

impl Candidate {
    /// Returns the SQS message id of the dead letter.
    pub(super) fn id(&self) -> &str {
        &self.record.message.sqs_message_id
    }

    pub(super) fn intent_entry(&self) -> JournalEntry {
        let PlannedSend { message_id, old_message_id, generation, edited, .. } = &self.send_back;
        JournalEntry::Intent {
            sqs_message_id: self.id().to_owned(),
            message_id: message_id.clone(),
            old_message_id: old_message_id.clone(),
            generation: *generation,
            original_body: edited.then(|| self.record.message.body.clone()),
        }
    }

    fn body_bytes(&self) -> usize {
        self.send_back.message.content().body.len()
    }
}

/// A dead letter whose send is confirmed.
pub(super) struct SentLetter {
    pub(super) record: DeadLetterRecord,
    /// True if an earlier run or pass sent it, according to the journal.
    pub(super) sent_earlier: bool,
}

/// An event in the flow.
pub(super) enum FlowEvent {
    /// New dead letters; `None` if there are no more.
    Read(Result<Option<Vec<ReceivedMessage>>, ReaderError>),
    Sent(Vec<(Candidate, DeliveryOutcome<String>)>),
    Deletion(Vec<SentLetter>, Vec<DeletionResponse>),
    /// The next round is due according to the rate.
    RoundIsDue,
}

/// All dead letters of one pass that are waiting or in progress.
pub(super) struct RedriveFlow<'a> {
    /// Candidates to be sent, in this order.
    pub(super) waiting: VecDeque<Candidate>,
    /// The number of messages that are being sent.
    pub(super) sending: u64,
    sending_bytes: usize,
    /// Sent messages to be deleted once the journal has recorded the send.
    pub(super) sent: Vec<SentLetter>,
    deleting: u64,
    requests: FuturesUnordered<BoxFuture<'a, FlowEvent>>,
    /// Pending journal entries.
    pub(super) entries: Vec<JournalEntry>,
    /// True if the reader has no more messages.
    pub(super) all_read: bool,
}

impl<'a> RedriveFlow<'a> {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            sending: 0,
            sending_bytes: 0,
            sent: Vec::new(),
            deleting: 0,
            requests: FuturesUnordered::new(),
            entries: Vec::new(),
            all_read: false,
        }
    }

    /// Returns true if no request, deletion or journal entry is pending.
    pub(super) fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.sent.is_empty() && self.entries.is_empty()
    }

    /// Returns true if no message is left to be sent.
    pub(super) fn is_exhausted(&self) -> bool {
        self.all_read && self.waiting.is_empty()
    }

    /// Returns true if a round of this size needs more messages, and they may be read.
    pub(super) fn can_read_more(&self, round_size: u64) -> bool {
        !self.all_read && (self.waiting.len() as u64) < round_size && self.free_slots() > 0
    }

    /// Returns the number of messages that can be sent before the limit on concurrent requests is reached.
    pub(super) fn free_slots(&self) -> u64 {
        let in_progress = self.sending + self.deleting + self.sent.len() as u64;
        ((REQUESTS_MAX * BATCH_ENTRIES_MAX) as u64).saturating_sub(in_progress)
    }

    /// Takes the next message to be sent, if its bytes fit into the round.
    pub(super) fn take_next(&mut self, round: &[Candidate]) -> Option<Candidate> {
        let bytes = self.sending_bytes + total_bytes(round);
        self.waiting.pop_front_if(|next| bytes == 0 || bytes + next.body_bytes() <= SENDING_BYTES_MAX)
    }

    /// Sends messages whose intents are on disk.
    pub(super) fn send_round<S: QueueSender, C: Clock>(
        &mut self,
        round: Vec<Candidate>,
        source: &'a S,
        clock: &'a C,
    ) {
        self.sending += round.len() as u64;
        self.sending_bytes += total_bytes(&round);
        let deadline = clock.now() + SEND_TIMEOUT;
        for batch in split_into_batches(round) {
            let messages = batch.iter().map(|candidate| candidate.send_back.message.clone()).collect();
            let sent = async move {
                let delivered = deliver_and_count_copies(source, clock, deadline, messages).await;
                FlowEvent::Sent(batch.into_iter().zip(delivered).collect())
            };
            self.requests.push(sent.boxed());
        }
    }

    /// Deletes messages whose confirmed sends are on disk.
    pub(super) fn delete_sent<D: Queue, C: Clock>(&mut self, reader: &DeadLetterReader<'a, D, C>) {
        while !self.sent.is_empty() {
            let some: Vec<_> = self.sent.drain(..self.sent.len().min(BATCH_ENTRIES_MAX)).collect();
            self.deleting += some.len() as u64;
            let messages: Vec<_> = some.iter().map(|sent| &sent.record.message).collect();
            let deletion = reader.start_deletion(&messages);
            self.requests.push(deletion.map(|answers| FlowEvent::Deletion(some, answers)).boxed());
        }
    }

    /// Waits for at least one event, and returns all events so far. Meanwhile, the reader extends the visibility
    /// timeouts of held messages; it receives more only if `reads` is true. `round_at` is the earliest time at which
    /// the rate allows the next round.
    pub(super) async fn wait_for_events<D: Queue, C: Clock>(
        &mut self,
        reader: &mut DeadLetterReader<'a, D, C>,
        reads: bool,
        clock: &C,
        round_at: Timestamp,
    ) -> Vec<FlowEvent> {
        let mut events = vec![self.wait_for_event(reader, reads, clock, round_at).await];
        // Also take the events that are already available, so that one journal write covers them all.
        while let Some(Some(event)) = self.requests.next().now_or_never() {
            events.push(event);
        }
        for event in &events {
            match event {
                FlowEvent::Sent(sent) => {
                    self.sending -= sent.len() as u64;
                    self.sending_bytes -=
                        sent.iter().map(|(candidate, _)| candidate.body_bytes()).sum::<usize>();
                }
                FlowEvent::Deletion(sent, _) => self.deleting -= sent.len() as u64,
                FlowEvent::Read(_) | FlowEvent::RoundIsDue => {}
            }
        }
        events
    }

    async fn wait_for_event<D: Queue, C: Clock>(
        &mut self,
        reader: &mut DeadLetterReader<'a, D, C>,
        reads: bool,
        clock: &C,
        round_at: Timestamp,
    ) -> FlowEvent {
        let now = clock.now();
        let due = if now < round_at && !self.waiting.is_empty() {
            Either::Left(clock.sleep(time_until(now, round_at)))
        } else {
            Either::Right(pending())
        };
        let requests = &mut self.requests;
        let work = async {
            let due = due.fuse();
            pin_mut!(due);
            select_biased! {
                event = requests.select_next_some() => event,
                () = due => FlowEvent::RoundIsDue,
            }
        };
        let read = async {
            if reads {
                FlowEvent::Read(reader.next_messages().await)
            } else {
                reader.hold_messages_during(pending()).await
            }
        };
        let (work, read) = (work.fuse(), read.fuse());
        pin_mut!(work, read);
        // Poll the reader first, so that a steady stream of responses cannot keep it from extending visibility
        // timeouts.
        select_biased! {
            event = read => event,
            event = work => event,
        }
    }
}

fn total_bytes(round: &[Candidate]) -> usize {
    round.iter().map(Candidate::body_bytes).sum()
}

/// Splits a round into requests of at most ten messages, within the byte limit of a request.
fn split_into_batches(round: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut batches: Vec<Vec<Candidate>> = Vec::new();
    let mut bytes = 0;
    for candidate in round {
        bytes += candidate.body_bytes();
        match batches.last_mut().filter(|last| last.len() < BATCH_ENTRIES_MAX && bytes <= MESSAGE_BYTES_MAX) {
            Some(last) => last.push(candidate),
            None => {
                bytes = candidate.body_bytes();
                batches.push(vec![candidate]);
            }
        }
    }
    batches
}

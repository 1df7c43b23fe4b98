//! Reads a whole queue without consuming it: several receivers at once return each message once, keep it hidden while
//! there is work, and make it visible again at the end.

mod held;
mod patience;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::select_biased;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redeliver_core::deliver::deletion::delete_receives;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, EntryError, EntryOutcome, Fault, Queue, Receive, is_fifo};
use serde::{Serialize, Serializer};
use thiserror::Error;

pub use held::HIDDEN;
use held::HiddenMessages;
use patience::{make_visible, retry_request};

/// Requests of a kind at the same time: SQS answers one within some 20 ms, so this is thousands of messages per second.
pub(crate) const REQUESTS_MAX: usize = 16;
const MESSAGES_OF_A_REQUEST: u8 = 10;
/// Long, so that SQS asks all of its servers; short, since the last ones wait in vain.
const WAIT: Duration = Duration::from_secs(1);
/// SQS's error while 120,000 messages are in flight ("ReceiveMessage", Amazon SQS API Reference).
const OVER_LIMIT: &str = "OverLimit";

/// Reads a queue. Messages that came out and were not deleted are invisible until [`DeadLetterReader::finish`]: for two
/// minutes at a time, extended while [`DeadLetterReader::next_messages`] or [`DeadLetterReader::hold_during`] runs; for
/// up to half an hour at a time if SQS answers too slowly to extend all of them in time.
pub struct DeadLetterReader<'a, Q, C> {
    queue: &'a Q,
    clock: &'a C,
    approximate: u64,
    receivers: FuturesUnordered<BoxFuture<'a, ReceiveAnswer>>,
    /// Receivers that have not come to an end; some wait until held messages are extended.
    receivers_left: usize,
    /// New messages that [`Reader::next`] has not given out yet.
    answers: VecDeque<Result<Vec<ReceivedMessage>, EntryError>>,
    held: HiddenMessages<'a, Q, C>,
    /// SQS's ids of all messages that have come out.
    seen: BTreeSet<String>,
    /// The ids of messages that could not be understood.
    unreadable: BTreeSet<String>,
    /// Messages that came out again since the last one that was new.
    repeated: u64,
    /// On a FIFO queue the message groups of all messages that are held, by SQS's id.
    groups: BTreeMap<String, String>,
    /// True if messages of a group may come out now, since others of it were deleted.
    may_read_on: bool,
}

/// The answer of a receive, and its request.
type ReceiveAnswer = Result<(ReceiveRequest, Vec<ReceivedMessage>), EntryError>;

/// The request of a receive.
#[derive(Clone, Copy)]
struct ReceiveRequest {
    at: Timestamp,
    /// The time for which its messages are hidden.
    hidden: Duration,
}

/// The messages of one receive.
#[derive(Default)]
struct ReceiveOutcome {
    new: Vec<ReceivedMessage>,
    new_unreadable: u64,
    /// They came before.
    repeated: u64,
}

/// SQS's answer to the deletion of one message. [`Reader::deleted`] decides whether it can be trusted.
pub struct DeletionAnswer {
    id: String,
    handle: String,
    /// The end of its invisibility when the deletion was requested. A later extension is refused, and changes nothing.
    hidden_until: Option<Timestamp>,
    outcome: EntryOutcome<()>,
}

/// The part of a queue that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    pub seen: u64,
    /// Messages in the queue, as SQS counted them at the start. The count is approximate and may be a minute old
    /// ("GetQueueAttributes", Amazon SQS API Reference).
    pub approximate: u64,
    /// Messages that were received but could not be parsed. They stay in the queue.
    pub unreadable: u64,
    /// True if these are all messages. If not, the others are unreadable, in flight elsewhere, or more than can be in
    /// flight.
    #[serde(skip)]
    pub complete: bool,
    /// Messages that could not be made visible again; they come back by themselves, within two minutes unless SQS is
    /// slow.
    #[serde(skip)]
    pub still_hidden: u64,
    /// Messages that became visible again while the queue was read: SQS answered too slowly, or refused to hide them
    /// for longer.
    #[serde(skip)]
    pub reappeared: u64,
    /// Message groups of a FIFO queue of which ten messages were held at the end: SQS hands out no others of a group
    /// meanwhile, so more may be behind them.
    #[serde(skip)]
    pub full_groups: u64,
}

/// The known reason why a message is not deleted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotDeleted {
    /// SQS's last error, or that it did not answer.
    #[error("{0}")]
    Failed(EntryError),
    /// SQS says that it is deleted, but another program may have received it before, and then it is not.
    #[error("another program may have received it (VisibleToOthers)")]
    VisibleToOthers,
}

impl NotDeleted {
    /// Advice on what to do about it: a sentence without its full stop.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Failed(EntryError { fault: Fault::Sender, .. }) => "Allow sqs:DeleteMessage on the DLQ",
            Self::Failed(_) => "Wait until SQS answers again",
            Self::VisibleToOthers => "Stop the other program that reads the DLQ",
        }
    }
}

impl Serialize for NotDeleted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The error that ends reading a queue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("reading {url}: {}", explain_error(error, right, "kms:Decrypt"))]
pub struct ReaderError {
    pub url: String,
    pub error: EntryError,
    /// The right that the request needs.
    pub right: &'static str,
}

/// The rights on the key of a queue that is sent to ("Key management", Amazon SQS Developer Guide).
pub const SEND_KEY_RIGHTS: &str = "kms:GenerateDataKey and kms:Decrypt";

/// Formats an error. If SQS denied access, the text names the missing right: `right` on the queue, or `key_right` on
/// its key.
#[must_use]
pub fn explain_error(error: &EntryError, right: &str, key_right: &str) -> String {
    if !is_denied(error) {
        return error.to_string();
    }
    if error.code.to_ascii_lowercase().starts_with("kms") {
        return format!("{error}: you need {key_right} on the queue's key");
    }
    format!("{error}: you need {right} on the queue")
}

/// True if a right is missing: `AccessDenied`, `AccessDeniedException`, `KmsAccessDenied`.
pub(crate) fn is_denied(error: &EntryError) -> bool {
    error.code.contains("AccessDenied")
}

impl<'a, Q: Queue, C: Clock> DeadLetterReader<'a, Q, C> {
    /// Starts to read.
    ///
    /// # Errors
    /// If SQS does not return the number of messages in five tries within some 3 s, or denies it
    /// (`sqs:GetQueueAttributes`).
    pub async fn new(queue: &'a Q, clock: &'a C) -> Result<Self, ReaderError> {
        let depth = retry_request(clock, || queue.depth())
            .await
            .map_err(|error| reader_error(queue, error, "sqs:GetQueueAttributes"))?;
        let requests = usize::try_from(depth.total() / u64::from(MESSAGES_OF_A_REQUEST) + 1);
        let mut reader = Self {
            queue,
            clock,
            approximate: depth.total(),
            receivers: FuturesUnordered::new(),
            receivers_left: requests.map_or(REQUESTS_MAX, |requests| requests.min(REQUESTS_MAX)),
            answers: VecDeque::new(),
            held: HiddenMessages::new(queue, clock),
            seen: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            repeated: 0,
            groups: BTreeMap::new(),
            may_read_on: false,
        };
        reader.receive_more();
        Ok(reader)
    }

    /// Messages that SQS counted at the start.
    #[must_use]
    pub fn approximate_count(&self) -> u64 {
        self.approximate
    }

    /// Returns more messages, each only once; `None` when there are no more. May be dropped at any time.
    ///
    /// # Errors
    /// If SQS refuses a receive, or fails five times in a row.
    pub async fn next_messages(&mut self) -> Result<Option<Vec<ReceivedMessage>>, ReaderError> {
        loop {
            let answer = self.answers.pop_front();
            self.receive_more();
            match answer {
                Some(Ok(new)) if !new.is_empty() => return Ok(Some(new)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(reader_error(self.queue, error, "sqs:ReceiveMessage")),
                None if self.receivers_left == 0 && self.may_read_on => {
                    self.may_read_on = false;
                    self.receivers_left = 1;
                }
                None if self.receivers_left == 0 => return Ok(None),
                None => self.wait_for_progress().await,
            }
        }
    }

    /// Runs a task on messages that came out, however long it takes; they stay hidden meanwhile. Receives that are
    /// under way are finished and no new ones start: an answer that is not read in time is lost, and its messages stay
    /// hidden.
    pub async fn hold_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work.fuse());
        loop {
            let mut turn = pin!(self.wait_for_progress().fuse());
            select_biased! {
                done = work => return done,
                () = turn => {}
            }
        }
    }

    /// True if no other program can have received a message since it came out. A message that is visible again comes
    /// out again.
    #[must_use]
    pub fn is_hidden(&self, message: &ReceivedMessage) -> bool {
        self.held.is_hidden(&message.sqs_message_id)
    }

    /// Deletes messages that were read, and returns one outcome per message, in order. A message whose deletion is not
    /// certain is an error, stays held, and becomes visible again at the end.
    pub async fn delete_messages(&mut self, messages: &[&ReceivedMessage]) -> Vec<Result<(), NotDeleted>> {
        let deletion = self.start_deletion(messages);
        let answers = self.hold_during(deletion).await;
        self.confirm_deletions(answers)
    }

    /// Starts a deletion like [`DeadLetterReader::delete_messages`], so that several can run at the same time beside
    /// the reader. [`DeadLetterReader::confirm_deletions`] turns the answers into outcomes.
    pub fn start_deletion(&self, messages: &[&ReceivedMessage]) -> BoxFuture<'a, Vec<DeletionAnswer>> {
        let asked: Vec<_> = messages.iter().map(|message| self.deletion_request(message)).collect();
        let (queue, clock) = (self.queue, self.clock);
        async move {
            let handles: Vec<_> = asked.iter().map(|asked| asked.handle.clone()).collect();
            let outcomes = delete_receives(queue, clock, &handles).await;
            asked
                .into_iter()
                .zip(outcomes)
                .map(|(asked, outcome)| DeletionAnswer { outcome, ..asked })
                .collect()
        }
        .boxed()
    }

    /// Decides which messages are deleted: one outcome per answer. A message that is not deleted stays held, and
    /// becomes visible again at the end like all others.
    pub fn confirm_deletions(&mut self, answers: Vec<DeletionAnswer>) -> Vec<Result<(), NotDeleted>> {
        answers.into_iter().map(|answer| self.confirm_deletion(answer)).collect()
    }

    /// Decides whether SQS's "done" means that the message is gone. SQS says the same of a handle that another receive
    /// has replaced, and then deletes nothing. So it is trusted only if no other program can have received the message
    /// before the answer arrived.
    fn confirm_deletion(&mut self, answer: DeletionAnswer) -> Result<(), NotDeleted> {
        answer.outcome.map_err(NotDeleted::Failed)?;
        let DeletionAnswer { id, handle, hidden_until, .. } = answer;
        let is_hidden =
            self.held.is_hidden(&id) || hidden_until.is_some_and(|until| self.clock.now() < until);
        if self.held.newest_handle(&id) == Some(&handle) && is_hidden {
            self.held.release_message(&id);
            self.may_read_on |= self.groups.remove(&id).is_some();
            return Ok(());
        }
        Err(NotDeleted::VisibleToOthers)
    }

    /// Makes held messages visible again, and returns the part of the queue that was read.
    pub async fn finish(mut self) -> Coverage {
        // A receive that is under way would hide messages that are never given back.
        while !self.receivers.is_empty() {
            self.wait_for_progress().await;
        }
        let (seen, unreadable) = (self.seen.len() as u64, self.unreadable.len() as u64);
        let reappeared = self.held.reappeared_count();
        let full_groups = count_full_groups(self.groups.values());
        let handles = self.held.into_handles().await;
        // SQS's count at the start may be a minute old, so fewer may have been there. It is complete, too, if now
        // nothing is left that this reader does not hold itself.
        let depth = self.queue.depth().await;
        let all_came_out = seen >= self.approximate
            || depth.is_ok_and(|depth| {
                depth.visible == 0 && depth.delayed == 0 && depth.in_flight <= handles.len() as u64
            });
        let complete = all_came_out && unreadable == 0;
        let still_hidden = make_visible(self.queue, self.clock, handles).await;
        Coverage {
            seen,
            approximate: self.approximate,
            unreadable,
            complete,
            still_hidden,
            reappeared,
            full_groups,
        }
    }

    /// Extends held messages, or waits for the next answer. May be dropped at any time.
    async fn wait_for_progress(&mut self) {
        let answer = {
            let mut holding = pin!(self.held.extend_next().fuse());
            // Extensions first: while answers come without a pause, messages that are held would become visible.
            select_biased! {
                () = holding => return,
                answer = self.receivers.select_next_some() => answer,
            }
        };
        match answer {
            Ok((asked, messages)) => {
                let answer = self.hold_answer(asked, messages);
                if self.is_receiver_done(&answer) {
                    self.receivers_left -= 1;
                } else {
                    self.answers.push_back(Ok(answer.new));
                }
            }
            Err(error) => {
                self.receivers_left -= 1;
                // The maximum number of messages is invisible, so no more can be read.
                if !error.code.ends_with(OVER_LIMIT) {
                    self.answers.push_back(Err(error));
                }
            }
        }
    }

    /// Holds all messages of an answer, also those that came before, since only the newest handle is valid. Returns
    /// what the answer brought.
    fn hold_answer(&mut self, asked: ReceiveRequest, messages: Vec<ReceivedMessage>) -> ReceiveOutcome {
        let mut brought = ReceiveOutcome::default();
        for message in messages {
            self.held.hold_message(&message.sqs_message_id, &message.receipt_handle, asked);
            if self.seen.insert(message.sqs_message_id.clone()) {
                if let Some(group) = message.message_group_id.clone().filter(|_| is_fifo(self.queue.arn())) {
                    self.groups.insert(message.sqs_message_id.clone(), group);
                }
                brought.new.push(message);
            } else {
                brought.repeated += 1;
            }
        }
        for message in self.queue.take_unreadable() {
            self.held.hold_message(&message.sqs_message_id, &message.receipt_handle, asked);
            if self.unreadable.insert(message.sqs_message_id) {
                brought.new_unreadable += 1;
            } else {
                brought.repeated += 1;
            }
        }
        brought
    }

    /// True if the receiver need not ask again: its answer was empty, or brought only messages that came before while
    /// all are known, or while the whole queue has come out once more with nothing new in it.
    fn is_receiver_done(&mut self, answer: &ReceiveOutcome) -> bool {
        if !answer.new.is_empty() || answer.new_unreadable > 0 {
            self.repeated = 0;
            return false;
        }
        self.repeated += answer.repeated;
        let known = (self.seen.len() + self.unreadable.len()) as u64;
        answer.repeated == 0 || known >= self.approximate || self.repeated >= known
    }

    fn deletion_request(&self, message: &ReceivedMessage) -> DeletionAnswer {
        let id = message.sqs_message_id.clone();
        // It may have come out again since. Of an older handle SQS says that the message is deleted, and it is not.
        let handle = self.held.newest_handle(&id).unwrap_or(&message.receipt_handle).to_owned();
        let hidden_until = self.held.hidden_until(&id);
        DeletionAnswer {
            id,
            handle,
            hidden_until,
            outcome: Err(EntryError::new(Fault::NoAnswer, "NoAnswer")),
        }
    }

    /// Lets receivers ask again whose answers have been given out. None does while extensions wait: what it brought
    /// would have to be extended, too, and what is held would become visible and come out again.
    fn receive_more(&mut self) {
        while self.receivers.len() + self.answers.len() < self.receivers_left && !self.held.is_late() {
            self.receivers.push(self.start_receive());
        }
    }

    fn start_receive(&self) -> BoxFuture<'a, ReceiveAnswer> {
        let (queue, clock, hidden) = (self.queue, self.clock, self.held.hide_duration());
        let request = Receive {
            max_messages: MESSAGES_OF_A_REQUEST,
            wait: WAIT,
            visibility: VisibilitySeconds::new(hidden.as_secs()),
        };
        let ask = move || async move {
            let asked = ReceiveRequest { at: clock.now(), hidden };
            queue.receive(request).await.map(|messages| (asked, messages))
        };
        async move { retry_request(clock, ask).await }.boxed()
    }
}

/// Counts the message groups with ten messages or more ("FIFO queue delivery logic", Amazon SQS Developer Guide: one
/// receive brings up to ten of a group, and the next one none before these are deleted or visible again).
fn count_full_groups<'g>(groups: impl Iterator<Item = &'g String>) -> u64 {
    let mut messages: BTreeMap<&str, u8> = BTreeMap::new();
    for group in groups {
        let count = messages.entry(group).or_default();
        *count = count.saturating_add(1);
    }
    messages.values().filter(|count| **count >= MESSAGES_OF_A_REQUEST).count() as u64
}

pub(crate) fn reader_error<Q: Queue>(queue: &Q, error: EntryError, right: &'static str) -> ReaderError {
    ReaderError { url: queue.url().to_owned(), error, right }
}

#[cfg(test)]
mod tests;

//! Reads a whole queue without consuming it: several concurrent receivers return each message once, keep it hidden
//! during the work, and make it visible again at the end.

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

/// Limit on concurrent requests of a kind. SQS responds within about 20 ms, so this allows thousands of messages per
/// second.
pub(crate) const REQUESTS_MAX: usize = 16;
const MESSAGES_OF_A_REQUEST: u8 = 10;
/// Long polling, so that SQS queries all of its servers; short, since the last receives of a pass wait in vain.
const WAIT: Duration = Duration::from_secs(1);
/// The SQS error while 120,000 messages are in flight ("ReceiveMessage", Amazon SQS API Reference).
const OVER_LIMIT: &str = "OverLimit";

/// Reads a queue. Received messages that were not deleted are hidden until [`DeadLetterReader::finish`]: for two
/// minutes at a time, extended while [`DeadLetterReader::next_messages`] or [`DeadLetterReader::hold_during`] runs; for
/// up to half an hour at a time if SQS responds too slowly to extend all of them in time.
pub struct DeadLetterReader<'a, Q, C> {
    queue: &'a Q,
    clock: &'a C,
    approximate: u64,
    receivers: FuturesUnordered<BoxFuture<'a, ReceiveAnswer>>,
    /// Receivers that have not finished; some wait until held messages are extended.
    receivers_left: usize,
    /// New messages that [`DeadLetterReader::next_messages`] has not returned yet.
    answers: VecDeque<Result<Vec<ReceivedMessage>, EntryError>>,
    held: HiddenMessages<'a, Q, C>,
    /// The SQS message ids of all received messages.
    seen: BTreeSet<String>,
    /// The ids of messages that could not be parsed.
    unreadable: BTreeSet<String>,
    /// Messages received again since the last new one.
    repeated: u64,
    /// On a FIFO queue, the message groups of all held messages, by SQS message id.
    groups: BTreeMap<String, String>,
    /// True if more messages of a group may have become available because others were deleted.
    may_read_on: bool,
}

/// The response to a receive, with its request.
type ReceiveAnswer = Result<(ReceiveRequest, Vec<ReceivedMessage>), EntryError>;

/// The parameters of a receive request.
#[derive(Clone, Copy)]
struct ReceiveRequest {
    at: Timestamp,
    /// The visibility timeout of its messages.
    hidden: Duration,
}

/// The messages of one receive.
#[derive(Default)]
struct ReceiveOutcome {
    new: Vec<ReceivedMessage>,
    new_unreadable: u64,
    /// The number of messages that had been received before.
    repeated: u64,
}

/// SQS's response to the deletion of one message. [`DeadLetterReader::confirm_deletions`] decides whether it can be
/// trusted.
pub struct DeletionAnswer {
    id: String,
    handle: String,
    /// The end of the visibility timeout at the time of the deletion request. A later extension would be rejected, so
    /// it has no effect on this.
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
    /// Messages that were received but could not be parsed. They remain in the queue.
    pub unreadable: u64,
    /// True if all messages were read. Otherwise the rest is unreadable, in flight elsewhere, or exceeds the in-flight
    /// limit.
    #[serde(skip)]
    pub complete: bool,
    /// Messages that could not be made visible again; they become visible by themselves, within two minutes unless SQS
    /// is slow.
    #[serde(skip)]
    pub still_hidden: u64,
    /// Messages that became visible again while the queue was being read, because SQS responded too slowly or rejected
    /// the extension.
    #[serde(skip)]
    pub reappeared: u64,
    /// Message groups of a FIFO queue with ten held messages at the end. SQS returns no further messages of such a
    /// group, so it may have more.
    #[serde(skip)]
    pub full_groups: u64,
}

/// The reason why a message was not deleted, or not certainly.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotDeleted {
    /// SQS's last error, or the lack of a response.
    #[error("{0}")]
    Failed(EntryError),
    /// SQS reported the message as deleted, but another program may have received it before, and then it was not
    /// deleted.
    #[error("another program may have received it (VisibleToOthers)")]
    VisibleToOthers,
}

impl NotDeleted {
    /// Advice for the user: a sentence without its full stop.
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

/// An error that ends the reading of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("reading {url}: {}", explain_error(error, right, "kms:Decrypt"))]
pub struct ReaderError {
    pub url: String,
    pub error: EntryError,
    /// The permission that the request requires.
    pub right: &'static str,
}

/// The permissions on the KMS key that sending to a queue requires ("Key management", Amazon SQS Developer Guide).
pub const SEND_KEY_RIGHTS: &str = "kms:GenerateDataKey and kms:Decrypt";

/// Formats an error. If SQS denied access, the text names the missing permission: `right` on the queue, or `key_right`
/// on its KMS key.
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

/// True if a permission is missing: `AccessDenied`, `AccessDeniedException`, `KmsAccessDenied`.
pub(crate) fn is_denied(error: &EntryError) -> bool {
    error.code.contains("AccessDenied")
}

impl<'a, Q: Queue, C: Clock> DeadLetterReader<'a, Q, C> {
    /// Starts reading.
    ///
    /// # Errors
    /// If SQS does not return the number of messages in five tries within about 3 s, or denies access
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

    /// The number of messages according to SQS at the start.
    #[must_use]
    pub fn approximate_count(&self) -> u64 {
        self.approximate
    }

    /// Returns more messages, each only once; `None` when there are no more. Cancel-safe.
    ///
    /// # Errors
    /// If SQS rejects a receive, or fails five times in a row.
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

    /// Runs a task on received messages, which stay hidden regardless of its duration. Pending receives are completed
    /// and no new ones start: a response that is not read in time is lost, and its messages remain hidden.
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

    /// True if no other program can have received the message since this reader did. A message that becomes visible
    /// again is received again.
    #[must_use]
    pub fn is_hidden(&self, message: &ReceivedMessage) -> bool {
        self.held.is_hidden(&message.sqs_message_id)
    }

    /// Deletes received messages, and returns one outcome per message, in order. A message whose deletion is uncertain
    /// counts as an error, remains held, and becomes visible again at the end.
    pub async fn delete_messages(&mut self, messages: &[&ReceivedMessage]) -> Vec<Result<(), NotDeleted>> {
        let deletion = self.start_deletion(messages);
        let answers = self.hold_during(deletion).await;
        self.confirm_deletions(answers)
    }

    /// Starts a deletion like [`DeadLetterReader::delete_messages`], so that several can run concurrently with the
    /// reader. [`DeadLetterReader::confirm_deletions`] converts the responses to outcomes.
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

    /// Decides which messages are deleted: one outcome per response. A message that was not deleted remains held, and
    /// becomes visible again at the end like all others.
    pub fn confirm_deletions(&mut self, answers: Vec<DeletionAnswer>) -> Vec<Result<(), NotDeleted>> {
        answers.into_iter().map(|answer| self.confirm_deletion(answer)).collect()
    }

    /// Decides whether a success response means that the message is deleted. SQS also reports success for a handle that
    /// a later receive has superseded, and then deletes nothing. So the response is trusted only if no other program
    /// can have received the message before it arrived.
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
        // A receive that is still pending would hide messages that are never released.
        while !self.receivers.is_empty() {
            self.wait_for_progress().await;
        }
        let (seen, unreadable) = (self.seen.len() as u64, self.unreadable.len() as u64);
        let reappeared = self.held.reappeared_count();
        let full_groups = count_full_groups(self.groups.values());
        let handles = self.held.into_handles().await;
        // SQS's count at the start may be a minute old, so it may have been too high. Reading is also complete if the
        // queue now has no messages except those that this reader holds.
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

    /// Extends held messages, or waits for the next response. Cancel-safe.
    async fn wait_for_progress(&mut self) {
        let answer = {
            let mut holding = pin!(self.held.extend_next().fuse());
            // Extensions first: otherwise held messages would become visible during an uninterrupted stream of
            // responses.
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
                // The maximum number of messages is in flight, so no more can be read.
                if !error.code.ends_with(OVER_LIMIT) {
                    self.answers.push_back(Err(error));
                }
            }
        }
    }

    /// Holds all messages of a response, including those received before, since only the newest handle is valid.
    /// Returns the new messages, and the number of repeated ones.
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

    /// True if the receiver need not receive again: its response was empty, or had only known messages while all
    /// messages are known, or while the whole queue has been received once more without a new one.
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
        // The message may have been received again since. With an older handle, SQS reports success without deleting
        // the message.
        let handle = self.held.newest_handle(&id).unwrap_or(&message.receipt_handle).to_owned();
        let hidden_until = self.held.hidden_until(&id);
        DeletionAnswer {
            id,
            handle,
            hidden_until,
            outcome: Err(EntryError::new(Fault::NoAnswer, "NoAnswer")),
        }
    }

    /// Restarts receivers whose responses have been returned. None restarts while extensions are late: new messages
    /// would need extensions, too, and held ones would become visible and be received again.
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

/// Counts the message groups with ten or more messages ("FIFO queue delivery logic", Amazon SQS Developer Guide: one
/// receive returns up to ten of a group, and the next returns none until these are deleted or visible again).
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

//! Reads an entire queue without consuming it: concurrent receivers return each message once, keep it hidden while the
//! caller works on it, and make it visible again at the end.

mod held;
mod patience;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::select_biased;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redeliver_core::deliver::deletion::delete_by_receipt_handle;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::ports::{Clock, EntryError, EntryOutcome, Fault, Queue, ReceiveOptions, is_fifo};
use serde::{Serialize, Serializer};
use thiserror::Error;

use held::HiddenMessages;
pub use held::INITIAL_VISIBILITY_TIMEOUT;
use patience::{make_visible, retry_request};

/// The maximum number of concurrent requests of one kind. SQS responds in about 20 ms, so this allows thousands of
/// messages per second.
pub(crate) const REQUESTS_MAX: usize = 16;
const MESSAGES_PER_REQUEST: u8 = 10;
/// The wait time for a receive. Long polling makes SQS query all of its servers; the time is short because the last
/// receives in each pass return nothing.
const WAIT: Duration = Duration::from_secs(1);
/// The SQS error code for a queue with 120,000 messages in flight ("ReceiveMessage", Amazon SQS API Reference).
const OVER_LIMIT: &str = "OverLimit";

/// A reader for a queue. Received messages that are not deleted stay hidden until [`DeadLetterReader::finish`]: for two
/// minutes at a time, extended while [`DeadLetterReader::next_messages`] or
/// [`DeadLetterReader::hold_messages_during`] runs. If SQS responds too slowly to extend all of them in time, they are
/// hidden for up to half an hour at a time.
pub struct DeadLetterReader<'a, Q, C> {
    queue: &'a Q,
    clock: &'a C,
    approximate: u64,
    receivers: FuturesUnordered<BoxFuture<'a, ReceiveResponse>>,
    /// The number of receivers that have not finished; some wait until the timeouts of held messages are extended.
    receivers_left: usize,
    /// New messages that [`DeadLetterReader::next_messages`] has not returned yet.
    answers: VecDeque<Result<Vec<ReceivedMessage>, EntryError>>,
    held: HiddenMessages<'a, Q, C>,
    /// The SQS message ids of all received messages.
    seen: BTreeSet<String>,
    /// The ids of messages that could not be parsed.
    unreadable: BTreeSet<String>,
    /// The number of messages received again since the last new message.
    repeated: u64,
    /// On a FIFO queue, the message groups of all held messages, by SQS message id.
    groups: BTreeMap<String, String>,
    /// True if deletions may have made more messages in a group available.
    may_have_more: bool,
}

/// The response to a receive, with its request.
type ReceiveResponse = Result<(ReceiveRequest, Vec<ReceivedMessage>), EntryError>;

/// The parameters of a receive request.
#[derive(Clone, Copy)]
struct ReceiveRequest {
    at: Timestamp,
    /// The visibility timeout of the received messages.
    visibility_timeout: Duration,
}

/// The messages from one receive.
#[derive(Default)]
struct ReceiveOutcome {
    new: Vec<ReceivedMessage>,
    new_unreadable: u64,
    /// The number of messages that had been received before.
    repeated: u64,
}

/// SQS's response to the deletion of one message. [`DeadLetterReader::confirm_deletions`] decides whether it can be
/// trusted.
pub struct DeletionResponse {
    id: String,
    handle: String,
    /// The end of the visibility timeout, as known when the deletion was requested. SQS rejects extensions after the
    /// deletion, so they do not change it.
    hidden_until: Option<Timestamp>,
    outcome: EntryOutcome<()>,
}

/// The part of a queue that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    pub seen: u64,
    /// Messages in the queue, as SQS counted them at the start. The count is approximate, and can be a minute old
    /// ("GetQueueAttributes", Amazon SQS API Reference).
    pub approximate: u64,
    /// Messages that were received but could not be parsed. They remain in the queue.
    pub unreadable: u64,
    /// True if all messages were read. Otherwise the remaining messages are unreadable, in flight elsewhere, or beyond
    /// the in-flight limit.
    #[serde(skip)]
    pub complete: bool,
    /// Messages that could not be made visible again. They become visible on their own, within two minutes unless SQS
    /// is slow.
    #[serde(skip)]
    pub still_hidden: u64,
    /// Messages that became visible again while the queue was being read, because SQS responded too slowly or rejected
    /// the extension.
    #[serde(skip)]
    pub reappeared: u64,
    /// FIFO message groups that still had ten held messages at the end. SQS returns no further messages from such a
    /// group, so the group may have more.
    #[serde(skip)]
    pub full_groups: u64,
}

/// The reason why a deletion failed or is uncertain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeletionError {
    /// SQS's last error, or the lack of a response.
    #[error("{0}")]
    Failed(EntryError),
    /// SQS reported the message as deleted, but another program may have received it in the meantime, in which case SQS
    /// deleted nothing.
    #[error("another program may have received it (VisibleToOthers)")]
    VisibleToOthers,
}

impl DeletionError {
    /// Returns advice for the user, as a sentence without its final period.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Failed(EntryError { fault: Fault::Sender, .. }) => "Allow sqs:DeleteMessage on the DLQ",
            Self::Failed(_) => "Wait until SQS answers again",
            Self::VisibleToOthers => "Stop the other program that reads the DLQ",
        }
    }
}

impl Serialize for DeletionError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An error that stops a reader.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("reading {url}: {}", explain_error(error, permission, "kms:Decrypt"))]
pub struct ReaderError {
    pub url: String,
    pub error: EntryError,
    /// The permission that the request requires.
    pub permission: &'static str,
}

/// The KMS key permissions required for sending to a queue ("Key management", Amazon SQS Developer Guide).
pub const SEND_KEY_PERMISSIONS: &str = "kms:GenerateDataKey and kms:Decrypt";

/// Formats an error. If SQS denied access, the text names the missing permission: `permission` on the queue, or
/// `key_permission` on its KMS key.
#[must_use]
pub fn explain_error(error: &EntryError, permission: &str, key_permission: &str) -> String {
    if !is_denied(error) {
        return error.to_string();
    }
    if error.code.to_ascii_lowercase().starts_with("kms") {
        return format!("{error}: you need {key_permission} on the queue's key");
    }
    format!("{error}: you need {permission} on the queue")
}

/// Returns true if a permission is missing: `AccessDenied`, `AccessDeniedException`, `KmsAccessDenied`.
pub(crate) fn is_denied(error: &EntryError) -> bool {
    error.code.contains("AccessDenied")
}

impl<'a, Q: Queue, C: Clock> DeadLetterReader<'a, Q, C> {
    /// Creates a reader, and starts to read.
    ///
    /// # Errors
    /// If SQS has not returned the number of messages after five attempts in about 3 s, or denies access
    /// (`sqs:GetQueueAttributes`).
    pub async fn new(queue: &'a Q, clock: &'a C) -> Result<Self, ReaderError> {
        let depth = retry_request(clock, || queue.depth())
            .await
            .map_err(|error| reader_error(queue, error, "sqs:GetQueueAttributes"))?;
        let requests = usize::try_from(depth.total() / u64::from(MESSAGES_PER_REQUEST) + 1);
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
            may_have_more: false,
        };
        reader.receive_more();
        Ok(reader)
    }

    /// Returns the number of messages that SQS reported at the start.
    #[must_use]
    pub fn approximate_count(&self) -> u64 {
        self.approximate
    }

    /// Returns the next messages, each message only once, or `None` when there are no more. Cancel-safe.
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
                None if self.receivers_left == 0 && self.may_have_more => {
                    self.may_have_more = false;
                    self.receivers_left = 1;
                }
                None if self.receivers_left == 0 => return Ok(None),
                None => self.wait_for_progress().await,
            }
        }
    }

    /// Runs a task on received messages, and keeps them hidden until it completes. Pending receives are completed, and
    /// no new ones start: a response that is not read in time is lost, and its messages remain hidden.
    pub async fn hold_messages_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work.fuse());
        loop {
            let mut turn = pin!(self.wait_for_progress().fuse());
            select_biased! {
                done = work => return done,
                () = turn => {}
            }
        }
    }

    /// Returns true if no other program can have received the message since this reader received it. A message that has
    /// become visible again will be received again.
    #[must_use]
    pub fn is_hidden(&self, message: &ReceivedMessage) -> bool {
        self.held.is_hidden(&message.sqs_message_id)
    }

    /// Deletes received messages, and returns one outcome per message, in order. An uncertain deletion counts as an
    /// error: the message remains held, and becomes visible again at the end.
    pub async fn delete_messages(&mut self, messages: &[&ReceivedMessage]) -> Vec<Result<(), DeletionError>> {
        let deletion = self.start_deletion(messages);
        let answers = self.hold_messages_during(deletion).await;
        self.confirm_deletions(answers)
    }

    /// Starts a deletion like [`DeadLetterReader::delete_messages`], so that several can run concurrently with the
    /// reader. [`DeadLetterReader::confirm_deletions`] converts the responses to outcomes.
    pub fn start_deletion(&self, messages: &[&ReceivedMessage]) -> BoxFuture<'a, Vec<DeletionResponse>> {
        let requests: Vec<_> = messages.iter().map(|message| self.deletion_request(message)).collect();
        let (queue, clock) = (self.queue, self.clock);
        async move {
            let handles: Vec<_> = requests.iter().map(|request| request.handle.clone()).collect();
            let outcomes = delete_by_receipt_handle(queue, clock, &handles).await;
            requests
                .into_iter()
                .zip(outcomes)
                .map(|(request, outcome)| DeletionResponse { outcome, ..request })
                .collect()
        }
        .boxed()
    }

    /// Decides which messages count as deleted, and returns one outcome per response. A message that was not deleted
    /// remains held, and becomes visible again at the end like all others.
    pub fn confirm_deletions(&mut self, answers: Vec<DeletionResponse>) -> Vec<Result<(), DeletionError>> {
        answers.into_iter().map(|answer| self.confirm_deletion(answer)).collect()
    }

    /// Decides whether a success response means that the message is deleted. SQS also reports success for a handle that
    /// a later receive has superseded, but then deletes nothing. The response is therefore trusted only if no other
    /// program can have received the message before it arrived.
    fn confirm_deletion(&mut self, answer: DeletionResponse) -> Result<(), DeletionError> {
        answer.outcome.map_err(DeletionError::Failed)?;
        let DeletionResponse { id, handle, hidden_until, .. } = answer;
        let is_hidden =
            self.held.is_hidden(&id) || hidden_until.is_some_and(|until| self.clock.now() < until);
        if self.held.newest_handle(&id) == Some(&handle) && is_hidden {
            self.held.release_message(&id);
            self.may_have_more |= self.groups.remove(&id).is_some();
            return Ok(());
        }
        Err(DeletionError::VisibleToOthers)
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
        // SQS's count at the start may have been a minute old, and so too high. Reading is also complete if the queue
        // now contains only the messages that this reader holds.
        let depth = self.queue.depth().await;
        let is_all_read = seen >= self.approximate
            || depth.is_ok_and(|depth| {
                depth.visible == 0 && depth.delayed == 0 && depth.in_flight <= handles.len() as u64
            });
        let complete = is_all_read && unreadable == 0;
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

    /// Extends the timeouts of held messages, or waits for the next response. Cancel-safe.
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
            Ok((request, messages)) => {
                let answer = self.hold_received_messages(request, messages);
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

    /// Holds all messages in a response, including those received before, since only the newest handle is valid.
    /// Returns the new messages, and the number of repeated ones.
    fn hold_received_messages(
        &mut self,
        request: ReceiveRequest,
        messages: Vec<ReceivedMessage>,
    ) -> ReceiveOutcome {
        let mut outcome = ReceiveOutcome::default();
        for message in messages {
            self.held.hold_message(&message.sqs_message_id, &message.receipt_handle, request);
            if self.seen.insert(message.sqs_message_id.clone()) {
                if let Some(group) = message.message_group_id.clone().filter(|_| is_fifo(self.queue.arn())) {
                    self.groups.insert(message.sqs_message_id.clone(), group);
                }
                outcome.new.push(message);
            } else {
                outcome.repeated += 1;
            }
        }
        for message in self.queue.take_unreadable() {
            self.held.hold_message(&message.sqs_message_id, &message.receipt_handle, request);
            if self.unreadable.insert(message.sqs_message_id) {
                outcome.new_unreadable += 1;
            } else {
                outcome.repeated += 1;
            }
        }
        outcome
    }

    /// Returns true if the receiver is done: its response was empty, or it contained only known messages and either all
    /// messages are known or the entire queue was read once more without finding a new one.
    fn is_receiver_done(&mut self, answer: &ReceiveOutcome) -> bool {
        if !answer.new.is_empty() || answer.new_unreadable > 0 {
            self.repeated = 0;
            return false;
        }
        self.repeated += answer.repeated;
        let known = (self.seen.len() + self.unreadable.len()) as u64;
        answer.repeated == 0 || known >= self.approximate || self.repeated >= known
    }

    fn deletion_request(&self, message: &ReceivedMessage) -> DeletionResponse {
        let id = message.sqs_message_id.clone();
        // The message may have been received again in the meantime. With an older handle, SQS reports success without
        // deleting the message.
        let handle = self.held.newest_handle(&id).unwrap_or(&message.receipt_handle).to_owned();
        let hidden_until = self.held.hidden_until(&id);
        DeletionResponse {
            id,
            handle,
            hidden_until,
            outcome: Err(EntryError::new(Fault::NoAnswer, "NoAnswer")),
        }
    }

    /// Restarts receivers whose responses have been returned. Receivers are not restarted while extensions are late:
    /// new messages would need extensions as well, and held messages would become visible and be received again.
    fn receive_more(&mut self) {
        while self.receivers.len() + self.answers.len() < self.receivers_left && !self.held.is_late() {
            self.receivers.push(self.start_receive());
        }
    }

    fn start_receive(&self) -> BoxFuture<'a, ReceiveResponse> {
        let (queue, clock, visibility_timeout) = (self.queue, self.clock, self.held.visibility_timeout());
        let request = ReceiveOptions {
            max_messages: MESSAGES_PER_REQUEST,
            wait: WAIT,
            visibility: VisibilitySeconds::new(visibility_timeout.as_secs()),
        };
        let receive = move || async move {
            let sent = ReceiveRequest { at: clock.now(), visibility_timeout };
            queue.receive(request).await.map(|messages| (sent, messages))
        };
        async move { retry_request(clock, receive).await }.boxed()
    }
}

/// Counts the message groups with ten or more messages ("FIFO queue delivery logic", Amazon SQS Developer Guide: one
/// receive returns up to ten messages from a group, and the next returns none from it until they are deleted or visible
/// again).
fn count_full_groups<'g>(groups: impl Iterator<Item = &'g String>) -> u64 {
    let mut messages: BTreeMap<&str, u8> = BTreeMap::new();
    for group in groups {
        let count = messages.entry(group).or_default();
        *count = count.saturating_add(1);
    }
    messages.values().filter(|count| **count >= MESSAGES_PER_REQUEST).count() as u64
}

pub(crate) fn reader_error<Q: Queue>(queue: &Q, error: EntryError, permission: &'static str) -> ReaderError {
    ReaderError { url: queue.url().to_owned(), error, permission }
}

#[cfg(test)]
mod tests;

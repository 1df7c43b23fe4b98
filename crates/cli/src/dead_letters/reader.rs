//! Reads a whole queue without consuming it: many receivers at once, each message once, and given back at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::ports::{Clock, EntryError, Queue, Receive};
use serde::Serialize;
use thiserror::Error;

use super::delete;
use crate::people::grouped;

/// Requests at the same time: SQS answers one within some 20 ms, so this is thousands of messages a second.
const RECEIVERS_MAX: u64 = 16;
const MESSAGES_OF_A_REQUEST: u8 = 10;
/// Long, so that SQS asks all of its servers; short, since the last ones wait in vain.
const WAIT: Duration = Duration::from_secs(1);
/// Long enough for 120,000 messages; short enough that nobody misses them when this program is killed.
const HIDDEN_SECONDS: u64 = 600;
/// A failed request is tried again so often, with pauses that double.
pub(super) const TRIES: u32 = 5;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// What SQS says when 120,000 messages are in flight ("ReceiveMessage", Amazon SQS API Reference).
const OVER_LIMIT: &str = "OverLimit";

/// A queue that is being read. Whatever came out of it and was not deleted is invisible until [`Reader::finish`].
pub struct Reader<'a, Q, C> {
    queue: &'a Q,
    clock: &'a C,
    approximate: u64,
    receivers: FuturesUnordered<BoxFuture<'a, Result<Vec<ReceivedMessage>, EntryError>>>,
    /// The newest receipt handle of each message that is held, by SQS's message id; `None` once it is deleted.
    seen: BTreeMap<String, Option<String>>,
    /// The newest receipt handle of each message that could not be understood, by SQS's message id.
    unreadable: BTreeMap<String, String>,
}

/// How much of a queue was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Messages seen.
    pub seen: u64,
    /// Messages in the queue, as SQS counts them.
    pub approximate: u64,
    /// Messages that came out and could not be understood: they stay, and nothing else is known of them.
    pub unreadable: u64,
    /// Whether they were all: the rest is unreadable, or in flight elsewhere, or there are more than can be in flight.
    #[serde(skip)]
    pub complete: bool,
    /// Messages that could not be made visible again; they come back by themselves within ten minutes.
    #[serde(skip)]
    pub still_hidden: u64,
}

impl Coverage {
    /// What is missing: `12 of about 20 messages were seen`, and how many of them could not be understood.
    #[must_use]
    pub fn incompleteness(&self) -> String {
        let Self { seen, approximate, unreadable, .. } = self;
        let seen = format!("{} of about {} messages were seen", grouped(*seen), grouped(*approximate));
        match unreadable {
            0 => seen,
            _ => format!("{seen}, and {} more could not be understood and stay", grouped(*unreadable)),
        }
    }
}

/// Why a queue cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("reading {url}: {error}")]
pub struct ReaderError {
    /// The queue's URL.
    pub url: String,
    /// SQS's answer.
    pub error: EntryError,
}

impl<'a, Q: Queue, C: Clock> Reader<'a, Q, C> {
    /// Starts to read.
    ///
    /// # Errors
    /// If SQS does not say how many messages there are.
    pub async fn new(queue: &'a Q, clock: &'a C) -> Result<Self, ReaderError> {
        let depth = patiently(clock, || queue.depth()).await.map_err(|error| at(queue, error))?;
        let receivers = (depth.total() / u64::from(MESSAGES_OF_A_REQUEST) + 1).min(RECEIVERS_MAX);
        let reader = Self {
            queue,
            clock,
            approximate: depth.total(),
            receivers: FuturesUnordered::new(),
            seen: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        };
        for _ in 0..receivers {
            reader.receivers.push(reader.receive());
        }
        Ok(reader)
    }

    /// Messages that SQS counted at the start.
    #[must_use]
    pub fn approximate(&self) -> u64 {
        self.approximate
    }

    /// Some more messages, none of them a second time; `None` when there are no more.
    ///
    /// # Errors
    /// If SQS refuses, or fails again and again.
    pub async fn next(&mut self) -> Result<Option<Vec<ReceivedMessage>>, ReaderError> {
        while let Some(answer) = self.receivers.next().await {
            let messages = match answer {
                Ok(messages) => messages,
                // As many are invisible as can be: what was seen is what can be seen.
                Err(error) if error.code.ends_with(OVER_LIMIT) => continue,
                Err(error) => return Err(at(self.queue, error)),
            };
            let new: Vec<_> = messages.into_iter().filter(|message| self.is_new(message)).collect();
            if new.is_empty() && !self.note_unreadable() {
                // Nothing more, or only what came before: this receiver is done.
                continue;
            }
            self.receivers.push(self.receive());
            if !new.is_empty() {
                return Ok(Some(new));
            }
        }
        Ok(None)
    }

    /// Deletes messages that came out of it; for each, in order, whether SQS has confirmed it. What is deleted is not given back.
    pub async fn delete(&mut self, messages: &[&ReceivedMessage]) -> Vec<bool> {
        let handles: Vec<_> = messages.iter().map(|message| self.newest_handle(message)).collect();
        let deleted = delete(self.queue, self.clock, &handles).await;
        for (message, _) in messages.iter().zip(&deleted).filter(|(_, deleted)| **deleted) {
            self.seen.insert(message.sqs_message_id.clone(), None);
        }
        deleted
    }

    /// Makes what is held visible again and says how much was seen.
    pub async fn finish(mut self) -> Coverage {
        // A request under way would hide messages that nobody gives back.
        while let Some(answer) = self.receivers.next().await {
            for message in answer.unwrap_or_default() {
                self.is_new(&message);
            }
        }
        self.note_unreadable();
        let seen = self.seen.len() as u64;
        let depth = self.queue.depth().await;
        let unreadable = self.unreadable.len() as u64;
        let held: Vec<_> = self.seen.into_values().flatten().chain(self.unreadable.into_values()).collect();
        let all_came_out = seen >= self.approximate
            || depth.is_ok_and(|depth| {
                depth.visible == 0 && depth.delayed == 0 && depth.in_flight <= held.len() as u64
            });
        let complete = all_came_out && unreadable == 0;
        let still_hidden = give_back(self.queue, self.clock, held).await;
        Coverage { seen, approximate: self.approximate, unreadable, complete, still_hidden }
    }

    /// Remembers the newest handle of a message: an older one may no longer be good.
    fn is_new(&mut self, message: &ReceivedMessage) -> bool {
        let handle = Some(message.receipt_handle.clone());
        self.seen.insert(message.sqs_message_id.clone(), handle).is_none()
    }

    /// Whether there is one that did not come before.
    fn note_unreadable(&mut self) -> bool {
        let before = self.unreadable.len();
        let told = self.queue.take_unreadable().into_iter();
        self.unreadable.extend(told.map(|message| (message.sqs_message_id, message.receipt_handle)));
        self.unreadable.len() > before
    }

    /// A message may have come out again since. Of an older handle SQS says that the message is deleted, and it is not.
    fn newest_handle(&self, message: &ReceivedMessage) -> String {
        let newest = self.seen.get(&message.sqs_message_id).cloned().flatten();
        newest.unwrap_or_else(|| message.receipt_handle.clone())
    }

    fn receive(&self) -> BoxFuture<'a, Result<Vec<ReceivedMessage>, EntryError>> {
        let (queue, clock) = (self.queue, self.clock);
        let request = Receive {
            max_messages: MESSAGES_OF_A_REQUEST,
            wait: WAIT,
            visibility: VisibilitySeconds::new(HIDDEN_SECONDS),
        };
        async move { patiently(clock, || queue.receive(request)).await }.boxed()
    }
}

/// Visible again, at once; how many are not.
async fn give_back<Q: Queue, C: Clock>(queue: &Q, clock: &C, handles: Vec<String>) -> u64 {
    let now = VisibilitySeconds::new(0).expect("zero is within the limits");
    let mut waiting: Vec<_> = handles.into_iter().map(|handle| (handle, now)).collect();
    let mut pause = FIRST_PAUSE;
    for _ in 0..TRIES {
        let batches: Vec<_> = waiting.chunks(MESSAGES_OF_A_REQUEST.into()).map(<[_]>::to_vec).collect();
        let answers = futures_util::stream::iter(batches).map(|batch| async move {
            let outcomes = queue.change_visibility_batch(&batch).await;
            let failed = batch.into_iter().zip(outcomes);
            failed
                .filter(|(_, outcome)| matches!(outcome, Err(error) if error.fault.is_retryable()))
                .map(|(entry, _)| entry)
                .collect::<Vec<_>>()
        });
        waiting = answers.buffer_unordered(usize::try_from(RECEIVERS_MAX).unwrap_or(1)).concat().await;
        if waiting.is_empty() {
            break;
        }
        clock.sleep(pause).await;
        pause *= 2;
    }
    waiting.len() as u64
}

/// Asks again where that may help.
async fn patiently<T, C: Clock, F: Future<Output = Result<T, EntryError>>>(
    clock: &C,
    ask: impl Fn() -> F,
) -> Result<T, EntryError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        match ask().await {
            Err(error) if error.fault.is_retryable() => clock.sleep(pause).await,
            answer => return answer,
        }
        pause *= 2;
    }
    ask().await
}

fn at<Q: Queue>(queue: &Q, error: EntryError) -> ReaderError {
    ReaderError { url: queue.url().to_owned(), error }
}

#[cfg(test)]
mod tests;

//! An event source mapping under fire: it observes what it receives and deletes, its function is killed, and it forgets.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageSystemAttributeName,
};

use super::dice::Dice;
use super::history::{Content, Delivery, End, Invocation, Stage};
use super::messages::key_in;
use super::proxy::trace_id;
use super::recorder::Recorder;
use crate::esm::{event, failed_records};
use crate::runtime_api::{Function, Outcome};
use crate::sqs::Queue;

const BATCH: i32 = 10;
const WAIT_SECONDS: i32 = 1;
/// Longer than any of the functions' timeouts, and short enough to be seen to pass.
const VISIBILITY_SECONDS: i32 = 18;
/// Batches that are lost before the function is called.
const ABANDONED_PER_MILLE: u32 = 4;
/// Batches that are done, but not deleted.
const DELETE_LOST_PER_MILLE: u32 = 12;

/// A queue, a function with a process of its own, and who works for both.
pub struct Poller {
    /// Its number; its function's calls to the target carry it.
    pub number: usize,
    /// The queue's place.
    pub from: Stage,
    /// The queue.
    pub queue: Queue,
    /// The function.
    pub function: Arc<Function>,
    /// The function's timeout.
    pub timeout: Duration,
    /// The harness's own way to SQS.
    pub client: Client,
    /// Who writes it all down.
    pub recorder: Arc<Recorder>,
    /// When to forget.
    pub dice: Dice,
    /// The invocation that runs, and whether it was told to die.
    pub current: Mutex<Current>,
}

/// See [`Poller::current`].
#[derive(Debug, Default)]
pub struct Current {
    runs: bool,
    killed: bool,
}

impl Poller {
    /// Polls for ever.
    pub async fn run(&self) {
        loop {
            self.poll().await;
        }
    }

    /// Kills the process, if an invocation runs; whether one did.
    ///
    /// # Panics
    /// Never.
    pub fn kill(&self) -> bool {
        // Held, so that the next invocation cannot begin, and die unexplained, in between.
        let mut current = self.current.lock().expect("no holder panics");
        if current.runs {
            current.killed = true;
            self.function.kill();
        }
        current.runs
    }

    async fn poll(&self) {
        let messages = self.receive().await;
        if messages.is_empty() {
            return;
        }
        let keys: BTreeSet<_> = messages.iter().filter_map(|message| key_in(body(message))).collect();
        let invocation = self.recorder.begin(self.number, self.timeout, keys);
        let burns = self.recorder.burns();
        if burns && self.dice.per_mille(("abandoned", invocation), ABANDONED_PER_MILLE) {
            self.recorder.fault("batch abandoned by the mapping");
            self.record(invocation, &messages, |_| End::Abandoned);
            return;
        }
        let outcome = self.invoke(invocation, &messages).await;
        let ids: Vec<String> = messages.iter().map(|message| id(message).to_owned()).collect();
        let failed = failed_records(&outcome, &ids);
        let (failures, done): (Vec<_>, Vec<_>) =
            messages.iter().partition(|message| failed.contains(id(message)));
        let forgets = burns && self.dice.per_mille(("forgets", invocation), DELETE_LOST_PER_MILLE);
        let deleted = if forgets { BTreeSet::new() } else { self.delete(&done).await };
        if forgets && !done.is_empty() {
            self.recorder.fault("delete lost by the mapping");
            self.make_visible(&done).await;
        }
        self.make_visible(&failures).await;
        let of_failure = match outcome {
            Outcome::Died => End::Killed,
            Outcome::TimedOut => End::TimedOut,
            Outcome::Response(_) | Outcome::Error(_) => End::Failed,
        };
        self.record(invocation, &messages, |id| match () {
            () if failed.contains(id) => of_failure,
            () if forgets => End::DeleteLost,
            () if deleted.contains(id) => End::Deleted,
            () => End::VisibilityExpired,
        });
    }

    async fn invoke(&self, invocation: Invocation, messages: &[Message]) -> Outcome {
        *self.current.lock().expect("no holder panics") = Current { runs: true, killed: false };
        let event = event::from_messages(messages, &self.queue.arn);
        let outcome = self.function.invoke_traced(&event, self.timeout, &trace_id(invocation)).await;
        let was = std::mem::take(&mut *self.current.lock().expect("no holder panics"));
        let name = self.function.name();
        match &outcome {
            Outcome::Died if was.killed => self.recorder.killed(self.from.function()),
            Outcome::Died => {
                self.recorder.trouble(format!("{name} died by itself in invocation {invocation}"))
            }
            Outcome::Error(error) => {
                self.recorder.trouble(format!("{name} answered invocation {invocation} with {error}"));
            }
            Outcome::TimedOut => self.recorder.fault("function timed out"),
            Outcome::Response(_) => {}
        }
        outcome
    }

    fn record(&self, invocation: Invocation, messages: &[Message], end: impl Fn(&str) -> End) {
        for message in messages {
            let Some(key) = key_in(body(message)) else {
                self.recorder.trouble(format!("a message that nobody sent: {}", body(message)));
                continue;
            };
            let attributes = message.attributes();
            let receives = attributes
                .and_then(|all| all.get(&MessageSystemAttributeName::ApproximateReceiveCount))
                .and_then(|count| count.parse().ok())
                .unwrap_or(0);
            let (from, content, end) = (self.from, Content::of(message), end(id(message)));
            self.recorder.delivered(Delivery { invocation, from, key, content, receives, end });
        }
    }

    async fn receive(&self) -> Vec<Message> {
        let request = self.client.receive_message().queue_url(&self.queue.url).max_number_of_messages(BATCH);
        let request = request.wait_time_seconds(WAIT_SECONDS).visibility_timeout(VISIBILITY_SECONDS);
        let request = request
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All);
        request.send().await.expect("the queue answers").messages.unwrap_or_default()
    }

    /// The SQS message ids of those that are deleted.
    ///
    /// ministack refuses the receipt handle of a message that was received again or moved meanwhile; SQS answers Ok, which proves as little.
    async fn delete(&self, messages: &[&Message]) -> BTreeSet<String> {
        if messages.is_empty() {
            return BTreeSet::new();
        }
        let entries = messages.iter().enumerate().map(|(index, message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(handle(message)).build().expect("id and handle are set")
        });
        let request = self.client.delete_message_batch().queue_url(&self.queue.url);
        let deleted = request.set_entries(Some(entries.collect())).send().await.expect("the queue answers");
        let places = deleted.successful.iter().filter_map(|entry| entry.id.parse::<usize>().ok());
        places.map(|place| id(messages[place]).to_owned()).collect()
    }

    /// In Lambda they become visible when the visibility timeout has passed; here at once, to be quick.
    async fn make_visible(&self, messages: &[&Message]) {
        if messages.is_empty() {
            return;
        }
        let entries = messages.iter().enumerate().map(|(index, message)| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(index.to_string());
            let entry = entry.receipt_handle(handle(message)).visibility_timeout(0);
            entry.build().expect("id and handle are set")
        });
        let request = self.client.change_message_visibility_batch().queue_url(&self.queue.url);
        request.set_entries(Some(entries.collect())).send().await.expect("the queue answers");
    }
}

impl Stage {
    /// The function that reads it.
    pub(super) const fn function(self) -> &'static str {
        match self {
            Self::Source => "message-processor",
            Self::Intermediate => "failed-message-processor",
            Self::Annotation | Self::Final => "final-dlq-annotator",
        }
    }
}

fn body(message: &Message) -> &str {
    message.body().unwrap_or_default()
}

fn id(message: &Message) -> &str {
    message.message_id().expect("a received message has an id")
}

fn handle(message: &Message) -> &str {
    message.receipt_handle().expect("a received message has a receipt handle")
}

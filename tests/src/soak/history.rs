//! What was observed, by others than the functions: what was sent, received, called, passed on, deleted, and found in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};

use super::messages::Sent;

/// A message of the soak, by the number that its body carries; all its copies have the same.
pub type Key = usize;
/// One batch given to a function. [`crate::soak::poller`] puts it into the trace id, as Lambda would, and the SDK into every request.
pub type Invocation = u64;
/// Message attributes by name.
pub type Attributes = BTreeMap<String, Attribute>;

/// Everything that the ledger is told.
#[derive(Debug, Default)]
pub struct History {
    /// What producers sent; the place is the key.
    pub sent: Vec<Sent>,
    /// What the event source mappings received.
    pub deliveries: Vec<Delivery>,
    /// What the functions sent.
    pub sends: Vec<Send>,
    /// What the target was asked.
    pub calls: Vec<Call>,
    /// What the final DLQ holds at the end.
    pub finals: Vec<(Key, Content)>,
    /// Everything that must not be, and belongs to no message: a redirect that was followed, a process that died by itself.
    pub troubles: Vec<String>,
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// What producers send to.
    Source,
    /// Of failed messages.
    Intermediate,
    /// Of verdicts.
    Annotation,
    /// Of final records.
    Final,
}

/// A message's attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// E.g. `Number.int`.
    pub data_type: String,
    /// Its text or its bytes.
    pub value: Vec<u8>,
}

/// What a message is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Its body.
    pub body: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// `MessageGroupId`.
    pub group: Option<String>,
}

/// A message that was received and given to a function.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// With which batch.
    pub invocation: Invocation,
    /// From where.
    pub from: Stage,
    /// Which.
    pub key: Key,
    /// As it was received.
    pub content: Content,
    /// `ApproximateReceiveCount`.
    pub receives: u32,
    /// What became of it.
    pub end: End,
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The function said that it is done, and it was deleted.
    Deleted,
    /// The function said that it is done; the mapping's delete was lost on purpose.
    DeleteLost,
    /// The function said that it is done; it had become visible meanwhile, and the queue knew the receipt handle no more.
    VisibilityExpired,
    /// The function said that it is not done.
    Failed,
    /// The process was killed.
    Killed,
    /// The function did not answer in time.
    TimedOut,
    /// The mapping lost the batch before it called the function: the visibility timeout brings it back.
    Abandoned,
}

/// An entry of a batch that a function sent.
#[derive(Clone, Debug)]
pub struct Send {
    /// While it worked on which batch.
    pub invocation: Invocation,
    /// Where to.
    pub to: Stage,
    /// Which.
    pub key: Key,
    /// As it was sent.
    pub content: Content,
    /// `DelaySeconds`.
    pub delay_seconds: u64,
    /// Whether the queue took it.
    pub arrived: bool,
    /// What the function was told.
    pub told: Told,
    /// From the beginning of the invocation to the request.
    pub after: Duration,
}

/// What a function was told of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// That the queue took it.
    Confirmed,
    /// The same, but so late that it may not have listened any more.
    ConfirmedLate,
    /// That the queue did not take it, or nothing; why.
    NotConfirmed(&'static str),
}

/// A request to the target.
#[derive(Clone, Debug)]
pub struct Call {
    /// While the function worked on which batch.
    pub invocation: Invocation,
    /// Which.
    pub key: Key,
    /// Its body.
    pub body: String,
    /// `Idempotency-Key`.
    pub idempotency_key: String,
    /// `X-Redeliver-Attempt`.
    pub attempt: String,
    /// What was answered.
    pub answer: Answer,
}

/// What the target answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answer {
    /// 2xx.
    Success,
    /// A status that means: again.
    Transient,
    /// A status that means: never.
    Permanent,
    /// None that can be understood.
    Nothing,
}

impl Stage {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source queue",
            Self::Intermediate => "intermediate DLQ",
            Self::Annotation => "annotation queue",
            Self::Final => "final DLQ",
        }
    }
}

impl Attribute {
    /// A String attribute.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self { data_type: "String".to_owned(), value: text.as_bytes().to_vec() }
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.value).unwrap_or_default()
    }
}

impl Content {
    /// Of a received message.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let attributes = message.message_attributes().into_iter().flatten().map(|(name, attribute)| {
            let text = attribute.string_value().map(|text| text.as_bytes().to_vec());
            let bytes = attribute.binary_value().map(|bytes| bytes.as_ref().to_vec());
            let value = text.or(bytes).unwrap_or_default();
            (name.clone(), Attribute { data_type: attribute.data_type().to_owned(), value })
        });
        Self {
            body: message.body().unwrap_or_default().to_owned(),
            attributes: attributes.collect(),
            group: message
                .attributes()
                .and_then(|all| all.get(&MessageSystemAttributeName::MessageGroupId).cloned()),
        }
    }
}

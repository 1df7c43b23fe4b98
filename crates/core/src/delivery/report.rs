//! Send → report: a record is done when, and only when, its own send is confirmed.

use crate::delivery::deliver;
use crate::events::{Event, NotConfirmed};
use crate::message::{Content, NotSendable, OutgoingMessage, Timestamp};
use crate::ports::{Clock, Observer, QueueSender};

/// One record's message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// SQS's id of the record that it answers for.
    pub record: String,
    /// The message, or why SQS would refuse it.
    pub message: Result<OutgoingMessage, NotSendable>,
    /// What has happened once it is confirmed.
    pub confirmed: Event,
}

impl Outgoing {
    /// A message that answers for `record`.
    #[must_use]
    pub fn new(record: impl Into<String>, content: Content, confirmed: Event) -> Self {
        Self { record: record.into(), message: OutgoingMessage::new(content), confirmed }
    }
}

/// What is sent, for the log: `hand-off`, `re-send`, `verdict` or `final record`.
#[derive(Clone, Copy, Debug)]
pub struct Sends<'a, Q> {
    /// Where to.
    pub queue: &'a Q,
    /// What it is called.
    pub name: &'static str,
}

/// Sends all, tells the observer, and answers with the ids of the records whose send is not confirmed.
pub async fn send_and_report<Q: QueueSender>(
    sends: Sends<'_, Q>,
    clock: &impl Clock,
    observer: &impl Observer,
    deadline: Timestamp,
    outgoing: Vec<Outgoing>,
) -> Vec<String> {
    let mut failed = Vec::new();
    let mut report_failed = |record: String, code: String| {
        observer.observe(&Event::NotConfirmed(NotConfirmed {
            sqs_message_id: record.clone(),
            send: sends.name,
            code,
        }));
        failed.push(record);
    };
    let mut messages = Vec::with_capacity(outgoing.len());
    let mut waiting = Vec::with_capacity(outgoing.len());
    for Outgoing { record, message, confirmed } in outgoing {
        match message {
            Ok(message) => {
                messages.push(message);
                waiting.push((record, confirmed));
            }
            Err(not_sendable) => report_failed(record, not_sendable.code().to_owned()),
        }
    }
    let outcomes = deliver(sends.queue, clock, deadline, messages).await;
    for ((record, confirmed), outcome) in waiting.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) => observer.observe(&confirmed),
            Err(error) => report_failed(record, error.code),
        }
    }
    failed
}

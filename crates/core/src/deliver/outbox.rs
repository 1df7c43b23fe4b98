//! Send → report: a record is done when, and only when, its own send is confirmed.

use std::time::Duration;

use crate::deliver::{change_visibility, deliver, until};
use crate::events::Event;
use crate::limits::VisibilitySeconds;
use crate::message::{Content, NotSendable, OutgoingMessage, Timestamp};
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};

/// Kept free at the end of an invocation, for the answer.
const ANSWER_RESERVE: Duration = Duration::from_millis(500);

/// One record's message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// SQS's id of the record that it answers for.
    pub record: String,
    /// The message, or why SQS would refuse it.
    pub message: Result<OutgoingMessage, NotSendable>,
    /// What has happened once it is confirmed, if that is worth a line of its own.
    pub confirmed: Option<Event>,
}

impl Outgoing {
    /// A message that answers for `record`.
    #[must_use]
    pub fn new(record: impl Into<String>, content: Content, confirmed: impl Into<Option<Event>>) -> Self {
        Self { record: record.into(), message: OutgoingMessage::new(content), confirmed: confirmed.into() }
    }
}

/// A receive that stays on its queue, to be seen again later.
#[derive(Clone, Debug)]
pub struct Hiding {
    /// SQS's id of the record.
    pub record: String,
    pub receipt_handle: String,
    /// From the change on.
    pub visibility: VisibilitySeconds,
    /// What has happened once it is confirmed.
    pub confirmed: Event,
}

/// The sends of one invocation, each confirmed in time or reported.
#[derive(Clone, Copy, Debug)]
pub struct Outbox<'a, C, O> {
    clock: &'a C,
    observer: &'a O,
    answer_by: Timestamp,
}

impl<'a, C: Clock, O: Observer> Outbox<'a, C, O> {
    /// Of an invocation that ends at `deadline`: of what remains from now on, some is kept free for the answer.
    #[must_use]
    pub fn new(clock: &'a C, observer: &'a O, deadline: Timestamp) -> Self {
        Self { clock, observer, answer_by: keep_free(ANSWER_RESERVE, clock.now(), deadline) }
    }

    /// Hides all and reports each to the observer. Whatever comes of it the records are not done: one whose change is
    /// not confirmed comes back when its visibility timeout ends. Answers with their ids.
    pub async fn hide(&self, queue: &impl VisibilityControl, hidings: Vec<Hiding>) -> Vec<String> {
        let (waiting, receives): (Vec<_>, Vec<_>) = hidings
            .into_iter()
            .map(|Hiding { record, receipt_handle, visibility, confirmed }| {
                ((record, confirmed), (receipt_handle, visibility))
            })
            .unzip();
        let outcomes = change_visibility(queue, self.clock, self.answer_by, receives).await;
        let records = waiting.into_iter().zip(outcomes).map(|((record, confirmed), outcome)| {
            match outcome {
                Ok(()) => self.observer.observe(&confirmed),
                Err(error) => self.report_not_confirmed(&record, "visibility", error.code),
            }
            record
        });
        records.collect()
    }

    /// Sends messages on to wait for another 900 s at most, with one event for all of them: a message with a delay of
    /// hours hops dozens of times. Answers with the ids of the records whose hop is not confirmed.
    pub async fn hop(&self, queue: &impl QueueSender, hops: Vec<Outgoing>) -> Vec<String> {
        let all = hops.len();
        let failed = self.send(queue, "hop", hops).await;
        // 12 hours are 48 hops. A line for each would be most of what such a retry costs.
        let messages = u32::try_from(all - failed.len()).unwrap_or(u32::MAX);
        if messages > 0 {
            self.observer.observe(&Event::Hopped { messages });
        }
        failed
    }

    /// Tells of a send.
    pub fn report(&self, event: &Event) {
        self.observer.observe(event);
    }

    fn report_not_confirmed(&self, record: &str, send: &'static str, code: String) {
        let sqs_message_id = record.to_owned();
        self.observer.observe(&Event::NotConfirmed { sqs_message_id, send, code });
    }

    /// Sends all, reports each to the observer, and answers with the ids of the records whose send is not confirmed.
    ///
    /// What is sent has a name, for the log: `hand-off`, `re-send`, `verdict` or `final record`.
    pub async fn send(
        &self,
        queue: &impl QueueSender,
        name: &'static str,
        outgoing: Vec<Outgoing>,
    ) -> Vec<String> {
        let mut failed = Vec::new();
        let mut report_failed = |record: String, code: String| {
            failed.push(record.clone());
            Event::NotConfirmed { sqs_message_id: record, send: name, code }
        };
        let mut messages = Vec::with_capacity(outgoing.len());
        let mut waiting = Vec::with_capacity(outgoing.len());
        for Outgoing { record, message, confirmed } in outgoing {
            match message {
                Ok(message) => {
                    messages.push(message);
                    waiting.push((record, confirmed));
                }
                Err(not_sendable) => {
                    self.observer.observe(&report_failed(record, not_sendable.code().to_owned()));
                }
            }
        }
        // What SQS would refuse was taken out above: it fails alone, and does not keep the others from going.
        let outcomes = deliver(queue, self.clock, self.answer_by, messages).await;
        let mut events = Vec::with_capacity(waiting.len());
        for ((record, confirmed), outcome) in waiting.into_iter().zip(outcomes) {
            events.extend(match outcome {
                Ok(_) => confirmed,
                Err(error) => Some(report_failed(record, error.code)),
            });
        }
        // In one write, after all outcomes are known: an event says what has happened, never what was tried.
        self.observer.observe_all(&events);
        failed
    }
}

/// When to end so that `reserve` is left before `deadline`, but never more than half of what remains: a short
/// invocation must do some work too.
#[must_use]
pub fn keep_free(reserve: Duration, now: Timestamp, deadline: Timestamp) -> Timestamp {
    deadline - reserve.min(until(now, deadline) / 2)
}

//! Send → report: a record is confirmed when, and only when, SQS has confirmed its own send.

use std::time::Duration;

use crate::deliver::{change_visibility, deliver, until};
use crate::events::Event;
use crate::limits::VisibilitySeconds;
use crate::message::{Confirmed, Content, NotSendable, OutgoingMessage, Receipt, Timestamp};
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};

/// Kept free at the end of an invocation, for the answer.
const ANSWER_RESERVE: Duration = Duration::from_millis(500);

/// A message to send, with the receipt of the record that it came from.
#[derive(Debug)]
#[must_use = "the record is received again unless its message is sent"]
pub struct Outgoing {
    pub receipt: Receipt,
    /// The message, or why SQS would refuse it.
    pub message: Result<OutgoingMessage, NotSendable>,
    /// The event to report once SQS has confirmed the send, if it has one of its own.
    pub confirmed: Option<Event>,
}

impl Outgoing {
    /// The message of the record that `receipt` belongs to.
    pub fn new(receipt: Receipt, content: Content, confirmed: impl Into<Option<Event>>) -> Self {
        Self { receipt, message: OutgoingMessage::new(content), confirmed: confirmed.into() }
    }
}

/// A record that stays on its queue and is hidden for a while.
#[derive(Debug)]
#[must_use = "the record comes back too early unless it is hidden"]
pub struct Hiding {
    pub receipt: Receipt,
    /// Counted from the change.
    pub visibility: VisibilitySeconds,
    /// The event to report once SQS has confirmed the change.
    pub confirmed: Event,
}

/// The sends of one invocation.
#[derive(Clone, Copy, Debug)]
pub struct Outbox<'a, C, O> {
    clock: &'a C,
    observer: &'a O,
    answer_by: Timestamp,
}

impl<'a, C: Clock, O: Observer> Outbox<'a, C, O> {
    /// For an invocation that ends at `deadline`. Half a second of it, or half of a shorter rest, is kept for the answer.
    #[must_use]
    pub fn new(clock: &'a C, observer: &'a O, deadline: Timestamp) -> Self {
        Self { clock, observer, answer_by: keep_free(ANSWER_RESERVE, clock.now(), deadline) }
    }

    /// Sends all messages and reports each to the observer. `name` is for the log: `hand-off`, `re-send`, `verdict`,
    /// `hop` or `final record`.
    pub async fn send(
        &self,
        queue: &impl QueueSender,
        name: &'static str,
        outgoing: Vec<Outgoing>,
    ) -> Vec<Confirmed> {
        let mut messages = Vec::with_capacity(outgoing.len());
        let mut waiting = Vec::with_capacity(outgoing.len());
        for Outgoing { receipt, message, confirmed } in outgoing {
            match message {
                Ok(message) => {
                    messages.push(message);
                    waiting.push((receipt, confirmed));
                }
                // Not sent with the others: SQS would refuse the batch.
                Err(not_sendable) => {
                    self.report_not_confirmed(&receipt, name, not_sendable.code().to_owned())
                }
            }
        }
        let outcomes = deliver(queue, self.clock, self.answer_by, messages).await;
        let mut done = Vec::with_capacity(waiting.len());
        let mut events = Vec::with_capacity(waiting.len());
        for ((receipt, confirmed), outcome) in waiting.into_iter().zip(outcomes) {
            match outcome {
                Ok(_) => {
                    events.extend(confirmed);
                    done.push(receipt.confirm());
                }
                Err(error) => events.push(not_confirmed(&receipt, name, error.code)),
            }
        }
        // In one write, after all outcomes are known: an event says what has happened, never what was tried.
        self.observer.observe_all(&events);
        done
    }

    /// Sends messages on to wait for another 900 s at most, and reports one event for all of them: a message with a delay
    /// of hours hops dozens of times.
    pub async fn hop(&self, queue: &impl QueueSender, hops: Vec<Outgoing>) -> Vec<Confirmed> {
        let done = self.send(queue, "hop", hops).await;
        // 12 hours are 48 hops. A line for each would be most of what such a retry costs.
        let messages = u32::try_from(done.len()).unwrap_or(u32::MAX);
        if messages > 0 {
            self.observer.observe(&Event::Hopped { messages });
        }
        done
    }

    /// Hides all records and reports each to the observer. They are not done, hidden or not: a record whose change is not
    /// confirmed comes back when its visibility timeout ends.
    pub async fn hide(&self, queue: &impl VisibilityControl, hidings: Vec<Hiding>) {
        let receives = hidings.iter().map(|hiding| (hiding.receipt.handle().to_owned(), hiding.visibility));
        let outcomes = change_visibility(queue, self.clock, self.answer_by, receives.collect()).await;
        for (Hiding { receipt, confirmed, .. }, outcome) in hidings.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => self.observer.observe(&confirmed),
                Err(error) => self.report_not_confirmed(&receipt, "visibility", error.code),
            }
        }
    }

    /// Reports an event of the sends.
    pub fn report(&self, event: &Event) {
        self.observer.observe(event);
    }

    fn report_not_confirmed(&self, receipt: &Receipt, send: &'static str, code: String) {
        self.observer.observe(&not_confirmed(receipt, send, code));
    }
}

fn not_confirmed(receipt: &Receipt, send: &'static str, code: String) -> Event {
    Event::NotConfirmed { sqs_message_id: receipt.sqs_message_id().to_owned(), send, code }
}

/// When to end so that `reserve` is left before `deadline`, but never more than half of what remains: a short
/// invocation must do some work too.
#[must_use]
pub fn keep_free(reserve: Duration, now: Timestamp, deadline: Timestamp) -> Timestamp {
    deadline - reserve.min(until(now, deadline) / 2)
}

//! Delivery: pack → send → retry → one outcome per message. Changes of visibility work the same way.

pub mod deletion;
mod retries;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use retries::settle_batch;

use crate::events::Event;
use crate::fault::EntryOutcome;
use crate::limits::{BATCH_ENTRIES_MAX, VisibilitySeconds};
use crate::message::packing::{Batch, pack_batches};
use crate::message::{Confirmed, Content, NotSendable, OutgoingMessage, Receipt, Timestamp};
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};
use crate::span_context::SpanContext;
use crate::trace::messaging::SendSpan;

/// Batches in flight at the same time.
const CONCURRENT_BATCHES: usize = 8;
/// Limit on the sends of one message that are not known to be refused: each after the first may create a copy.
pub const MAX_AMBIGUOUS_SENDS: u32 = 2;

/// Delay of a notice, and the time in which its message is hidden. No one must act on it earlier: the message would be
/// hidden again, without a notice.
pub(crate) const NOTICE_DELAY: Duration = Duration::from_secs(60);

/// Sends all messages before `deadline`. One outcome per message, in order: the SQS message id of each confirmed one.
///
/// A message that was refused for now, or did not reach SQS, is sent again while time remains. One that *may* have been
/// accepted (see [`Fault::may_have_succeeded`](crate::fault::Fault::may_have_succeeded)) is sent only once more: each
/// such send may create a copy, and a service that accepts everything without answering must not cause a flood of
/// copies. Sender faults are final. A message without an answer at the deadline is not confirmed.
pub async fn deliver(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<EntryOutcome<String>> {
    let delivered = deliver_counted(queue, clock, deadline, messages).await;
    delivered.into_iter().map(|delivered| delivered.outcome).collect()
}

/// The outcome of one entry, and the number of its possible copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOutcome<R> {
    pub outcome: EntryOutcome<R>,
    /// Requests that may have been carried out, the confirmed one included: the maximum number of messages in the
    /// queue.
    pub perhaps_done: u32,
}

/// [`deliver`], for callers that show users the possible number of copies.
pub async fn deliver_counted(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<DeliveryOutcome<String>> {
    let batches = pack_batches(&messages).into_iter().map(|batch| async move {
        // Each batch has its own retries: a refusal in one must not delay the entries of another.
        let request = |places| send_entries(queue, batch, places);
        settle_batch(batch.entries().len(), MAX_AMBIGUOUS_SENDS, request, clock, deadline).await
    });
    join_batches(batches).await
}

/// Changes the visibility of receives, by receipt handle, before `deadline`: like [`deliver`], one outcome each, in
/// order. Changes are idempotent, so they are retried while time remains.
pub async fn change_visibility(
    queue: &impl VisibilityControl,
    clock: &impl Clock,
    deadline: Timestamp,
    receives: Vec<(String, VisibilitySeconds)>,
) -> Vec<EntryOutcome<()>> {
    let batches = receives.chunks(BATCH_ENTRIES_MAX).map(|chunk| async move {
        let request = |places: Vec<usize>| async move {
            let some: Vec<_> = places.into_iter().map(|place| chunk[place].clone()).collect();
            queue.change_visibility_batch(&some).await
        };
        settle_batch(chunk.len(), u32::MAX, request, clock, deadline).await
    });
    join_batches(batches).await.into_iter().map(|changed| changed.outcome).collect()
}

/// Repeats an idempotent request, alone in its batch, until it succeeds, another try cannot help, or the deadline.
///
/// # Errors
/// The last one, if none of the requests succeeded.
pub async fn settle_one<R, F: Future<Output = EntryOutcome<R>>>(
    request: impl Fn() -> F,
    clock: &impl Clock,
    deadline: Timestamp,
) -> EntryOutcome<R> {
    let alone = |_| {
        let request = request();
        async { vec![request.await] }
    };
    let settled = settle_batch(1, u32::MAX, alone, clock, deadline).await;
    settled.into_iter().map(|delivered| delivered.outcome).next().expect("one outcome for one entry")
}

/// One request for the entries of the batch at these positions.
async fn send_entries(
    queue: &impl QueueSender,
    batch: Batch<'_>,
    places: Vec<usize>,
) -> Vec<EntryOutcome<String>> {
    let entries = batch.entries();
    if places.len() == entries.len() {
        return queue.send_batch(batch).await;
    }
    let some: Vec<_> = places.into_iter().map(|place| entries[place].clone()).collect();
    // Part of a batch fits in one batch.
    queue.send_batch(pack_batches(&some)[0]).await
}

/// The outcomes of all batches, in order. A slow batch delays the others only if eight are slow at once.
async fn join_batches<R>(
    batches: impl Iterator<Item = impl Future<Output = Vec<DeliveryOutcome<R>>>>,
) -> Vec<DeliveryOutcome<R>> {
    let numbered: Vec<_> =
        batches.enumerate().map(|(number, batch)| async move { (number, batch.await) }).collect();
    // `buffered` would keep the order by itself, but it starts no ninth batch while the first one waits.
    let mut outcomes: Vec<_> = stream::iter(numbered).buffer_unordered(CONCURRENT_BATCHES).collect().await;
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
}

/// From `now` to `then`; zero if `then` is past.
#[must_use]
pub fn time_until(now: Timestamp, then: Timestamp) -> Duration {
    (then - now).to_std().unwrap_or(Duration::ZERO)
}

/// Time at the end of an invocation that is reserved for its answer.
const ANSWER_RESERVE: Duration = Duration::from_millis(500);

/// A message to send, with the receipt of the record that it came from.
#[derive(Debug)]
#[must_use = "the record is received again unless its message is sent"]
pub struct Outgoing {
    pub receipt: Receipt,
    /// The message, or why SQS would refuse it.
    pub message: Result<OutgoingMessage, NotSendable>,
    /// Reported once SQS has confirmed the send; `None` if the send has no event of its own.
    pub confirmed: Option<Event>,
    /// The span that the send is part of, if spans are written.
    pub span: Option<SpanContext>,
}

impl Outgoing {
    /// The message made of the record that `receipt` belongs to.
    pub fn new(receipt: Receipt, content: Content, confirmed: impl Into<Option<Event>>) -> Self {
        Self { receipt, message: OutgoingMessage::new(content), confirmed: confirmed.into(), span: None }
    }

    /// The send as part of a span.
    pub fn with_span(self, span: Option<SpanContext>) -> Self {
        Self { span, ..self }
    }
}

/// A record to hide on its queue for a while.
#[derive(Debug)]
#[must_use = "the record comes back too early unless it is hidden"]
pub struct Hiding {
    pub receipt: Receipt,
    /// Counted from the change.
    pub visibility: VisibilitySeconds,
    /// Reported once SQS has confirmed the change; `None` if nothing has happened to the message.
    pub confirmed: Option<Event>,
}

/// The sends of one invocation.
#[derive(Clone, Copy, Debug)]
pub struct Outbox<'a, C, O> {
    clock: &'a C,
    observer: &'a O,
    answer_by: Timestamp,
}

impl<'a, C: Clock, O: Observer> Outbox<'a, C, O> {
    /// The sends of an invocation that ends at `deadline`. The last 500 ms, or half of what remains if that is less,
    /// are reserved for its answer.
    #[must_use]
    pub fn new(clock: &'a C, observer: &'a O, deadline: Timestamp) -> Self {
        Self { clock, observer, answer_by: stop_time(ANSWER_RESERVE, clock.now(), deadline) }
    }

    /// Sends all messages and reports each to the observer. `name` is for the log: `hand-off`, `re-send`, `verdict`,
    /// `block`, `hop` or `final record`.
    pub async fn send(
        &self,
        queue: &impl QueueSender,
        name: &'static str,
        outgoing: Vec<Outgoing>,
    ) -> Vec<Confirmed> {
        let mut messages = Vec::with_capacity(outgoing.len());
        let mut waiting = Vec::with_capacity(outgoing.len());
        let tracer = self.observer.tracer();
        let started = tracer.map(|_| self.clock.now());
        let mut sends = Vec::new();
        for Outgoing { receipt, message, confirmed, span } in outgoing {
            match message {
                Ok(message) => {
                    sends.extend(span.map(|parent| (messages.len(), parent, message.content().delay)));
                    messages.push(message);
                    waiting.push((receipt, confirmed));
                }
                // Not sent with the others: SQS would refuse the whole batch.
                Err(not_sendable) => {
                    self.report_not_confirmed(&receipt, name, not_sendable.code().to_owned())
                }
            }
        }
        let outcomes = deliver(queue, self.clock, self.answer_by, messages).await;
        if let Some((tracer, started)) = tracer.zip(started) {
            let ended = self.clock.now();
            for (place, parent, delay) in sends {
                let send = SendSpan { queue: queue.name(), name, delay, started, ended };
                tracer.record_span(send.into_span(tracer.child_span(parent), parent, &outcomes[place]));
            }
        }
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
        // In one write, once all outcomes are known: an event reports what happened, never what was tried.
        self.observer.observe_all(&events);
        done
    }

    /// Sends hops, and reports one event for all of them: a message with a delay of hours hops dozens of times.
    pub async fn send_hops(&self, queue: &impl QueueSender, hops: Vec<Outgoing>) -> Vec<Confirmed> {
        let done = self.send(queue, "hop", hops).await;
        // 12 hours are 48 hops. A log line for each would be most of the cost of such a retry.
        let messages = u32::try_from(done.len()).unwrap_or(u32::MAX);
        if messages > 0 {
            self.observer.observe(&Event::Hopped { messages });
        }
        done
    }

    /// Hides all records and reports each to the observer. None of them is done: a record whose change is not confirmed
    /// comes back when its visibility timeout ends.
    pub async fn hide_records(&self, queue: &impl VisibilityControl, hidings: Vec<Hiding>) {
        let receives = hidings.iter().map(|hiding| (hiding.receipt.handle().to_owned(), hiding.visibility));
        let outcomes = change_visibility(queue, self.clock, self.answer_by, receives.collect()).await;
        for (Hiding { receipt, confirmed, .. }, outcome) in hidings.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => confirmed.iter().for_each(|event| self.observer.observe(event)),
                Err(error) => self.report_not_confirmed(&receipt, "visibility", error.code),
            }
        }
    }

    /// Hides each record of a blocked group once SQS has confirmed its notice: a hidden one without a notice would block its
    /// group unseen. None of them is done.
    pub async fn block_groups(
        &self,
        blocked: &impl QueueSender,
        source_queue: &impl VisibilityControl,
        notices: Vec<(Outgoing, VisibilitySeconds)>,
    ) {
        let visible_at = self.clock.now() + NOTICE_DELAY;
        let (notices, hidden): (Vec<_>, Vec<_>) = notices.into_iter().unzip();
        let ids = notices.iter().map(|notice| notice.receipt.sqs_message_id().to_owned());
        let hidden: BTreeMap<_, _> = ids.zip(hidden).collect();
        let hiding = |confirmed: Confirmed| {
            let receipt = confirmed.into_receipt();
            let visibility = hidden[receipt.sqs_message_id()];
            Hiding { receipt, visibility, confirmed: None }
        };
        let sent = self.send(blocked, "block", notices).await;
        let before_it_is_visible = Self { answer_by: self.answer_by.min(visible_at), ..*self };
        before_it_is_visible.hide_records(source_queue, sent.into_iter().map(hiding).collect()).await;
    }

    /// The time by the outbox's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time by which the invocation must answer.
    #[must_use]
    pub fn answer_by(&self) -> Timestamp {
        self.answer_by
    }

    fn report_not_confirmed(&self, receipt: &Receipt, send: &'static str, code: String) {
        self.observer.observe(&not_confirmed(receipt, send, code));
    }
}

fn not_confirmed(receipt: &Receipt, send: &'static str, code: String) -> Event {
    Event::NotConfirmed { sqs_message_id: receipt.sqs_message_id().to_owned(), send, code }
}

/// The time to stop so that `reserve` is left before `deadline`, but at most half of what remains: a short invocation
/// must do some work, too.
#[must_use]
pub fn stop_time(reserve: Duration, now: Timestamp, deadline: Timestamp) -> Timestamp {
    deadline - reserve.min(time_until(now, deadline) / 2)
}

#[cfg(test)]
mod tests;

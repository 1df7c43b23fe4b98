//! Delivery: pack → send → retry → one outcome per message. Visibility changes work the same way.

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
use crate::message::{Confirmed, Content, OutgoingMessage, Receipt, Timestamp, UnsendableReason};
use crate::ports::{Clock, Observer, QueueSender, VisibilityControl};
use crate::span_context::SpanContext;
use crate::trace::messaging::SendSpan;

/// Maximum number of batches in flight.
const CONCURRENT_BATCHES: usize = 8;
/// Maximum number of sends per message, not counting those that SQS is known to have refused: each one after the first
/// may create a copy.
pub const MAX_AMBIGUOUS_SENDS: u32 = 2;

/// Delay of a notice, so that the message is hidden before the notice can be read. If a user acted on the notice before
/// that, the message would be hidden again afterwards, without a notice.
pub(crate) const NOTICE_DELAY: Duration = Duration::from_secs(60);

/// Sends all messages before `deadline`. Returns one outcome per message, in order: the SQS message id if the send is
/// confirmed.
///
/// A message that SQS refused temporarily, or that did not reach SQS, is sent again while time remains. A message that
/// *may* have been accepted (see [`Fault::may_have_succeeded`](crate::fault::Fault::may_have_succeeded)) is sent only
/// once more: each such send may create a copy, and a service that accepts every send without responding must not cause
/// a flood of copies. Sender faults are final. A message without a response by the deadline is not confirmed.
pub async fn deliver(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<EntryOutcome<String>> {
    let delivered = deliver_and_count_copies(queue, clock, deadline, messages).await;
    delivered.into_iter().map(|delivered| delivered.outcome).collect()
}

/// The outcome of an entry, and its number of possible copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOutcome<R> {
    pub outcome: EntryOutcome<R>,
    /// Number of requests that may have succeeded, including the confirmed one: the maximum number of copies in the
    /// queue.
    pub ambiguous_sends: u32,
}

/// Like [`deliver`], with the number of possible copies, for callers that show it to users.
pub async fn deliver_and_count_copies(
    queue: &impl QueueSender,
    clock: &impl Clock,
    deadline: Timestamp,
    messages: Vec<OutgoingMessage>,
) -> Vec<DeliveryOutcome<String>> {
    let batches = pack_batches(&messages).into_iter().map(|batch| async move {
        // Each batch is retried separately: a refusal in one must not delay the entries of another.
        let request = |places| send_entries(queue, batch, places);
        settle_batch(batch.entries().len(), MAX_AMBIGUOUS_SENDS, request, clock, deadline).await
    });
    join_batches(batches).await
}

/// Changes visibility timeouts, by receipt handle, before `deadline`. Returns one outcome per receive, in order.
/// Changes are idempotent, so they are retried while time remains.
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

/// Repeats an idempotent request for a single entry until it succeeds, a retry cannot help, or the deadline passes.
///
/// # Errors
/// Returns the last error if none of the requests succeeded.
pub async fn settle_one<R, F: Future<Output = EntryOutcome<R>>>(
    request: impl Fn() -> F,
    clock: &impl Clock,
    deadline: Timestamp,
) -> EntryOutcome<R> {
    let send_alone = |_| {
        let request = request();
        async { vec![request.await] }
    };
    let settled = settle_batch(1, u32::MAX, send_alone, clock, deadline).await;
    settled.into_iter().map(|delivered| delivered.outcome).next().expect("one outcome for one entry")
}

/// Sends the batch's entries at these positions in one request.
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
    // A part of a batch always fits in one batch.
    queue.send_batch(pack_batches(&some)[0]).await
}

/// Returns the outcomes of all batches, in order. Slow batches delay the others only if eight are slow at the same
/// time.
async fn join_batches<R>(
    batches: impl Iterator<Item = impl Future<Output = Vec<DeliveryOutcome<R>>>>,
) -> Vec<DeliveryOutcome<R>> {
    let numbered: Vec<_> =
        batches.enumerate().map(|(number, batch)| async move { (number, batch.await) }).collect();
    // `buffered` would keep the order, but it does not start a ninth batch while the first one waits.
    let mut outcomes: Vec<_> = stream::iter(numbered).buffer_unordered(CONCURRENT_BATCHES).collect().await;
    outcomes.sort_unstable_by_key(|(number, _)| *number);
    outcomes.into_iter().flat_map(|(_, outcomes)| outcomes).collect()
}

/// Returns the time from `now` to `then`; zero if `then` has passed.
#[must_use]
pub fn time_until(now: Timestamp, then: Timestamp) -> Duration {
    (then - now).to_std().unwrap_or(Duration::ZERO)
}

/// Time reserved for the response, at the end of an invocation.
const ANSWER_RESERVE: Duration = Duration::from_millis(500);

/// A message to send, with the receipt of its source record.
#[derive(Debug)]
#[must_use = "the record is received again unless its message is sent"]
pub struct PendingSend {
    pub receipt: Receipt,
    /// The message, or the reason why SQS would refuse to accept it.
    pub message: Result<OutgoingMessage, UnsendableReason>,
    /// The event to report once SQS has confirmed the send, if any.
    pub confirmed: Option<Event>,
    /// The parent span of the send, if spans are recorded.
    pub span: Option<SpanContext>,
}

impl PendingSend {
    /// Creates a message whose source record has this receipt.
    pub fn new(receipt: Receipt, content: Content, confirmed: impl Into<Option<Event>>) -> Self {
        Self { receipt, message: OutgoingMessage::new(content), confirmed: confirmed.into(), span: None }
    }

    /// Sets the parent span of the send.
    pub fn with_span(self, span: Option<SpanContext>) -> Self {
        Self { span, ..self }
    }
}

/// A record to hide on its queue.
#[derive(Debug)]
#[must_use = "the record becomes visible too early unless it is hidden"]
pub struct VisibilityChange {
    pub receipt: Receipt,
    /// The new visibility timeout, counted from the change.
    pub visibility: VisibilitySeconds,
    /// The event to report once SQS has confirmed the change, if any.
    pub confirmed: Option<Event>,
}

/// The sends and visibility changes of one invocation.
#[derive(Clone, Copy, Debug)]
pub struct Outbox<'a, C, O> {
    clock: &'a C,
    observer: &'a O,
    answer_by: Timestamp,
}

impl<'a, C: Clock, O: Observer> Outbox<'a, C, O> {
    /// Creates an outbox for an invocation that ends at `deadline`. The last 500 ms, or half of the remaining time if
    /// that is less, are reserved for its response.
    #[must_use]
    pub fn new(clock: &'a C, observer: &'a O, deadline: Timestamp) -> Self {
        Self { clock, observer, answer_by: stop_time(ANSWER_RESERVE, clock.now(), deadline) }
    }

    /// Sends all messages, and reports each outcome to the observer. `name` appears in the log: `hand-off`, `re-send`,
    /// `verdict`, `block`, `hop` or `final record`.
    pub async fn send(
        &self,
        queue: &impl QueueSender,
        name: &'static str,
        outgoing: Vec<PendingSend>,
    ) -> Vec<Confirmed> {
        let mut messages = Vec::with_capacity(outgoing.len());
        let mut waiting = Vec::with_capacity(outgoing.len());
        let tracer = self.observer.tracer();
        let started = tracer.map(|_| self.clock.now());
        let mut sends = Vec::new();
        for PendingSend { receipt, message, confirmed, span } in outgoing {
            match message {
                Ok(message) => {
                    sends.extend(span.map(|parent| (messages.len(), parent, message.content().delay)));
                    messages.push(message);
                    waiting.push((receipt, confirmed));
                }
                // SQS would refuse the whole batch because of this message.
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
                Err(error) => events.push(not_confirmed_event(&receipt, name, error.code)),
            }
        }
        // Events are written together, once all outcomes are known: an event reports a result, never an attempt.
        self.observer.observe_all(&events);
        done
    }

    /// Sends hops, and reports them all in one event.
    pub async fn send_hops(&self, queue: &impl QueueSender, hops: Vec<PendingSend>) -> Vec<Confirmed> {
        let done = self.send(queue, "hop", hops).await;
        // A delay of 12 hours takes 48 hops. One log line per hop would make up most of the cost of such a retry.
        let messages = u32::try_from(done.len()).unwrap_or(u32::MAX);
        if messages > 0 {
            self.observer.observe(&Event::Hopped { messages });
        }
        done
    }

    /// Hides all records, and reports each outcome to the observer. No record is completed: if a change is not
    /// confirmed, its record is received again after its current visibility timeout.
    pub async fn hide_records(&self, queue: &impl VisibilityControl, hidings: Vec<VisibilityChange>) {
        let receives = hidings.iter().map(|hiding| (hiding.receipt.handle().to_owned(), hiding.visibility));
        let outcomes = change_visibility(queue, self.clock, self.answer_by, receives.collect()).await;
        for (VisibilityChange { receipt, confirmed, .. }, outcome) in hidings.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => confirmed.iter().for_each(|event| self.observer.observe(event)),
                Err(error) => self.report_not_confirmed(&receipt, "visibility", error.code),
            }
        }
    }

    /// Hides each record of a blocked group once SQS has confirmed its notice: a hidden record without a notice would
    /// block its group unnoticed. No record is completed.
    pub async fn block_groups(
        &self,
        blocked: &impl QueueSender,
        source_queue: &impl VisibilityControl,
        notices: Vec<(PendingSend, VisibilitySeconds)>,
    ) {
        let visible_at = self.clock.now() + NOTICE_DELAY;
        let (notices, visibilities): (Vec<_>, Vec<_>) = notices.into_iter().unzip();
        let ids = notices.iter().map(|notice| notice.receipt.sqs_message_id().to_owned());
        let visibilities: BTreeMap<_, _> = ids.zip(visibilities).collect();
        let hiding = |confirmed: Confirmed| {
            let receipt = confirmed.into_receipt();
            let visibility = visibilities[receipt.sqs_message_id()];
            VisibilityChange { receipt, visibility, confirmed: None }
        };
        let sent = self.send(blocked, "block", notices).await;
        let before_notice_is_visible = Self { answer_by: self.answer_by.min(visible_at), ..*self };
        before_notice_is_visible.hide_records(source_queue, sent.into_iter().map(hiding).collect()).await;
    }

    /// Returns the current time of the outbox's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the deadline for the invocation's response.
    #[must_use]
    pub fn response_deadline(&self) -> Timestamp {
        self.answer_by
    }

    fn report_not_confirmed(&self, receipt: &Receipt, send: &'static str, code: String) {
        self.observer.observe(&not_confirmed_event(receipt, send, code));
    }
}

fn not_confirmed_event(receipt: &Receipt, send: &'static str, code: String) -> Event {
    Event::NotConfirmed { sqs_message_id: receipt.sqs_message_id().to_owned(), send, code }
}

/// Returns the time to stop work, `reserve` before `deadline`. At most half of the remaining time is reserved, so that
/// even a short invocation can do some work.
#[must_use]
pub fn stop_time(reserve: Duration, now: Timestamp, deadline: Timestamp) -> Timestamp {
    deadline - reserve.min(time_until(now, deadline) / 2)
}

#[cfg(test)]
mod tests;

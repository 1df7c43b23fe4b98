//! Messages that came out of a queue and are hidden. Their visibility timeout is extended by two minutes at a time
//! while the caller works; by up to half an hour at a time if SQS is too slow for that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt as _, pending};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{pin_mut, select_biased};
use redeliver_core::deliver::time_until;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, EntryOutcome, Queue};

use super::{MESSAGES_OF_A_REQUEST, REQUESTS_MAX, ReceiveRequest};

/// The time for which messages are hidden at first, 2 minutes: short, so that they are soon visible again if this
/// program is killed. Extensions are requested after half of it, which leaves time for several tries.
pub const HIDDEN: Duration = Duration::from_secs(120);
/// The longest that messages are hidden at a time. 120,000 messages then need 14 requests per second to stay hidden.
const HIDDEN_MAX: Duration = Duration::from_secs(1800);
/// An extension that waits for so long shows that SQS is too slow for the number of messages that are held.
const LATE: Duration = Duration::from_secs(15);
/// Before a failed extension is asked for again.
const PAUSE: Duration = Duration::from_secs(5);
/// "ChangeMessageVisibility", Amazon SQS API Reference: 12 hours from the receive, whatever was changed meanwhile.
const SINCE_RECEIVE_MAX: Duration = VisibilitySeconds::MAX.duration();

/// The newest receive of each message that is held.
pub(super) struct HiddenMessages<'a, Q, C> {
    queue: &'a Q,
    clock: &'a C,
    receives: BTreeMap<String, HeldReceive>,
    /// In the order in which they are to be extended.
    due: BTreeSet<(Timestamp, String)>,
    extensions: FuturesUnordered<BoxFuture<'a, Vec<ExtensionResult>>>,
    /// Messages are hidden for so long at a time.
    hidden: Duration,
    /// Messages that could not be kept hidden.
    reappeared: u64,
}

struct HeldReceive {
    handle: String,
    /// The time of the request: SQS starts to count later, never earlier.
    since: Timestamp,
    until: Timestamp,
    /// For so long at a time.
    hidden: Duration,
    /// When its next extension is due; `None` while one is under way, or if none is possible.
    due: Option<Timestamp>,
}

struct ExtensionResult {
    id: String,
    handle: String,
    until: Timestamp,
    hidden: Duration,
    outcome: EntryOutcome<()>,
}

impl<'a, Q: Queue, C: Clock> HiddenMessages<'a, Q, C> {
    pub(super) fn new(queue: &'a Q, clock: &'a C) -> Self {
        let (receives, due) = (BTreeMap::new(), BTreeSet::new());
        let extensions = FuturesUnordered::new();
        Self { queue, clock, receives, due, extensions, hidden: HIDDEN, reappeared: 0 }
    }

    /// The time for which a receive is to hide its messages.
    pub(super) fn hide_duration(&self) -> Duration {
        self.hidden
    }

    /// True if extensions wait: what is held comes before what could be received.
    pub(super) fn is_late(&self) -> bool {
        let now = self.clock.now();
        self.due.first().is_some_and(|(due, _)| now > *due + LATE)
    }

    /// Messages that could not be kept hidden: SQS answered too slowly, or refused.
    pub(super) fn reappeared_count(&self) -> u64 {
        self.reappeared
    }

    /// Holds a message that came out, perhaps again: only the newest handle is valid.
    pub(super) fn hold_message(
        &mut self,
        id: &str,
        handle: &str,
        ReceiveRequest { at, hidden }: ReceiveRequest,
    ) {
        self.release_message(id);
        // By the moment of the request, since SQS begins to count somewhere between that and the answer: early is safe.
        let (until, due) = (at + hidden, at + hidden / 2);
        let received = HeldReceive { handle: handle.to_owned(), since: at, until, hidden, due: Some(due) };
        self.receives.insert(id.to_owned(), received);
        self.due.insert((due, id.to_owned()));
    }

    /// It is deleted.
    pub(super) fn release_message(&mut self, id: &str) {
        if let Some(due) = self.receives.remove(id).and_then(|received| received.due) {
            self.due.remove(&(due, id.to_owned()));
        }
    }

    /// True if no other program can have received it since.
    pub(super) fn is_hidden(&self, id: &str) -> bool {
        self.receives.get(id).is_some_and(|received| self.clock.now() < received.until)
    }

    pub(super) fn hidden_until(&self, id: &str) -> Option<Timestamp> {
        self.receives.get(id).map(|received| received.until)
    }

    /// The newest one.
    pub(super) fn newest_handle(&self, id: &str) -> Option<&str> {
        self.receives.get(id).map(|received| received.handle.as_str())
    }

    /// Extends messages that are due. Never ends if nothing is held.
    pub(super) async fn extend_next(&mut self) {
        self.extend_due();
        let next = self.due.first().filter(|_| self.extensions.len() < REQUESTS_MAX);
        let pause = match next {
            Some((due, _)) => Either::Left(self.clock.sleep(time_until(self.clock.now(), *due))),
            None => Either::Right(pending()),
        };
        let pause = pause.fuse();
        pin_mut!(pause);
        select_biased! {
            extended = self.extensions.select_next_some() => self.apply_extensions(extended),
            () = pause => {}
        }
    }

    /// All handles, once no extension is under way: a late extension would hide a message that was given back.
    pub(super) async fn into_handles(mut self) -> Vec<String> {
        while self.extensions.next().await.is_some() {}
        self.receives.into_values().map(|received| received.handle).collect()
    }

    fn extend_due(&mut self) {
        let now = self.clock.now();
        while self.extensions.len() < REQUESTS_MAX {
            let some = self.take_due(now);
            if some.is_empty() {
                return;
            }
            let (queue, hidden) = (self.queue, self.hidden);
            let until = now + hidden;
            self.extensions.push(
                async move {
                    let seconds = VisibilitySeconds::new(hidden.as_secs()).unwrap_or(VisibilitySeconds::MAX);
                    let entries: Vec<_> = some.iter().map(|(_, handle)| (handle.clone(), seconds)).collect();
                    // An entry without an outcome is not extended; it is held until its time is over.
                    let outcomes = queue.change_visibility_batch(&entries).await;
                    let extended = some.into_iter().zip(outcomes);
                    extended
                        .map(|((id, handle), outcome)| ExtensionResult { id, handle, until, hidden, outcome })
                        .collect()
                }
                .boxed(),
            );
        }
    }

    /// Takes as many as fit into one request. A message that SQS cannot hide any longer becomes visible and comes out
    /// again.
    fn take_due(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let mut some = Vec::new();
        while some.len() < MESSAGES_OF_A_REQUEST.into()
            && let Some((due, _)) = self.due.first()
            && *due <= now
            && let Some((due, id)) = self.due.pop_first()
        {
            let Some(received) = self.receives.get_mut(&id) else {
                continue;
            };
            received.due = None;
            // Two minutes are too short for SQS, or for the caller. Twice as long halves the extensions, and each
            // message doubles only its own time, so it grows no further than needed.
            if now > due + LATE {
                self.hidden = self.hidden.max((received.hidden * 2).min(HIDDEN_MAX));
            }
            // Another program may have received a message whose time is over, and extending it by an old handle proves
            // nothing.
            let is_extended = now < received.until
                && now + self.hidden + self.hidden / 2 <= received.since + SINCE_RECEIVE_MAX;
            if is_extended {
                some.push((id, received.handle.clone()));
            } else {
                self.reappeared += 1;
            }
        }
        some
    }

    /// Entry by entry: a message whose extension is refused is no longer held.
    fn apply_extensions(&mut self, extended: Vec<ExtensionResult>) {
        let now = self.clock.now();
        for ExtensionResult { id, handle, until, hidden, outcome } in extended {
            // It may have come out again, or be deleted.
            let Some(received) = self.receives.get_mut(&id).filter(|received| received.handle == handle)
            else {
                continue;
            };
            let due = match outcome {
                Ok(()) => {
                    (received.until, received.hidden) = (until, hidden);
                    until - hidden / 2
                }
                Err(error) if error.fault.is_retryable() => now + PAUSE,
                // Refused for good: it may be visible now, so it no longer counts as hidden.
                Err(_) => {
                    received.until = now;
                    self.reappeared += 1;
                    continue;
                }
            };
            received.due = Some(due);
            self.due.insert((due, id));
        }
    }
}

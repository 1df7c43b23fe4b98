//! Received messages that are kept hidden. Their visibility timeout is extended by two minutes at a time while the
//! caller works, or by up to half an hour at a time if SQS is too slow for that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt as _, pending};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use futures_util::{pin_mut, select_biased};
use redeliver_core::deliver::time_until;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, EntryOutcome, Queue};

use super::{MESSAGES_PER_REQUEST, REQUESTS_MAX, ReceiveRequest};

/// The initial visibility timeout, 2 minutes: short, so that messages soon become visible again if this program is
/// killed. An extension is requested halfway through it, which leaves time for several attempts.
pub const INITIAL_VISIBILITY_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest visibility timeout. Keeping 120,000 messages hidden with it takes 14 requests per second.
const VISIBILITY_TIMEOUT_MAX: Duration = Duration::from_secs(1800);
/// The delay beyond which an extension counts as late: SQS is then too slow for the number of held messages.
const LATE_AFTER: Duration = Duration::from_secs(15);
/// The pause before a failed extension is retried.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest time that SQS hides a message: 12 hours after the receive, regardless of extensions
/// ("ChangeMessageVisibility", Amazon SQS API Reference).
const SINCE_RECEIVE_MAX: Duration = VisibilitySeconds::MAX.duration();

/// The newest receive of each held message.
pub(super) struct HiddenMessages<'a, Q, C> {
    queue: &'a Q,
    clock: &'a C,
    receives: BTreeMap<String, HeldMessage>,
    /// The held messages, ordered by the timestamp at which their extension is due.
    due: BTreeSet<(Timestamp, String)>,
    extensions: FuturesUnordered<BoxFuture<'a, Vec<ExtensionResult>>>,
    /// The visibility timeout for new receives.
    visibility_timeout: Duration,
    /// The number of messages that could not be kept hidden.
    reappeared: u64,
}

struct HeldMessage {
    handle: String,
    /// The timestamp of the request: SQS starts the timeout later, never earlier.
    since: Timestamp,
    until: Timestamp,
    /// The visibility timeout set by the last receive or extension.
    visibility_timeout: Duration,
    /// The timestamp at which the next extension is due; `None` while an extension is in progress, or if none is
    /// possible.
    due: Option<Timestamp>,
}

struct ExtensionResult {
    id: String,
    handle: String,
    until: Timestamp,
    visibility_timeout: Duration,
    outcome: EntryOutcome<()>,
}

impl<'a, Q: Queue, C: Clock> HiddenMessages<'a, Q, C> {
    pub(super) fn new(queue: &'a Q, clock: &'a C) -> Self {
        let (receives, due) = (BTreeMap::new(), BTreeSet::new());
        let extensions = FuturesUnordered::new();
        Self {
            queue,
            clock,
            receives,
            due,
            extensions,
            visibility_timeout: INITIAL_VISIBILITY_TIMEOUT,
            reappeared: 0,
        }
    }

    /// Returns the visibility timeout to request for a receive.
    pub(super) fn visibility_timeout(&self) -> Duration {
        self.visibility_timeout
    }

    /// Returns true if extensions are late: keeping messages hidden has priority over receiving more.
    pub(super) fn is_late(&self) -> bool {
        let now = self.clock.now();
        self.due.first().is_some_and(|(due, _)| now > *due + LATE_AFTER)
    }

    /// Returns the number of messages that could not be kept hidden, because SQS responded too slowly or rejected the
    /// extension.
    pub(super) fn reappeared_count(&self) -> u64 {
        self.reappeared
    }

    /// Holds a received message, replacing an earlier receive: only the newest handle is valid.
    pub(super) fn hold_message(
        &mut self,
        id: &str,
        handle: &str,
        ReceiveRequest { at, visibility_timeout }: ReceiveRequest,
    ) {
        self.release_message(id);
        // Measured from the request: SQS starts the timeout between the request and the response, and it is safe to
        // assume too early an end.
        let (until, due) = (at + visibility_timeout, at + visibility_timeout / 2);
        let received =
            HeldMessage { handle: handle.to_owned(), since: at, until, visibility_timeout, due: Some(due) };
        self.receives.insert(id.to_owned(), received);
        self.due.insert((due, id.to_owned()));
    }

    /// Stops holding a message, for example after its deletion.
    pub(super) fn release_message(&mut self, id: &str) {
        if let Some(due) = self.receives.remove(id).and_then(|received| received.due) {
            self.due.remove(&(due, id.to_owned()));
        }
    }

    /// Returns true if no other program can have received the message since its newest receive.
    pub(super) fn is_hidden(&self, id: &str) -> bool {
        self.receives.get(id).is_some_and(|received| self.clock.now() < received.until)
    }

    pub(super) fn hidden_until(&self, id: &str) -> Option<Timestamp> {
        self.receives.get(id).map(|received| received.until)
    }

    /// Returns the newest receipt handle of a held message.
    pub(super) fn newest_handle(&self, id: &str) -> Option<&str> {
        self.receives.get(id).map(|received| received.handle.as_str())
    }

    /// Extends the visibility timeouts that are due, and applies the next result. Never completes if nothing is held.
    pub(super) async fn extend_next(&mut self) {
        self.extend_due_messages();
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

    /// Returns all handles once no extension is in progress: a late extension would hide a message that has already
    /// been released.
    pub(super) async fn into_handles(mut self) -> Vec<String> {
        while self.extensions.next().await.is_some() {}
        self.receives.into_values().map(|received| received.handle).collect()
    }

    fn extend_due_messages(&mut self) {
        let now = self.clock.now();
        while self.extensions.len() < REQUESTS_MAX {
            let batch = self.take_due_messages(now);
            if batch.is_empty() {
                return;
            }
            let (queue, visibility_timeout) = (self.queue, self.visibility_timeout);
            let until = now + visibility_timeout;
            self.extensions.push(
                async move {
                    let seconds = VisibilitySeconds::new(visibility_timeout.as_secs())
                        .unwrap_or(VisibilitySeconds::MAX);
                    let entries: Vec<_> = batch.iter().map(|(_, handle)| (handle.clone(), seconds)).collect();
                    // An entry without an outcome is not extended; it is held until its timeout expires.
                    let outcomes = queue.change_visibility_batch(&entries).await;
                    let extended = batch.into_iter().zip(outcomes);
                    extended
                        .map(|((id, handle), outcome)| ExtensionResult {
                            id,
                            handle,
                            until,
                            visibility_timeout,
                            outcome,
                        })
                        .collect()
                }
                .boxed(),
            );
        }
    }

    /// Takes as many due messages as one request can contain. A message that cannot be extended becomes visible and is
    /// received again.
    fn take_due_messages(&mut self, now: Timestamp) -> Vec<(String, String)> {
        let mut batch = Vec::new();
        while batch.len() < MESSAGES_PER_REQUEST.into()
            && let Some((due, _)) = self.due.first()
            && *due <= now
            && let Some((due, id)) = self.due.pop_first()
        {
            let Some(received) = self.receives.get_mut(&id) else {
                continue;
            };
            received.due = None;
            // If this extension is late, SQS or the caller is too slow for the current timeout. Doubling the timeout
            // halves the number of extensions. Each message doubles only its own timeout, so the timeout grows no
            // further than needed.
            if now > due + LATE_AFTER {
                self.visibility_timeout = self
                    .visibility_timeout
                    .max((received.visibility_timeout * 2).min(VISIBILITY_TIMEOUT_MAX));
            }
            // Another program may have received a message whose timeout has expired, and extending it with an old
            // handle proves nothing.
            let can_extend = now < received.until
                && now + self.visibility_timeout + self.visibility_timeout / 2
                    <= received.since + SINCE_RECEIVE_MAX;
            if can_extend {
                batch.push((id, received.handle.clone()));
            } else {
                self.reappeared += 1;
            }
        }
        batch
    }

    /// Applies outcomes per entry: a message whose extension is rejected is no longer held.
    fn apply_extensions(&mut self, extended: Vec<ExtensionResult>) {
        let now = self.clock.now();
        for ExtensionResult { id, handle, until, visibility_timeout, outcome } in extended {
            // The message may have been received again, or deleted.
            let Some(received) = self.receives.get_mut(&id).filter(|received| received.handle == handle)
            else {
                continue;
            };
            let due = match outcome {
                Ok(()) => {
                    (received.until, received.visibility_timeout) = (until, visibility_timeout);
                    until - visibility_timeout / 2
                }
                Err(error) if error.fault.is_retryable() => now + PAUSE,
                // Permanently rejected: the message may be visible now, so it no longer counts as hidden.
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

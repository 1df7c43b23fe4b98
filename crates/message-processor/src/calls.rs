//! The calls to the target: bounded concurrency, a guard around each, at once again after a blip, and an end before the
//! deadline.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};
use redeliver_core::decision::retries_at_once;
use redeliver_core::delivery::until;
use redeliver_core::events::{Event, RetriedImmediately};
use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};

use super::{Accepted, MessageProcessor};

/// What became of one call.
#[derive(Debug)]
pub(super) enum Outcome {
    Success,
    Failure(HandlerError),
    /// The calls' end came before its turn.
    NotStarted,
}

/// Before all calls are cut off, so that a further call is left in time.
const CUT_OFF: Duration = Duration::from_millis(100);

/// An outcome, and how long the target took, retries at once included.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
}

impl<H: Handler, Q: Send + Sync, C: Clock, O: Observer> MessageProcessor<H, Q, C, O> {
    /// Calls the handler for every message, `max_concurrency` at a time. One call's failure, panic or hanging is its
    /// own. At `end` what still runs is cut off as `Timeout`, and nothing is started any more: a handler that blocks
    /// its thread cannot be cut off, but it must not take the time of the hand-offs for another call.
    pub(super) async fn call_all(&self, end: Timestamp, accepted: &[Accepted]) -> Vec<Call> {
        // A loop of its own, since `buffer_unordered` does not say which calls had begun when the time was up. One that
        // had is a `Timeout` and spends an attempt; one that had not is handed off as not started, which spends none.
        let clock = &self.clock;
        let mut calls: Vec<Option<Call>> = accepted.iter().map(|_| None).collect();
        let start = |index: usize| {
            let message = &accepted[index].message;
            async move {
                let started = clock.now();
                // A call whose turn comes too late would be cut off at once, and spend an attempt for nothing.
                let outcome = if started < end { self.call(message, end).await } else { Outcome::NotStarted };
                (index, Call { outcome, seconds: until(started, clock.now()).as_secs_f64() })
            }
        };
        // The first few are called at once, and each that ends makes room for the next. Whose turn has come is below
        // `waiting.start`: so a call that was cut off, which may have had its effect, is known from one that never
        // began.
        let mut waiting = 0..accepted.len();
        let mut running: FuturesUnordered<_> =
            waiting.by_ref().take(self.max_concurrency.get()).map(&start).collect();
        let started_at = clock.now();
        let time_is_up = clock.sleep(until(started_at, end)).fuse();
        pin_mut!(time_is_up);
        loop {
            // A call that has come back counts, also at the very end: its answer is looked for before the time.
            select_biased! {
                done = running.next() => match done {
                    Some((index, call)) => {
                        calls[index] = Some(call);
                        running.extend(waiting.next().map(&start));
                    }
                    None => break,
                },
                () = time_is_up => break,
            }
        }
        // From here on no handler runs any more: what it would still do, nobody would wait for.
        drop(running);
        let seconds = until(started_at, clock.now()).as_secs_f64();
        let timeout = || {
            let details = "the target did not answer before the invocation's end";
            Call { outcome: Outcome::Failure(HandlerError::transient("Timeout", details)), seconds }
        };
        let not_started = || Call { outcome: Outcome::NotStarted, seconds: 0.0 };
        let unfinished = |index| {
            if index < waiting.start { timeout() } else { not_started() }
        };
        calls.into_iter().enumerate().map(|(index, call)| call.unwrap_or_else(|| unfinished(index))).collect()
    }

    /// Calls the target until it is done, the blips that the policy allows are over, or no time remains. A further call
    /// that the end cuts off does not count: it would leave a `Timeout`, and the error that is known would be
    /// forgotten.
    async fn call(&self, message: &Message, end: Timestamp) -> Outcome {
        let end = end - CUT_OFF;
        let mut error = match guarded(&self.handler, message, end).await {
            Outcome::Failure(error) => error,
            other => return other,
        };
        // Of this delivery: an immediate retry is not written into the message, and spends nothing.
        let mut made = 0;
        loop {
            // Judged anew each time: the last call may have met another error, one that is no blip.
            let again = retries_at_once(&self.policy, &error).filter(|again| made < again.max_attempts);
            let Some(again) = again.filter(|again| self.clock.now() + again.delay < end) else {
                return Outcome::Failure(error);
            };
            self.observer.observe(&Event::RetriedImmediately(RetriedImmediately {
                message_id: message.message_id.clone(),
                retry_attempt: message.retry_attempt,
                error_type: error.error_type.loggable().into_owned(),
            }));
            self.clock.sleep(again.delay).await;
            made += 1;
            let time_is_up = self.clock.sleep(until(self.clock.now(), end)).fuse();
            let call = guarded(&self.handler, message, end).fuse();
            pin_mut!(time_is_up, call);
            select_biased! {
                outcome = call => match outcome {
                    Outcome::Failure(newer) => error = newer,
                    other => return other,
                },
                () = time_is_up => return Outcome::Failure(error),
            }
        }
    }
}

/// A panic fails this call only. Its text is not looked at: it may hold payload.
async fn guarded(handler: &impl Handler, message: &Message, end: Timestamp) -> Outcome {
    match AssertUnwindSafe(async { handler.handle_until(message, end).await }).catch_unwind().await {
        Ok(Ok(())) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(error),
        Err(_) => Outcome::Failure(HandlerError::transient("Panic", "the handler panicked")),
    }
}

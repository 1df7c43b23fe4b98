//! The calls to the target: bounded concurrency, a guard around each, and an end before the deadline.

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};
use redeliver_core::delivery::until;
use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;

use super::Job;

/// What became of one call.
#[derive(Debug)]
pub(super) enum Outcome {
    Success,
    Failure(HandlerError),
    /// The calls' end came before its turn.
    NotStarted,
}

/// An outcome, and how long the target took.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
}

/// Calls the handler for every job, `max_concurrency` at a time. One call's failure, panic or hanging is its own. At `end`
/// what still runs is cut off as `Timeout`.
pub(super) async fn call_all(
    handler: &impl Handler,
    clock: &impl Clock,
    end: Timestamp,
    max_concurrency: NonZeroUsize,
    jobs: &[Job],
) -> Vec<Call> {
    let mut calls: Vec<Call> = jobs
        .iter()
        .map(|_| Call {
            outcome: Outcome::NotStarted,
            seconds: 0.0,
        })
        .collect();
    let start = |index: usize| {
        let message = &jobs[index].message;
        async move {
            let started = clock.now();
            let outcome = guarded(handler, message).await;
            (
                index,
                Call {
                    outcome,
                    seconds: until(started, clock.now()).as_secs_f64(),
                },
            )
        }
    };
    let mut waiting = 0..jobs.len();
    let mut running: FuturesUnordered<_> = waiting.by_ref().take(max_concurrency.get()).map(&start).collect();
    let started_at = clock.now();
    let time_is_up = clock.sleep(until(started_at, end)).fuse();
    pin_mut!(time_is_up);
    loop {
        select_biased! {
            done = running.next() => match done {
                Some((index, call)) => {
                    calls[index] = call;
                    if let Some(next) = waiting.next() {
                        running.push(start(next));
                    }
                }
                None => return calls,
            },
            () = time_is_up => break,
        }
    }
    drop(running);
    let seconds = until(started_at, clock.now()).as_secs_f64();
    for call in &mut calls[..waiting.start] {
        if matches!(call.outcome, Outcome::NotStarted) {
            let details = "the target did not answer before the invocation's end";
            *call = Call {
                outcome: Outcome::Failure(HandlerError::transient("Timeout", details)),
                seconds,
            };
        }
    }
    calls
}

/// A panic fails this call only. Its text is not looked at: it may hold payload.
async fn guarded(handler: &impl Handler, message: &Message) -> Outcome {
    match AssertUnwindSafe(async { handler.handle(message).await })
        .catch_unwind()
        .await
    {
        Ok(Ok(())) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(error),
        Err(_) => Outcome::Failure(HandlerError::transient("Panic", "the handler panicked")),
    }
}

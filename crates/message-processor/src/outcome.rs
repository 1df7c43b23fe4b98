//! The outcomes of a batch's calls.

use std::time::Duration;

use redeliver_core::decide::breaker::{Hold, HoldReason};
use redeliver_core::handler::HandlerError;
use redeliver_core::message::Timestamp;

/// The outcome of one call.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    Success,
    Failure(HandlerError),
    /// A failure that means "not now" or that might indicate an outage: the message is held if the circuit is open once
    /// all calls have ended.
    Trouble(HandlerError),
    /// Time ran out before the call was started.
    NotStarted,
    /// The call was not made, or its outcome was "not now" or indicated an outage.
    Held {
        hold: Hold,
        error: Option<HandlerError>,
    },
}

/// The outcome of a call, with its start time and its duration, including immediate retries.
#[derive(Debug)]
pub(super) struct FinishedCall {
    pub(super) outcome: AttemptOutcome,
    /// `None` if the target was not called.
    pub(super) started: Option<Timestamp>,
    pub(super) seconds: f64,
}

impl FinishedCall {
    pub(super) fn not_made(outcome: AttemptOutcome) -> Self {
        Self { outcome, started: None, seconds: 0.0 }
    }

    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// Returns the error of a call that was cut off at the invocation's end.
pub(super) fn timeout_error() -> HandlerError {
    HandlerError::transient("Timeout", "the target did not answer before the invocation's end")
}

/// Messages that were held for the same reason.
pub(super) struct HeldSummary {
    pub(super) count: u32,
    /// The earliest time at which the cause of one of these holds began.
    pub(super) since: Timestamp,
    /// The first error of their calls; empty if no call was made.
    pub(super) error_type: String,
}

/// Summarizes the messages that were held for this reason; `None` if there are none.
pub(super) fn summarize_held<'a>(
    reason: HoldReason,
    outcomes: impl Iterator<Item = &'a AttemptOutcome> + Clone,
) -> Option<HeldSummary> {
    let held = outcomes.filter_map(|outcome| match outcome {
        AttemptOutcome::Held { hold, error } if hold.reason == reason => Some((hold.outage.since, error)),
        _ => None,
    });
    let mut errors = held.clone().filter_map(|(_, error)| error.as_ref());
    Some(HeldSummary {
        count: u32::try_from(held.clone().count()).unwrap_or(u32::MAX),
        since: held.map(|(since, _)| since).min()?,
        error_type: errors
            .next()
            .map(|error| error.error_type.loggable_name().into_owned())
            .unwrap_or_default(),
    })
}

//! The retries of one batch: each entry is retried until a further request cannot improve its outcome.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};

use super::{DeliveryOutcome, time_until};
use crate::fault::{EntryError, EntryOutcome, Fault};
use crate::message::Timestamp;
use crate::ports::Clock;

/// Wait before the first re-send of refused entries; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait between two re-sends, and the wait before a re-send that may create a copy: no further re-send
/// follows it, so a blip should be over by then.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The shortest time to wait for a response. Typical latencies are "tens or low hundreds of milliseconds" ("Amazon SQS
/// FAQs").
const PATIENCE_MIN: Duration = Duration::from_secs(5);

/// Settles all entries of a batch before `deadline`, with retries. Returns one outcome per entry, in order.
///
/// `request` makes one request for the entries at these positions. `ambiguous_sends_max` limits how often an entry is
/// sent, not counting sends that are known to have been refused. A request remains in flight until the deadline, even
/// after its entries were sent again: a late response counts.
pub(super) async fn settle_batch<R, F: Future<Output = Vec<EntryOutcome<R>>>>(
    entries: usize,
    ambiguous_sends_max: u32,
    request: impl Fn(Vec<usize>) -> F,
    clock: &impl Clock,
    deadline: Timestamp,
) -> Vec<DeliveryOutcome<R>> {
    let mut retries = BatchRetries::new(entries, ambiguous_sends_max, clock.now(), deadline);
    let mut in_flight = FuturesUnordered::new();
    loop {
        // An entry sent twice has two requests in flight: the first response that confirms it counts.
        let now = clock.now();
        if now >= deadline || retries.are_all_settled() {
            return retries.into_outcomes();
        }
        let due = retries.take_due(now);
        if !due.is_empty() {
            in_flight.push(request(due.clone()).map(|answers| (due, answers)));
        }
        let pause = clock.sleep(time_until(now, retries.next_due())).fuse();
        pin_mut!(pause);
        // Responses take precedence over the pause: an entry whose response has arrived must not be sent again.
        select_biased! {
            (places, answers) = in_flight.select_next_some() => retries.record_results(places, answers, clock.now()),
            () = pause => {}
        }
    }
}

struct BatchRetries<R> {
    entries: Vec<RetryEntry<R>>,
    ambiguous_sends_max: u32,
    deadline: Timestamp,
    refusals: u32,
}

struct RetryEntry<R> {
    outcome: EntryOutcome<R>,
    /// Time of the next send.
    due: Option<Timestamp>,
    /// Number of requests in flight.
    in_flight: u32,
    /// Number of sends that are not known to have been refused.
    ambiguous_sends: u32,
}

impl<R> BatchRetries<R> {
    fn new(entries: usize, ambiguous_sends_max: u32, now: Timestamp, deadline: Timestamp) -> Self {
        let entry = |_| RetryEntry {
            outcome: Err(no_answer_error()),
            due: Some(now),
            in_flight: 0,
            ambiguous_sends: 0,
        };
        Self { entries: (0..entries).map(entry).collect(), ambiguous_sends_max, deadline, refusals: 0 }
    }

    fn are_all_settled(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.outcome.is_ok() || (entry.due.is_none() && entry.in_flight == 0))
    }

    fn next_due(&self) -> Timestamp {
        let due = self.entries.iter().filter_map(|entry| entry.due).min();
        due.map_or(self.deadline, |due| due.min(self.deadline))
    }

    /// Returns the positions of the entries to send now.
    fn take_due(&mut self, now: Timestamp) -> Vec<usize> {
        // Half of the remaining time, since the next send needs time for a response, too.
        let patience = now + (time_until(now, self.deadline) / 2).max(PATIENCE_MIN);
        let patience = self.filter_before_deadline(patience);
        let mut places = Vec::new();
        for (place, entry) in self.entries.iter_mut().enumerate() {
            if entry.due.is_none_or(|due| due > now) {
                continue;
            }
            places.push(place);
            // The previous refusal does not apply to this send.
            if entry.ambiguous_sends == 0 {
                entry.outcome = Err(no_answer_error());
            }
            entry.in_flight += 1;
            // Counted before the response, which may never arrive. A refusal reverts the count.
            entry.ambiguous_sends += 1;
            entry.due = patience.filter(|_| entry.ambiguous_sends < self.ambiguous_sends_max);
        }
        places
    }

    /// Records the results of a request for the entries at these positions. Entries without a result count as
    /// unanswered; surplus results are ignored.
    fn record_results(&mut self, places: Vec<usize>, answers: Vec<EntryOutcome<R>>, now: Timestamp) {
        let mut answers = answers.into_iter();
        // At least the first wait, since halving the remaining time would never reach the deadline.
        let last = LONGEST_WAIT.min(time_until(now, self.deadline) / 2).max(FIRST_WAIT);
        let (soon, last) = (jittered_wait(wait_before(self.refusals + 1), now), jittered_wait(last, now));
        let (soon, last) = (self.filter_before_deadline(now + soon), self.filter_before_deadline(now + last));
        for place in places {
            let entry = &mut self.entries[place];
            entry.in_flight -= 1;
            let error = match answers.next().unwrap_or_else(|| Err(no_answer_error())) {
                Ok(done) => {
                    (entry.outcome, entry.due) = (Ok(done), None);
                    continue;
                }
                Err(_) if entry.outcome.is_ok() => continue,
                Err(error) => error,
            };
            let fault = error.fault;
            if !fault.may_have_succeeded() {
                entry.ambiguous_sends -= 1;
            }
            // The refusal of a later send does not undo an earlier one that may have succeeded.
            if fault.may_have_succeeded() || entry.ambiguous_sends == 0 {
                entry.outcome = Err(error);
            }
            // A send that may have succeeded is repeated only once, and therefore after a long wait; a refused send is
            // repeated soon.
            let next_attempt_at = if fault.may_have_succeeded() { last } else { soon };
            let may_be_sent = fault.is_retryable() && entry.ambiguous_sends < self.ambiguous_sends_max;
            entry.due = next_attempt_at
                .filter(|_| may_be_sent)
                .map(|next_attempt_at| entry.due.map_or(next_attempt_at, |due| due.min(next_attempt_at)));
        }
        // Counted per batch rather than per entry: SQS throttles queues, and the entries of a request share one
        // response.
        self.refusals += 1;
    }

    /// Returns the time; `None` unless it is before the deadline.
    fn filter_before_deadline(&self, then: Timestamp) -> Option<Timestamp> {
        (then < self.deadline).then_some(then)
    }

    fn into_outcomes(self) -> Vec<DeliveryOutcome<R>> {
        let entries = self.entries.into_iter();
        entries
            .map(|RetryEntry { outcome, ambiguous_sends, .. }| DeliveryOutcome { outcome, ambiguous_sends })
            .collect()
    }
}

fn wait_before(resend: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << (resend - 1).min(16)).min(LONGEST_WAIT)
}

/// Shortens the wait by up to half, using the clock's sub-second part, so that instances do not retry in step.
fn jittered_wait(longest: Duration, now: Timestamp) -> Duration {
    longest - longest.mul_f64(f64::from(now.timestamp_subsec_micros()) / 2_000_000.0)
}

pub(super) fn no_answer_error() -> EntryError {
    EntryError::new(Fault::NoAnswer, "NoAnswerBeforeDeadline")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_two_seconds_and_jitter_shortens_them_by_up_to_half() {
        let waits: Vec<_> = (1..=8).map(|resend| wait_before(resend).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(wait_before(u32::MAX), Duration::from_secs(2));
        let at =
            |micros: i64| chrono::DateTime::from_timestamp_micros(1_785_000_000_000_000 + micros).unwrap();
        let longest = Duration::from_millis(50);
        assert_eq!(jittered_wait(longest, at(0)), longest);
        assert_eq!(jittered_wait(longest, at(500_000)), Duration::from_micros(37_500));
        assert_eq!(jittered_wait(longest, at(999_999)), Duration::from_nanos(25_000_025));
    }
}

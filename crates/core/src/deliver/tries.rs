//! The entries of one batch, each tried until it has an outcome that another try cannot better.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};

use super::{Delivered, until};
use crate::message::Timestamp;
use crate::ports::{Clock, EntryError, EntryOutcome, Fault};

/// Before the first resend of refused entries; doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// Between two resends at most, and before one that may make a copy: it is the last one, so it lets a blip pass.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The least time that an answer has. SQS's take "tens or low hundreds of milliseconds" ("Amazon SQS FAQs").
const PATIENCE_MIN: Duration = Duration::from_secs(5);

/// Tries all entries of a batch before `deadline`. One outcome each, in order.
///
/// `request` makes one request for the entries with these numbers. `perhaps_done_max` is how often an entry may be sent
/// without an answer that says that it was not done. A request goes on while there is time, also when its entries are
/// sent once more: its late answer counts.
pub(super) async fn settle<R, F: Future<Output = Vec<EntryOutcome<R>>>>(
    entries: usize,
    perhaps_done_max: u32,
    request: impl Fn(Vec<usize>) -> F,
    clock: &impl Clock,
    deadline: Timestamp,
) -> Vec<Delivered<R>> {
    let mut tries = Tries::new(entries, perhaps_done_max, clock.now(), deadline);
    let mut under_way = FuturesUnordered::new();
    loop {
        // An entry sent twice has two requests under way: the first answer that confirms it counts, whichever that is.
        let now = clock.now();
        if now >= deadline || tries.are_over() {
            return tries.into_delivered();
        }
        let due = tries.take_due(now);
        if !due.is_empty() {
            under_way.push(request(due.clone()).map(|answers| (due, answers)));
        }
        let pause = clock.sleep(until(now, tries.next_due())).fuse();
        pin_mut!(pause);
        // Answers before the pause, so that nothing is sent once more whose answer is there already.
        select_biased! {
            (places, answers) = under_way.select_next_some() => tries.answered(places, answers, clock.now()),
            () = pause => {}
        }
    }
}

struct Tries<R> {
    entries: Vec<Entry<R>>,
    perhaps_done_max: u32,
    deadline: Timestamp,
    refusals: u32,
}

struct Entry<R> {
    outcome: EntryOutcome<R>,
    /// When it is sent (again).
    due: Option<Timestamp>,
    /// Requests that may still be answered.
    under_way: u32,
    /// Sends of which no answer says that they were not done.
    perhaps_done: u32,
}

impl<R> Tries<R> {
    fn new(entries: usize, perhaps_done_max: u32, now: Timestamp, deadline: Timestamp) -> Self {
        let entry = |_| Entry { outcome: Err(no_answer()), due: Some(now), under_way: 0, perhaps_done: 0 };
        Self { entries: (0..entries).map(entry).collect(), perhaps_done_max, deadline, refusals: 0 }
    }

    fn are_over(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.outcome.is_ok() || (entry.due.is_none() && entry.under_way == 0))
    }

    fn next_due(&self) -> Timestamp {
        let due = self.entries.iter().filter_map(|entry| entry.due).min();
        due.map_or(self.deadline, |due| due.min(self.deadline))
    }

    /// The numbers of the entries that are to be sent now.
    fn take_due(&mut self, now: Timestamp) -> Vec<usize> {
        // Half of what remains: the one more send must have time for its own answer.
        let patience = now + (until(now, self.deadline) / 2).max(PATIENCE_MIN);
        let patience = self.in_time(patience);
        let mut places = Vec::new();
        for (place, entry) in self.entries.iter_mut().enumerate() {
            if entry.due.is_none_or(|due| due > now) {
                continue;
            }
            places.push(place);
            // The last refusal says nothing of this send.
            if entry.perhaps_done == 0 {
                entry.outcome = Err(no_answer());
            }
            entry.under_way += 1;
            // Counted before there is an answer, since none may come. A refusal takes it back.
            entry.perhaps_done += 1;
            entry.due = patience.filter(|_| entry.perhaps_done < self.perhaps_done_max);
        }
        places
    }

    /// Enters the answers of a request for the entries with these numbers. If it has too few the rest has none; if it
    /// has too many they confirm nothing.
    fn answered(&mut self, places: Vec<usize>, answers: Vec<EntryOutcome<R>>, now: Timestamp) {
        let mut answers = answers.into_iter();
        let last = LONGEST_WAIT.min(until(now, self.deadline) / 2);
        let (soon, last) = (wait(wait_before(self.refusals + 1), now), wait(last, now));
        let (soon, last) = (self.in_time(now + soon), self.in_time(now + last));
        for place in places {
            let entry = &mut self.entries[place];
            entry.under_way -= 1;
            let error = match answers.next().unwrap_or_else(|| Err(no_answer())) {
                Ok(done) => {
                    (entry.outcome, entry.due) = (Ok(done), None);
                    continue;
                }
                Err(_) if entry.outcome.is_ok() => continue,
                Err(error) => error,
            };
            let fault = error.fault;
            if !fault.may_be_done() {
                entry.perhaps_done -= 1;
            }
            // No refusal of a later send takes back that an earlier one may have been done.
            if fault.may_be_done() || entry.perhaps_done == 0 {
                entry.outcome = Err(error);
            }
            // What may have been done waits long, since it is sent only once more; a refusal says that nothing was
            // done, so soon.
            let again = if fault.may_be_done() { last } else { soon };
            let may_be_sent = fault.is_retryable() && entry.perhaps_done < self.perhaps_done_max;
            entry.due =
                again.filter(|_| may_be_sent).map(|again| entry.due.map_or(again, |due| due.min(again)));
        }
        // Of the batch, not of each entry: SQS throttles a queue, and the entries of one request come back together.
        self.refusals += 1;
    }

    /// Nothing is sent that the deadline leaves no time for.
    fn in_time(&self, then: Timestamp) -> Option<Timestamp> {
        (then < self.deadline).then_some(then)
    }

    fn into_delivered(self) -> Vec<Delivered<R>> {
        let entries = self.entries.into_iter();
        entries.map(|Entry { outcome, perhaps_done, .. }| Delivered { outcome, perhaps_done }).collect()
    }
}

fn wait_before(resend: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << (resend - 1).min(16)).min(LONGEST_WAIT)
}

/// The clock's own sub-second part takes up to half of it away, so that many instances do not move in step.
fn wait(longest: Duration, now: Timestamp) -> Duration {
    longest - longest.mul_f64(f64::from(now.timestamp_subsec_micros()) / 2_000_000.0)
}

pub(super) fn no_answer() -> EntryError {
    EntryError::new(Fault::NoAnswer, "NoAnswerBeforeDeadline")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_two_seconds_less_up_to_half() {
        let waits: Vec<_> = (1..=8).map(|resend| wait_before(resend).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(wait_before(u32::MAX), Duration::from_secs(2));
        let at =
            |micros: i64| chrono::DateTime::from_timestamp_micros(1_785_000_000_000_000 + micros).unwrap();
        let longest = Duration::from_millis(50);
        assert_eq!(wait(longest, at(0)), longest);
        assert_eq!(wait(longest, at(500_000)), Duration::from_micros(37_500));
        assert_eq!(wait(longest, at(999_999)), Duration::from_nanos(25_000_025));
    }
}

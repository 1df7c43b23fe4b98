//! The report of a run, as a table or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use redeliver_sim::{EventCounts, Tracker};
use serde::Serialize;

use redeliver_operator::terminal::escape::escape_line;
use redeliver_operator::terminal::units::{draw_bar, format_count, format_span, format_table, group_digits};

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunReport {
    /// Messages sent to the source queue.
    pub sent: u64,
    /// Lines that SQS would reject.
    pub refused: u64,
    /// Successful calls to the target.
    pub processed: u64,
    /// Delayed re-sends, or messages hidden for a delay.
    pub retries: u64,
    /// Hops of messages with a delay above 900 s.
    pub hops: u64,
    /// Second calls within the same invocation.
    pub immediate_retries: u64,
    /// Holds; a message counts once per hold.
    pub holds: u64,
    /// Calls that probed whether a failing target had recovered.
    pub probes: u64,
    /// Final records by `ErrorType`.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Unfinished messages that are in a queue.
    pub waiting: u64,
    /// Messages that finished more often than they were sent.
    pub copies: u64,
    /// Unfinished messages that are in no queue.
    pub unaccounted: u64,
    /// True if a signal ended the run before all messages had finished.
    pub interrupted: bool,
    /// True if all acceptable lines were sent.
    pub all_sent: bool,
    /// The error of the last failed call, unless the target is the built-in one.
    pub last_failure: Option<String>,
    /// Kinds of responses from the user's own function that look like failure reports but count as successes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taken_as_success: Vec<&'static str>,
    /// Seconds from the first send until the last message finished, or until the interrupt.
    pub seconds: f64,
    /// True if time was virtual.
    pub is_virtual: bool,
    /// SQS requests by action, including idle long polls.
    pub requests: BTreeMap<String, u64>,
    pub delays: Vec<DelayBucket>,
}

/// The number of re-sends with a delay of `from_seconds..=to_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DelayBucket {
    pub from_seconds: u16,
    pub to_seconds: u16,
    pub count: u64,
}

/// The maximum number of bars in the histogram.
const BUCKETS: u16 = 10;
/// The length of the longest bar, in characters.
const BAR: u64 = 40;

/// Divides the range from 0 to the longest delay into at most ten buckets of equal width; `counts[s]` is the number of
/// re-sends with a delay of `s` seconds.
fn build_histogram(counts: &[u64]) -> Vec<DelayBucket> {
    let Some(longest) = counts.iter().rposition(|count| *count > 0) else {
        return Vec::new();
    };
    let longest = u16::try_from(longest).unwrap_or(u16::MAX);
    let width = (longest / BUCKETS) + 1;
    (0..=longest / width)
        .map(|bucket| {
            let from_seconds = bucket * width;
            let to_seconds = from_seconds + width - 1;
            let range = usize::from(from_seconds)..counts.len().min(usize::from(to_seconds) + 1);
            DelayBucket { from_seconds, to_seconds, count: counts[range].iter().sum() }
        })
        .collect()
}

impl RunReport {
    /// Builds a report from the counts of messages and events.
    pub(crate) fn new(tracker: &Tracker, events: &EventCounts, waiting: u64) -> Self {
        Self {
            sent: tracker.total_sent(),
            processed: tracker.total_processed(),
            retries: events.delays.iter().sum(),
            hops: events.hops,
            immediate_retries: events.immediate_retries,
            holds: events.holds,
            probes: events.probes,
            dead_lettered: tracker.dead_letters().clone(),
            waiting,
            copies: tracker.copy_count(),
            unaccounted: tracker.missing_count() - waiting,
            all_sent: !tracker.expects_more(),
            delays: build_histogram(&events.delays),
            ..Self::default()
        }
    }

    /// Returns a hint with the last error if no call succeeded; `None` otherwise, and for the built-in target.
    #[must_use]
    pub fn failure_hint(&self) -> Option<String> {
        let failure = self.last_failure.as_ref().filter(|_| self.processed == 0)?;
        Some(format!(
            "no call succeeded; the last one failed with {}: check the target",
            escape_line(failure)
        ))
    }

    /// Returns a hint about responses that look like failure reports but that Lambda counts as successes; `None` if
    /// there are none.
    #[must_use]
    pub fn success_hint(&self) -> Option<String> {
        let shapes = &self.taken_as_success;
        (!shapes.is_empty()).then(|| {
            format!(
                "responses of the function look like failure reports ({}); as in Lambda, they count as successes, and \
                 their messages are done: to report a failure, throw, or return \
                 {{\"batchItemFailures\": [{{\"itemIdentifier\": \"…\"}}]}}",
                shapes.join(", ")
            )
        })
    }

    /// Returns the reasons why the run failed; empty if all lines were sent and all messages finished.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.interrupted {
            let goal = if self.all_sent { "message finished" } else { "line was sent" };
            problems.push(format!("interrupted before every {goal}"));
        }
        if self.unaccounted > 0 {
            problems.push(format!("{} unaccounted for", format_count(self.unaccounted, "message")));
        }
        if self.waiting > 0 {
            problems.push(format!("{} still waiting", format_count(self.waiting, "message")));
        }
        if self.refused > 0 {
            problems.push(format!("{} refused, and not sent", format_count(self.refused, "line")));
        }
        problems
    }

    /// Returns the report as a table, with a histogram of the delays.
    #[must_use]
    pub fn format_table(&self) -> String {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
        let mut count = |name: &str, count: u64, always: bool| {
            if always || count > 0 {
                row(name, group_digits(count));
            }
        };
        count("sent", self.sent, true);
        count("refused, not sent", self.refused, false);
        count("processed", self.processed, true);
        count("retries", self.retries, true);
        count("  hops", self.hops, false);
        count("immediate retries", self.immediate_retries, false);
        count("holds", self.holds, false);
        count("  probes of an open circuit", self.probes, false);
        count("dead-lettered", self.dead_lettered.values().sum(), true);
        for (error_type, dead_letters) in &self.dead_lettered {
            count(&format!("  {error_type}"), *dead_letters, true);
        }
        count("waiting", self.waiting, true);
        count("copies (at-least-once delivery)", self.copies, false);
        count("UNACCOUNTED FOR", self.unaccounted, false);
        if self.interrupted {
            row("interrupted", "yes".to_owned());
        }
        row(if self.is_virtual { "virtual time" } else { "time" }, format_span(round_seconds(self.seconds)));
        row("SQS requests", group_digits(self.requests.values().sum()));
        for (action, requests) in &self.requests {
            row(&format!("  {action}"), group_digits(*requests));
        }
        format_table(&[], rows, [1]) + &self.format_bars()
    }

    fn format_bars(&self) -> String {
        let most = self.delays.iter().map(|bucket| bucket.count).max().unwrap_or(0);
        if most == 0 {
            return String::new();
        }
        let mut bars = "\nretries by delay\n".to_owned();
        let digits = self.delays.last().map_or(0, |bucket| bucket.to_seconds.to_string().len()).max(3);
        for DelayBucket { from_seconds, to_seconds, count } in &self.delays {
            let (bar, count) = (draw_bar(*count, most, BAR), group_digits(*count));
            let line = format!("{from_seconds:>5}–{to_seconds:<digits$} s {count:>6} {bar}");
            let _ = writeln!(bars, "{}", line.trim_end());
        }
        bars
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a run takes a few weeks at most"
)]
fn round_seconds(seconds: f64) -> u64 {
    seconds.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(from_seconds: u16, to_seconds: u16, count: u64) -> DelayBucket {
        DelayBucket { from_seconds, to_seconds, count }
    }

    #[test]
    fn every_delay_is_in_one_bucket() {
        let mut counts = vec![0; 901];
        counts[0] = 1;
        counts[90] = 2;
        counts[91] = 3;
        counts[900] = 4;
        let buckets = build_histogram(&counts);
        assert_eq!(buckets.len(), 10);
        assert_eq!(
            (buckets[0], buckets[1], buckets[9]),
            (bucket(0, 90, 3), bucket(91, 181, 3), bucket(819, 909, 4))
        );
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 10);
    }

    #[test]
    fn short_delays_have_one_second_buckets() {
        assert_eq!(build_histogram(&[0, 5, 0, 0]), [bucket(0, 0, 0), bucket(1, 1, 5)]);
        assert_eq!(build_histogram(&[0; 901]), []);
    }
}

//! The report at the end: a table for people, one JSON object for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::people::{bar, counted, grouped, span, table};
use crate::text::escaped;

/// What a run of the local loop came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Messages sent to the source queue.
    pub sent: u64,
    /// Lines that SQS would refuse.
    pub refused: u64,
    /// Successes of the target.
    pub processed: u64,
    /// Re-sends with a delay, or the same by visibility.
    pub retries: u64,
    /// Hops of messages whose delay is above 900 s.
    pub hops: u64,
    /// Retries that come later than the backoff says, since many messages waited (`max_redelivery_per_second`).
    pub paced: u64,
    /// Calls at once, within the invocation.
    pub immediate_retries: u64,
    /// Messages that the circuit breaker held, each time that one was.
    pub holds: u64,
    /// Calls that asked whether a target that was down was back.
    pub probes: u64,
    /// Final records by `ErrorType`.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Messages that have not come out and are still in a queue.
    pub waiting: u64,
    /// Messages that came out more often than they went in.
    pub copies: u64,
    /// Messages that went in, did not come out and are in no queue.
    pub unaccounted: u64,
    /// Ctrl-C, before all was sent and had come out.
    pub interrupted: bool,
    /// Whether each line that SQS takes was sent.
    pub all_sent: bool,
    /// Why the last call that failed did, if the target is an endpoint.
    pub last_failure: Option<String>,
    /// From the first send to the last message's end, or to the interrupt.
    pub seconds: f64,
    /// Whether these passed in virtual time.
    pub is_virtual: bool,
    /// SQS requests by action; idle long polls are requests too.
    pub requests: BTreeMap<String, u64>,
    pub delays: Vec<DelayBucket>,
}

/// Re-sends whose delay is in `from_seconds..=to_seconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DelayBucket {
    pub from_seconds: u16,
    pub to_seconds: u16,
    pub count: u64,
}

/// Bars of the histogram at most.
const BUCKETS: u16 = 10;
/// Characters of the longest bar.
const BAR: u64 = 40;

/// Cuts 0..=the longest delay into at most ten ranges of the same width; `counts[s]` re-sends had a delay of `s`
/// seconds.
pub fn histogram(counts: &[u64]) -> Vec<DelayBucket> {
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

impl Report {
    /// What to look at first if no call succeeded.
    pub fn hint(&self) -> Option<String> {
        let failure = self.last_failure.as_ref().filter(|_| self.processed == 0)?;
        Some(format!("no call succeeded; the last one failed with {}: check the target", escaped(failure)))
    }

    /// Why this is no success; nothing, if each line went in and each message came out.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.interrupted {
            let what = if self.all_sent { "message came out" } else { "line was sent" };
            problems.push(format!("interrupted before every {what}"));
        }
        if self.unaccounted > 0 {
            problems.push(format!("{} unaccounted for", counted(self.unaccounted, "message")));
        }
        if self.waiting > 0 {
            problems.push(format!("{} still waiting", counted(self.waiting, "message")));
        }
        if self.refused > 0 {
            problems.push(format!("lines that were refused, and not sent: {}", self.refused));
        }
        problems
    }

    pub fn table(&self) -> String {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
        let mut count = |name: &str, count: u64, always: bool| {
            if always || count > 0 {
                row(name, grouped(count));
            }
        };
        count("sent", self.sent, true);
        count("refused, not sent", self.refused, false);
        count("processed", self.processed, true);
        count("retries", self.retries, true);
        count("  paced", self.paced, false);
        count("  hops", self.hops, false);
        count("immediate retries", self.immediate_retries, false);
        count("held by the circuit breaker so often", self.holds, false);
        count("  probes: calls while it was open", self.probes, false);
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
        row(if self.is_virtual { "virtual time" } else { "time" }, span(whole(self.seconds)));
        row("SQS requests", grouped(self.requests.values().sum()));
        for (action, requests) in &self.requests {
            row(&format!("  {action}"), grouped(*requests));
        }
        table(&[], rows, [1]) + &self.bars()
    }

    fn bars(&self) -> String {
        let most = self.delays.iter().map(|bucket| bucket.count).max().unwrap_or(0);
        if most == 0 {
            return String::new();
        }
        let mut bars = "\nretries by delay\n".to_owned();
        let digits = self.delays.last().map_or(0, |bucket| bucket.to_seconds.to_string().len()).max(3);
        for DelayBucket { from_seconds, to_seconds, count } in &self.delays {
            let (bar, count) = (bar(*count, most, BAR), grouped(*count));
            let line = format!("{from_seconds:>5}–{to_seconds:<digits$} s {count:>6} {bar}");
            let _ = writeln!(bars, "{}", line.trim_end());
        }
        bars
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a few weeks at most")]
fn whole(seconds: f64) -> u64 {
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
        let buckets = histogram(&counts);
        assert_eq!(buckets.len(), 10);
        assert_eq!(
            (buckets[0], buckets[1], buckets[9]),
            (bucket(0, 90, 3), bucket(91, 181, 3), bucket(819, 909, 4))
        );
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 10);
    }

    #[test]
    fn short_delays_have_buckets_of_a_second() {
        assert_eq!(histogram(&[0, 5, 0, 0]), [bucket(0, 0, 0), bucket(1, 1, 5)]);
        assert_eq!(histogram(&[0; 901]), []);
    }
}

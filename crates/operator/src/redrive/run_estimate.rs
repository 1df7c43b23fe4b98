//! Describes the progress of a run: the completed part and the remaining time.

use redeliver_core::message::Timestamp;
use redeliver_dead_letters::redrive::RedriveProgress;

use super::describe_wait;
use crate::terminal::remaining::RemainingTime;
use crate::terminal::units::group_digits;

/// The progress of a run, and the estimated remaining time.
#[derive(Clone, Copy, Debug)]
pub struct RunEstimate {
    /// Maximum number of messages to send.
    max: u64,
    sent: u64,
    /// The number of messages read in this pass.
    seen: u64,
    /// The approximate number of messages in the queue.
    approximate: u64,
    remaining: RemainingTime,
}

impl RunEstimate {
    #[must_use]
    pub const fn new(max: u64, now: Timestamp) -> Self {
        Self { max, sent: 0, seen: 0, approximate: 0, remaining: RemainingTime::new(now) }
    }

    /// Records an event, and describes the progress as a line suffix: `, 300 of about 2,000 read, about 3m left`, or
    /// the event the run is waiting for.
    pub fn record_progress(&mut self, progress: RedriveProgress, now: Timestamp) -> String {
        match progress {
            RedriveProgress::Sent(sent) => self.sent = sent,
            RedriveProgress::Read { seen, approximate } => {
                (self.seen, self.approximate) = (seen, approximate.max(seen));
            }
            RedriveProgress::CameBack(_) | RedriveProgress::Watching(_) | RedriveProgress::Waiting(_) => {}
        }
        // The number of messages to send is known only if it is limited; otherwise, the entire DLQ is read.
        let is_limited = self.max < self.approximate;
        if let Some(wait) = describe_wait(progress) {
            // Another pass follows, and the estimate must not include time spent waiting.
            self.remaining.restart(if is_limited { self.sent } else { 0 }, now);
            return format!(", {wait}");
        }
        let (done, total) = match is_limited {
            true => (self.sent, self.max),
            false => (self.seen, self.approximate),
        };
        let part = match (is_limited, self.approximate) {
            (_, 0) => String::new(),
            (true, _) => format!(" of at most {}", group_digits(self.max)),
            (false, _) => {
                format!(", {} of about {} read", group_digits(self.seen), group_digits(self.approximate))
            }
        };
        part + &self.remaining.describe(done, total, now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redeliver_testing::dead_letters::at_seconds;

    use super::*;

    #[test]
    fn a_run_shows_how_much_of_the_queue_was_read_and_the_time_left() {
        let mut run = RunEstimate::new(u64::MAX, at_seconds(0));
        assert_eq!(run.record_progress(RedriveProgress::Sent(0), at_seconds(0)), "");
        let read = |seen| RedriveProgress::Read { seen, approximate: 2000 };
        assert_eq!(run.record_progress(read(50), at_seconds(1)), ", 50 of about 2,000 read");
        let watching = RedriveProgress::Watching(Duration::from_secs(42));
        assert_eq!(run.record_progress(watching, at_seconds(100)), ", watching the pilot, 42s left");
        // The second pass starts after the pilot, and only its own duration counts.
        assert_eq!(run.record_progress(read(60), at_seconds(102)), ", 60 of about 2,000 read");
        let shown = ", 200 of about 2,000 read, about 1m 30s left";
        for progress in [read(200), RedriveProgress::Sent(190), RedriveProgress::CameBack(1)] {
            assert_eq!(run.record_progress(progress, at_seconds(110)), shown);
        }
    }

    #[test]
    fn a_run_with_a_limit_shows_the_time_until_it_is_reached() {
        let mut run = RunEstimate::new(100, at_seconds(0));
        assert_eq!(
            run.record_progress(RedriveProgress::Read { seen: 60, approximate: 2000 }, at_seconds(5)),
            " of at most 100"
        );
        assert_eq!(
            run.record_progress(RedriveProgress::Sent(25), at_seconds(10)),
            " of at most 100, about 30s left"
        );
        let watching = RedriveProgress::Watching(Duration::from_secs(1));
        assert_eq!(run.record_progress(watching, at_seconds(60)), ", watching the pilot, 1s left");
        assert_eq!(
            run.record_progress(RedriveProgress::Sent(50), at_seconds(65)),
            " of at most 100, about 10s left"
        );
        let mut small = RunEstimate::new(100, at_seconds(0));
        let read = RedriveProgress::Read { seen: 60, approximate: 50 };
        assert_eq!(small.record_progress(read, at_seconds(5)), ", 60 of about 60 read");
    }
}

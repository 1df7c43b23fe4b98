//! A redrive: its queues and plan, its limits, and its progress.

use std::time::Duration;

use super::plan::RedrivePlan;

/// A redrive and all that it needs.
pub struct RedriveJob<'a, D, S, C> {
    pub dlq: &'a D,
    /// The queue to send them back to.
    pub source: &'a S,
    pub clock: &'a C,
    pub plan: &'a RedrivePlan,
    /// True if messages that fail again return to where they were read: true for a queue, false for a file.
    pub can_come_back: bool,
    /// The limits of a redrive.
    pub limits: RedriveLimits,
    /// Returns true to end as soon as possible (Ctrl-C).
    pub interrupted: &'a dyn Fn() -> bool,
    /// Called with the progress.
    pub progress: &'a dyn Fn(RedriveProgress),
}

/// The limits of a redrive.
#[derive(Clone, Copy, Debug)]
pub struct RedriveLimits {
    /// Messages per second; `None`: as fast as SQS answers.
    pub rate: Option<u32>,
    /// Limit on the messages that are sent.
    pub max: u64,
    /// Ends the run when more than this percentage of the sent messages failed again.
    pub stop_after_failures_percent: u8,
    /// The time for which the pilot, the first 50 messages, is watched before the rest is sent; zero: no pilot.
    pub watch: Duration,
}

impl RedriveLimits {
    /// True if more messages failed again than allowed.
    pub(super) fn are_exceeded(self, failed: u64, sent: u64) -> bool {
        failed.min(sent) * 100 > u64::from(self.stop_after_failures_percent) * sent
    }
}

/// The progress of a redrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveProgress {
    /// The messages of the DLQ that this pass has read, and about how many there are.
    Read { seen: u64, approximate: u64 },
    /// The number of messages sent back.
    Sent(u64),
    /// The number of these that are in the DLQ again.
    CameBack(u64),
    /// The pilot is watched for so long yet.
    Watching(Duration),
    /// The time for which messages may still be hidden from it.
    Waiting(Duration),
}

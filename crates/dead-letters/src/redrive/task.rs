//! A redrive: its queues and plan, its limits, and its progress.

use std::time::Duration;

use super::plan::RedrivePlan;

/// A redrive with everything it needs to run.
pub struct RedriveJob<'a, D, S, C> {
    pub dlq: &'a D,
    /// The queue to send the dead letters back to.
    pub source: &'a S,
    pub clock: &'a C,
    pub plan: &'a RedrivePlan,
    /// True if messages that fail again can return to the place they were read from: true for a queue, false for a
    /// file.
    pub can_come_back: bool,
    /// The limits of a redrive.
    pub limits: RedriveLimits,
    /// Returns true to request an early end (Ctrl-C).
    pub interrupted: &'a dyn Fn() -> bool,
    /// Called with the progress.
    pub progress: &'a dyn Fn(RedriveProgress),
}

/// The limits of a redrive.
#[derive(Clone, Copy, Debug)]
pub struct RedriveLimits {
    /// Messages per second; `None` for as fast as SQS responds.
    pub rate: Option<u32>,
    /// The maximum number of messages to send.
    pub max: u64,
    /// The run ends when more than this percentage of the sent messages have failed again.
    pub stop_after_failures_percent: u8,
    /// The time for which the pilot (the first 50 messages) is watched before the rest is sent; zero for no pilot.
    pub watch: Duration,
}

impl RedriveLimits {
    /// Returns true if more messages have failed again than the limit allows.
    pub(super) fn are_exceeded(self, failed: u64, sent: u64) -> bool {
        failed.min(sent) * 100 > u64::from(self.stop_after_failures_percent) * sent
    }
}

/// The progress of a redrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveProgress {
    /// The number of DLQ messages that this pass has read, and the approximate total.
    Read { seen: u64, approximate: u64 },
    /// The number of messages sent back.
    Sent(u64),
    /// The number of sent messages that are in the DLQ again.
    CameBack(u64),
    /// The remaining time for watching the pilot.
    Watching(Duration),
    /// The remaining time for which messages may be hidden from the run.
    Waiting(Duration),
}

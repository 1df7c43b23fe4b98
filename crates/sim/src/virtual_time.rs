//! The start of a run in virtual time.

use redeliver_core::message::Timestamp;
use redeliver_embedded::VirtualClock;

/// 2026-01-01T00:00:00Z, the same for every run, so that the same seed produces identical output.
const START_SECONDS: i64 = 1_767_225_600;

/// Returns a clock at the start of a run.
#[must_use]
pub fn clock_at_start() -> VirtualClock {
    VirtualClock::new(Timestamp::from_timestamp(START_SECONDS, 0).unwrap_or_default())
}

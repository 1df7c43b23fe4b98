//! The decoders in `crates/aws`, compiled without the rest of the crate: building the AWS SDK with coverage takes
//! longer than the fuzzing.
#![expect(unreachable_pub, reason = "public there, private here")]

#[path = "../../../crates/aws/src/received.rs"]
pub(crate) mod received;

#[path = "../../../crates/aws/src/lambda/event.rs"]
pub(crate) mod event;

#[path = "../../../crates/aws/src/targets/retry_after.rs"]
mod retry_after;

use std::time::Duration;

use redeliver_core::message::Timestamp;

/// Returns the delay that a target requests with `Retry-After`.
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    retry_after::parse_retry_after(value, now)
}

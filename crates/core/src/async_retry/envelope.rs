//! The envelope that wraps a retry's payload:
//! `{"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670},"_original_payload":…}`.

use std::ops::Range;

use crate::json::members::parse_members;

/// The highest `max_attempts` that a policy can have.
const ATTEMPTS_MAX: u32 = 1000;
/// The end of the year 9999, the last year that RFC 3339 can represent.
const TIMESTAMP_MAX: i64 = 253_402_300_799;

/// The retry state of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRetry {
    /// Number of this retry, 1 for the first.
    pub attempt: u32,
    /// Unix timestamp of the first failure, in seconds.
    pub initial_timestamp: i64,
}

/// Splits a payload into the details of this retry and the original payload, byte for byte. The details are `None` for
/// the first invocation, whose payload has no envelope.
///
/// Anyone with permission to invoke the function can write an envelope: `attempt` is a hint, not proof.
#[must_use]
pub fn read_payload(payload: &str) -> (Option<EventRetry>, &str) {
    match read_envelope(payload) {
        Some((retry, original)) => (Some(retry), &payload[original]),
        None => (None, payload),
    }
}

impl EventRetry {
    /// Wraps the original payload for this retry, without parsing it, so that its bytes do not change.
    #[must_use]
    pub(super) fn wrap_payload(self, original: &str) -> String {
        let Self { attempt, initial_timestamp } = self;
        format!(
            r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial_timestamp}}},"_original_payload":{original}}}"#
        )
    }
}

/// Parses an envelope with exactly the expected members, in any order and with any white space. Anything else is the
/// user's own payload.
fn read_envelope(payload: &str) -> Option<(EventRetry, Range<usize>)> {
    let [metadata, original] =
        exact_members(payload, 0..payload.len(), ["_retry_metadata", "_original_payload"])?;
    let [attempt, initial] = exact_members(payload, metadata, ["attempt", "initial_timestamp"])?;
    let attempt = payload[attempt].parse().ok().filter(|attempt| (1..=ATTEMPTS_MAX).contains(attempt))?;
    let initial_timestamp =
        payload[initial].parse().ok().filter(|seconds| (0..=TIMESTAMP_MAX).contains(seconds))?;
    Some((EventRetry { attempt, initial_timestamp }, original))
}

/// Returns the values of an object that has exactly these members, each once.
fn exact_members(text: &str, at: Range<usize>, names: [&str; 2]) -> Option<[Range<usize>; 2]> {
    let found = parse_members(text, at, "").ok().filter(|found| found.len() == names.len())?;
    let value = |name: &str| found.iter().find(|member| *member.name == *name.as_bytes());
    let [first, second] = names.map(value);
    Some([first?.value.clone(), second?.value.clone()])
}

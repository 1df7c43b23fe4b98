//! The envelope of a retry's payload:
//! `{"_retry_metadata":{"attempt":2,"initial_timestamp":1643667670},"_original_payload":…}`.

use std::ops::Range;

use crate::message::envelope::members;

/// The most that a policy allows.
const ATTEMPTS_MAX: u32 = 1000;
/// The end of the year 9999, the last one that RFC 3339 can write.
const TIMESTAMP_MAX: i64 = 253_402_300_799;

/// What a retried invocation knows of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Which retry it is: 1 for the first.
    pub attempt: u32,
    /// When the first invocation failed, in Unix seconds.
    pub initial_timestamp: i64,
}

/// The payload that the function was first invoked with, byte for byte, and which retry of it this invocation is;
/// `None` for the first invocation, whose payload is in no envelope.
///
/// Whoever may invoke the function can write such an envelope himself: `attempt` is a hint, not a proof.
#[must_use]
pub fn read_payload(payload: &str) -> (Option<Retry>, &str) {
    match read(payload) {
        Some((retry, original)) => (Some(retry), &payload[original]),
        None => (None, payload),
    }
}

impl Retry {
    /// The payload of this retry. The original one is not read: its bytes stay as they are.
    #[must_use]
    pub(super) fn wrap(self, original: &str) -> String {
        let Self { attempt, initial_timestamp } = self;
        format!(
            r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial_timestamp}}},"_original_payload":{original}}}"#
        )
    }
}

/// An envelope in exactly the form that we write, whatever its order and white space. All else is somebody's own
/// payload.
fn read(payload: &str) -> Option<(Retry, Range<usize>)> {
    let [metadata, original] = exactly(payload, 0..payload.len(), ["_retry_metadata", "_original_payload"])?;
    let [attempt, initial] = exactly(payload, metadata, ["attempt", "initial_timestamp"])?;
    let attempt = payload[attempt].parse().ok().filter(|attempt| (1..=ATTEMPTS_MAX).contains(attempt))?;
    let initial_timestamp =
        payload[initial].parse().ok().filter(|seconds| (0..=TIMESTAMP_MAX).contains(seconds))?;
    Some((Retry { attempt, initial_timestamp }, original))
}

/// The values of an object that has these members, each once, and no other.
fn exactly(text: &str, at: Range<usize>, names: [&str; 2]) -> Option<[Range<usize>; 2]> {
    let found = members(text, at, "").ok().filter(|found| found.len() == names.len())?;
    let value = |name: &str| found.iter().find(|member| *member.name == *name.as_bytes());
    let [first, second] = names.map(value);
    Some([first?.value.clone(), second?.value.clone()])
}

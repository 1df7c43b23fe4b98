//! Validates requests as SQS does.

mod content;

use std::time::Duration;

use redeliver_core::ports::{EntryError, FIFO_SUFFIX, Fault, QueueSettings};

pub use content::check_content;
pub(crate) use content::check_queue_type;

/// The valid retention periods: 60 seconds to 14 days ("Amazon SQS message quotas").
const RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 60..=14 * 24 * 3600;

/// Returns the error for an invalid request: a retry would fail in the same way.
pub(crate) fn sender_fault(code: &str) -> EntryError {
    EntryError::new(Fault::Sender, code)
}

/// Checks a queue's name: 1..=80 alphanumeric characters, hyphens and underscores ("CreateQueue", Amazon SQS API
/// Reference). The suffix of a FIFO queue "counts towards the 80-character queue name quota" ("Amazon SQS FIFO queue
/// quotas").
pub(crate) fn check_name(name: &str) -> Result<(), EntryError> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let stem = name.strip_suffix(FIFO_SUFFIX).unwrap_or(name);
    let is_valid = !stem.is_empty() && name.len() <= 80 && stem.bytes().all(is_legal);
    if is_valid { Ok(()) } else { Err(sender_fault("InvalidParameterValue")) }
}

/// Checks a queue's settings: a retention of 60 s to 14 days in whole seconds, and a `maxReceiveCount` of 1 to 1,000
/// ("CreateQueue").
pub(crate) fn check_settings(settings: &QueueSettings) -> Result<(), EntryError> {
    let is_count_valid =
        settings.redrive.as_ref().is_none_or(|redrive| (1..=1000).contains(&redrive.max_receive_count));
    let is_retention_valid = settings.retention == Duration::from_secs(settings.retention.as_secs())
        && RETENTION_SECONDS.contains(&settings.retention.as_secs());
    if is_count_valid && is_retention_valid { Ok(()) } else { Err(sender_fault("InvalidAttributeValue")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_at_most_80_characters_and_no_dot_except_in_its_suffix() {
        for right in ["orders", "orders.fifo", &"x".repeat(80), &format!("{}.fifo", "x".repeat(75))] {
            assert_eq!(check_name(right), Ok(()), "{right}");
        }
        for wrong in
            ["", ".fifo", "a.b", "a.b.fifo", "a.FIFO", &"x".repeat(81), &format!("{}.fifo", "x".repeat(76))]
        {
            assert_eq!(check_name(wrong), Err(sender_fault("InvalidParameterValue")), "{wrong}");
        }
    }
}

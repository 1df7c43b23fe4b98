//! The requests that SQS refuses.

mod content;

use std::time::Duration;

use redeliver_core::ports::{EntryError, Fault, QueueSettings};

pub use content::accepts;

/// "Amazon SQS message quotas": retention is 60 seconds to 14 days.
const RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 60..=14 * 24 * 3600;

/// The error of a wrong request: a retry would fail in the same way.
pub(crate) fn sender_fault(code: &str) -> EntryError {
    EntryError::new(Fault::Sender, code)
}

/// "CreateQueue", Amazon SQS API Reference: 1..=80 alphanumeric characters, hyphens and underscores. FIFO queues
/// cannot delay single messages, so their suffix (its dot) is refused here.
pub(crate) fn check_name(name: &str) -> Result<(), EntryError> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_valid = (1..=80).contains(&name.len()) && name.bytes().all(is_legal);
    if is_valid { Ok(()) } else { Err(sender_fault("InvalidParameterValue")) }
}

/// "CreateQueue": retention of 60 s to 14 days in whole seconds, `maxReceiveCount` of 1 to 1,000.
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
    fn a_fifo_queue_is_refused() {
        assert!(check_name("orders").is_ok());
        assert_eq!(check_name("orders.fifo"), Err(sender_fault("InvalidParameterValue")));
        assert!(check_name("").is_err());
        assert!(check_name(&"x".repeat(81)).is_err());
    }
}

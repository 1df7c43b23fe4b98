//! Detects that all messages are invalid, which suggests a wrong setting rather than bad messages.

use std::fmt::Display;

use super::reason::DeadLetterReason;

/// Minimum number of invalid messages before the setting is blamed.
const MESSAGES_MIN: u64 = 10;

/// The codes for invalid messages.
pub const INVALID_CODES: [&str; 2] =
    [DeadLetterReason::InvalidMessageFormat.as_str(), DeadLetterReason::InvalidMessageSchema.as_str()];

/// The setting to check in a deployment.
pub const DEPLOYED_SETTING: &str = "envelope: Envelope.OPTIONAL in the construct (ENVELOPE=optional)";

/// Returns true if there are at least 10 messages, all of them invalid.
#[must_use]
pub fn are_all_invalid(invalid: u64, all: u64) -> bool {
    invalid == all && all >= MESSAGES_MIN
}

/// Returns a description of the problem that names the setting to check.
#[must_use]
pub fn describe_all_invalid(messages: impl Display, setting: &str) -> String {
    format!(
        "all {messages} messages are invalid: if their bodies have no {{metadata, data}} envelope, set {setting}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_messages_that_are_all_invalid_suggest_a_wrong_setting() {
        let counts = [(9, 9), (10, 10), (10, 11), (0, 0), (1_000, 1_000)];
        assert_eq!(
            counts.map(|(invalid, all)| are_all_invalid(invalid, all)),
            [false, true, false, false, true]
        );
    }
}

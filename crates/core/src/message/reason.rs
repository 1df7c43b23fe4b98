//! The reasons for giving up on a message, as stable codes in the final record.

use strum::{IntoStaticStr, VariantArray, VariantNames};

use crate::json::forward_compatible::{OpenEnum, OpenVariants};

/// Size limit of a code.
const CODE_BYTES_MAX: usize = 64;

/// A reason in a document. A later version may add reasons.
pub type ReasonCode = OpenEnum<DeadLetterReason>;

/// The value of `ErrorType` in a final record.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray, VariantNames,
)]
#[strum(const_into_str, serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum DeadLetterReason {
    /// The body is not a JSON object, has a duplicate member, or is nested too deeply.
    InvalidMessageFormat,
    /// The message violates the message schema or the data schema.
    InvalidMessageSchema,
    /// The policy's `max_attempts` are used up.
    RetryAttemptExceeded,
    /// The error is permanent, according to the handler or the policy's lists.
    NonRetryableError,
    /// The next retry would come after the policy's `max_age_seconds` or after `metadata.expires_at`.
    MessageExpired,
    /// The policy's `hold_seconds_max` is used up, and the target still responds "not now".
    HoldTimeExceeded,
    /// With its retry metadata, the message would exceed the SQS size limit.
    MessageTooLarge,
    /// SQS moved the message under its redrive policy: the function that received it could not process it.
    OrchestrationFailed,
}

impl DeadLetterReason {
    pub const ALL: &[Self] = <Self as VariantArray>::VARIANTS;
    /// All codes.
    pub const CODES: &[&str] = <Self as VariantNames>::VARIANTS;

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

impl ReasonCode {
    /// Returns the code for logs and metrics, which is always from a fixed set.
    #[must_use]
    pub fn log_label(&self) -> &'static str {
        self.known().map_or("OTHER", DeadLetterReason::as_str)
    }
}

impl OpenVariants for DeadLetterReason {
    /// Returns true for a short text of capitals and underscores: the value becomes an `ErrorType`, so free text is
    /// refused.
    fn admits_unknown(unknown: &str) -> bool {
        let is_plain = |byte| matches!(byte, b'A'..=b'Z' | b'_');
        (1..=CODE_BYTES_MAX).contains(&unknown.len()) && unknown.bytes().all(is_plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_in_json_is_the_code_in_the_attribute() {
        for reason in DeadLetterReason::ALL.iter().copied() {
            let code = ReasonCode::from(reason);
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{}\"", reason.as_str()));
            assert_eq!(ReasonCode::from_text(reason.as_str()), Some(code));
        }
    }

    #[test]
    fn an_unknown_code_is_accepted_if_it_is_plain_and_short() {
        let longest = "A".repeat(64);
        for code in ["TARGET_GONE", "X", &longest] {
            assert_eq!(ReasonCode::from_text(code), Some(ReasonCode::Unknown(code.to_owned())));
        }
        let too_long = "A".repeat(65);
        for text in ["", "Mine", "HTTP 503", "A1", "\u{c4}", &too_long] {
            assert_eq!(ReasonCode::from_text(text), None, "{text}");
        }
    }
}

/// The decision to give up on a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveUp {
    /// The code in the final record.
    pub reason: DeadLetterReason,
    /// Details beyond the last error. May be empty.
    pub explanation: String,
}

impl From<DeadLetterReason> for GiveUp {
    /// Leaves the explanation empty: the last error suffices.
    fn from(reason: DeadLetterReason) -> Self {
        Self { reason, explanation: String::new() }
    }
}

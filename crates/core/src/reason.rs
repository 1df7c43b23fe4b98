//! Why a message is given up: the stable codes of a final record.

use serde::{Deserialize, Serialize};

/// The value of `ErrorType` in a final record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DeadLetterReason {
    /// Not a JSON object, a duplicate member, nested too deep.
    InvalidMessageFormat,
    /// It violates the message schema or the data schema.
    InvalidMessageSchema,
    /// The policy's `max_attempts` retries were made.
    RetryAttemptExceeded,
    /// The handler called it permanent, or the policy's lists do.
    NonRetryableError,
    /// The next retry would come after the policy's `max_age_seconds` or after `metadata.expires_at`.
    MessageExpired,
    /// The retry metadata does not fit in SQS's size limit.
    MessageTooLarge,
    /// It came by redrive: the function that received it could not handle it.
    OrchestrationFailed,
}

impl DeadLetterReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::InvalidMessageFormat,
        Self::InvalidMessageSchema,
        Self::RetryAttemptExceeded,
        Self::NonRetryableError,
        Self::MessageExpired,
        Self::MessageTooLarge,
        Self::OrchestrationFailed,
    ];

    /// The reason of a code; `None` for what is none of ours.
    #[must_use]
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == code)
    }

    /// The code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidMessageFormat => "INVALID_MESSAGE_FORMAT",
            Self::InvalidMessageSchema => "INVALID_MESSAGE_SCHEMA",
            Self::RetryAttemptExceeded => "RETRY_ATTEMPT_EXCEEDED",
            Self::NonRetryableError => "NON_RETRYABLE_ERROR",
            Self::MessageExpired => "MESSAGE_EXPIRED",
            Self::MessageTooLarge => "MESSAGE_TOO_LARGE",
            Self::OrchestrationFailed => "ORCHESTRATION_FAILED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_in_json_is_the_code_in_the_attribute() {
        for reason in DeadLetterReason::ALL {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{}\"", reason.as_str()));
            assert_eq!(DeadLetterReason::from_code(reason.as_str()), Some(reason));
        }
    }
}

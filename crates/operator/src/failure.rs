//! Command errors that have their own exit codes.

use redeliver_dead_letters::{ExitCode, FilterError};
use thiserror::Error;

use crate::CommandFailure;

/// An error in the arguments that clap cannot detect, such as `--since` after `--until`. The exit code is 2.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UsageError(String);

impl UsageError {
    /// Creates an error from a sentence that names the option, the problem, and a correct alternative.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// The error from a command that a signal interrupted before it had anything to report. The exit code is 130.
#[derive(Debug, Error)]
#[error("interrupted before {0}")]
pub struct InterruptedError(pub &'static str);

/// Returns the exit code for an error: 2 for incorrect usage and for an invalid jq filter, 130 for an interrupt, and 1
/// otherwise.
pub fn failure_exit_code(failure: &CommandFailure) -> ExitCode {
    if failure.is::<UsageError>() || matches!(failure.downcast_ref(), Some(FilterError::Compile { .. })) {
        return ExitCode::Usage;
    }
    if failure.is::<InterruptedError>() {
        return ExitCode::Interrupted;
    }
    ExitCode::Failed
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::Filter;

    use super::*;

    #[test]
    fn usage_errors_and_interrupts_have_their_own_exit_codes() {
        let wrong = Filter::for_dead_letters("[").unwrap_err();
        for (failure, code) in [
            (UsageError::new("name a queue").into(), ExitCode::Usage),
            (wrong.into(), ExitCode::Usage),
            (InterruptedError("anything was read").into(), ExitCode::Interrupted),
            ("no such queue".into(), ExitCode::Failed),
        ] {
            assert_eq!(failure_exit_code(&failure), code, "{failure}");
        }
    }
}

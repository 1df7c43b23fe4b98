//! The settings of all functions that a process runs, and what is wrong with any of them in one message.

use std::time::Duration;

use redeliver_aws::settings::{
    FailedMessageProcessorSettings, FinalDlqAnnotatorSettings, MessageProcessorSettings, OwnFunctionSettings,
    SettingsError, TargetSettings, polled_queue_url, queue_url_if_set,
};
use redeliver_aws::targets::{Command, DEFAULT_TIMEOUT};
use redeliver_core::strategy::Role;
use thiserror::Error;

use super::FunctionName;
use super::queues::{ASSUMED, Queues, Retrying};

/// A function that is not run has none.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// With `SOURCE_QUEUE_URL`.
    pub(super) message_processor: Option<(MessageProcessorSettings, Called, String)>,
    /// They name the queue that it polls.
    pub(super) failed_message_processor: Option<FailedMessageProcessorSettings>,
    /// With `ANNOTATION_QUEUE_URL`.
    pub(super) final_dlq_annotator: Option<(FinalDlqAnnotatorSettings, String)>,
}

/// The message-processor's target.
#[derive(Debug)]
pub(super) enum Called {
    Target(TargetSettings),
    OwnFunction(Command, OwnFunctionSettings),
}

impl Called {
    fn from_env(exec: Option<&Command>) -> Result<(MessageProcessorSettings, Self), SettingsError> {
        let Some(command) = exec else {
            let (settings, target) = MessageProcessorSettings::with_target_from_env()?;
            return Ok((settings, Self::Target(target)));
        };
        let (settings, own) = MessageProcessorSettings::with_own_function_from_env()?;
        Ok((settings, Self::OwnFunction(command.clone(), own)))
    }
}

impl Settings {
    /// Reads them from the environment.
    pub(super) fn of(functions: &[FunctionName], exec: Option<&Command>) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        let mut wrong = Wrong(None);
        for function in functions {
            match function {
                FunctionName::MessageProcessor => {
                    let own = wrong.note(Called::from_env(exec));
                    let queue = wrong.note(polled_queue_url(function.polls().setting()));
                    settings.message_processor =
                        own.zip(queue).map(|((processor, called), queue)| (processor, called, queue));
                }
                FunctionName::FailedMessageProcessor => {
                    settings.failed_message_processor =
                        wrong.note(FailedMessageProcessorSettings::from_env());
                }
                FunctionName::FinalDlqAnnotator => {
                    let own = wrong.note(FinalDlqAnnotatorSettings::from_env());
                    let queue = wrong.note(polled_queue_url(function.polls().setting()));
                    settings.final_dlq_annotator = own.zip(queue);
                }
            }
        }
        wrong.0.map_or(Ok(settings), Err)
    }

    /// The queues that the environment names, also those that are not used here.
    pub(super) fn queues(&self, invocation: Duration) -> Queues {
        let named = |role: Role| Some((role, queue_url_if_set(role.setting())?));
        let retrying = match &self.message_processor {
            Some((settings, ..)) => Some(Retrying {
                strategy: settings.on_failure.strategy(),
                max_attempts: settings.policy.max_attempts,
                queue_times: settings.on_failure.queue_times(),
            }),
            // Where it runs, messages are handed off.
            None => self.failed_message_processor.is_some().then_some(ASSUMED),
        };
        let urls = Role::ALL.iter().copied().filter_map(named).collect();
        Queues { urls, retrying, invocation: invocation.as_secs() }
    }
}

/// What a call leaves of a batch's time: to hand the message off, and to delete it.
const RESERVE: Duration = Duration::from_secs(5);

/// The target would have more time than a batch.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "TARGET_TIMEOUT_SECONDS is {target}, and a batch has {invocation} s (--invocation), of which 5 s are for handing off \
     what failed; set TARGET_TIMEOUT_SECONDS to {} at most, or --invocation to {}s at least",
    (.invocation.saturating_sub(5)).max(1),
    .target + 5
)]
pub(super) struct TooLong {
    target: u64,
    invocation: u64,
}

/// A call's time within a batch's: as it is set, else 30 s or what the batch leaves.
pub(super) fn target_timeout(set: Option<Duration>, invocation: Duration) -> Result<Duration, TooLong> {
    let longest = invocation.saturating_sub(RESERVE);
    match set {
        Some(set) if set > longest => {
            Err(TooLong { target: set.as_secs(), invocation: invocation.as_secs() })
        }
        Some(set) => Ok(set),
        // A batch that has less than that itself is cut off at its own end.
        None => Ok(DEFAULT_TIMEOUT.min(longest).max(Duration::from_secs(1))),
    }
}

/// What was wrong so far.
struct Wrong(Option<SettingsError>);

impl Wrong {
    fn note<T>(&mut self, read: Result<T, SettingsError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.0 = Some(match self.0.take() {
                    Some(others) => others.and(error),
                    None => error,
                });
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(set: Option<u64>, invocation: u64) -> Result<u64, String> {
        let timeout = target_timeout(set.map(Duration::from_secs), Duration::from_secs(invocation));
        timeout.map(|timeout| timeout.as_secs()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_call_that_ends_after_its_batch_could_not_be_handed_off_and_is_refused() {
        assert_eq!(timeout(Some(25), 30), Ok(25));
        assert_eq!(
            timeout(Some(26), 30).unwrap_err(),
            "TARGET_TIMEOUT_SECONDS is 26, and a batch has 30 s (--invocation), of which 5 s are for handing off what \
             failed; set TARGET_TIMEOUT_SECONDS to 25 at most, or --invocation to 31s at least"
        );
        assert!(timeout(Some(1), 5).is_err());
    }

    #[test]
    fn without_a_setting_a_call_has_thirty_seconds_or_what_its_batch_leaves() {
        assert_eq!(
            [900, 35, 30, 9, 6, 1].map(|seconds| timeout(None, seconds).unwrap()),
            [30, 30, 25, 4, 1, 1]
        );
    }
}

//! The settings for all functions in a process; any errors in them are reported in one message.

use std::time::Duration;

use redeliver_aws::settings::{
    FailedMessageProcessorSettings, FinalDlqAnnotatorSettings, MessageProcessorSettings, OwnFunctionSettings,
    QueueKind, SettingsError, TargetSettings, polled_queue_url, queue_url_if_set,
};
use redeliver_aws::start::StartError;
use redeliver_aws::targets::{DEFAULT_TIMEOUT, RuntimeCommand};
use redeliver_core::strategy::Role;
use thiserror::Error;

use crate::functions::{FunctionName, WorkerFunctions};
use crate::options::WorkerOptions;
use crate::queues::{ASSUMED_RETRIES, NamedQueues, RetrySetup};

/// The settings of each function; `None` for a function that this process does not run.
#[derive(Debug, Default)]
pub(crate) struct WorkerSettings {
    pub(crate) message_processor: Option<MessageProcessorSetup>,
    pub(crate) failed_message_processor: Option<FailedMessageProcessorSettings>,
    pub(crate) final_dlq_annotator: Option<FinalDlqAnnotatorSettings>,
}

/// The settings of the message-processor, and its target.
#[derive(Debug)]
pub(crate) struct MessageProcessorSetup {
    pub(crate) settings: MessageProcessorSettings,
    pub(crate) call: CallTarget,
}

/// The message-processor's target.
#[derive(Debug)]
pub(crate) enum CallTarget {
    Target(TargetSettings),
    OwnFunction(RuntimeCommand, OwnFunctionSettings),
}

impl WorkerSettings {
    /// Reads the settings from the environment, and ensures that a call to the target times out before its batch does.
    pub(crate) fn read_settings(options: &WorkerOptions) -> Result<Self, StartError> {
        let WorkerOptions { functions, exec, limits, .. } = options;
        if exec.is_some() && !functions.has_function(FunctionName::MessageProcessor) {
            return Err("--exec needs the message-processor: add it to the functions, or omit --exec".into());
        }
        let mut settings = Self::from_env(functions, exec.as_ref())?;
        if let Some(MessageProcessorSetup { call: CallTarget::Target(target), .. }) =
            &mut settings.message_processor
        {
            target.timeout = Some(target_timeout(target.timeout, limits.invocation)?);
        }
        Ok(settings)
    }

    fn from_env(functions: &WorkerFunctions, exec: Option<&RuntimeCommand>) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        let mut errors = SettingsErrors(None);
        // Known before the annotator's settings are read, since the message-processor comes first.
        let mut is_fifo = false;
        for function in functions.iter() {
            match function {
                FunctionName::MessageProcessor => {
                    settings.message_processor = errors.collect_error(MessageProcessorSetup::from_env(exec));
                    is_fifo = settings.message_processor.as_ref().is_some_and(MessageProcessorSetup::is_fifo);
                    let kind = if is_fifo { QueueKind::Fifo } else { QueueKind::Standard };
                    errors.collect_error(polled_queue_url(function.polled_role().setting_name(), kind));
                }
                FunctionName::FailedMessageProcessor => {
                    settings.failed_message_processor =
                        errors.collect_error(FailedMessageProcessorSettings::from_env());
                }
                FunctionName::FinalDlqAnnotator => {
                    settings.final_dlq_annotator =
                        errors.collect_error(FinalDlqAnnotatorSettings::from_env());
                    errors.collect_error(polled_queue_url(
                        function.polled_role().setting_name(),
                        QueueKind::Standard,
                    ));
                    // If nothing polled this queue, messages that SQS moves there would be deleted at the end of their
                    // retention.
                    if is_fifo || queue_url_if_set(Role::SourceDlq.setting_name()).is_some() {
                        errors
                            .collect_error(polled_queue_url(Role::SourceDlq.setting_name(), QueueKind::Fifo));
                    }
                }
            }
        }
        errors.0.map_or(Ok(settings), Err)
    }

    /// Returns the queues named in the environment, even if this process does not use them.
    pub(crate) fn named_queues(&self, invocation: Duration) -> NamedQueues {
        let named = |role: Role| Some((role, queue_url_if_set(role.setting_name())?));
        let retrying = match &self.message_processor {
            Some(MessageProcessorSetup { settings, .. }) => Some(RetrySetup {
                strategy: settings.on_failure.strategy(),
                max_attempts: settings.policy.max_attempts,
                queue_times: settings.on_failure.queue_times(),
            }),
            // The failed-message-processor only runs where messages are handed off.
            None => self.failed_message_processor.is_some().then_some(ASSUMED_RETRIES),
        };
        let urls = Role::ALL.iter().copied().filter_map(named).collect();
        NamedQueues { urls, retrying, invocation: invocation.as_secs() }
    }
}

impl MessageProcessorSetup {
    fn from_env(exec: Option<&RuntimeCommand>) -> Result<Self, SettingsError> {
        let Some(command) = exec else {
            let (settings, target) = MessageProcessorSettings::with_target_from_env()?;
            return Ok(Self { settings, call: CallTarget::Target(target) });
        };
        let (settings, own) = MessageProcessorSettings::with_own_function_from_env()?;
        Ok(Self { settings, call: CallTarget::OwnFunction(command.clone(), own) })
    }

    fn is_fifo(&self) -> bool {
        self.settings.on_failure.strategy().definition().is_fifo
    }
}

/// The part of a batch's time limit that is reserved for hand-offs and deletions.
const RESERVE: Duration = Duration::from_secs(5);

#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "TARGET_TIMEOUT_SECONDS is {target}, and a batch has {invocation} s (--invocation), of which 5 s are reserved \
     for handing off failed messages; set TARGET_TIMEOUT_SECONDS to at most {}, or --invocation to at least {}s",
    (.invocation.saturating_sub(5)).max(1),
    .target + 5
)]
pub(crate) struct TargetTimeoutTooLong {
    target: u64,
    invocation: u64,
}

/// Returns the timeout for a call: the configured value, or by default 30 s, or less if a batch has less than 35 s.
pub(crate) fn target_timeout(
    set: Option<Duration>,
    invocation: Duration,
) -> Result<Duration, TargetTimeoutTooLong> {
    let longest = invocation.saturating_sub(RESERVE);
    match set {
        Some(set) if set > longest => {
            Err(TargetTimeoutTooLong { target: set.as_secs(), invocation: invocation.as_secs() })
        }
        Some(set) => Ok(set),
        // If the batch has less time left than this, it is aborted at its own deadline.
        None => Ok(DEFAULT_TIMEOUT.min(longest).max(Duration::from_secs(1))),
    }
}

/// The errors collected so far.
struct SettingsErrors(Option<SettingsError>);

impl SettingsErrors {
    fn collect_error<T>(&mut self, read: Result<T, SettingsError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                self.0 = Some(match self.0.take() {
                    Some(others) => others.merge_with(error),
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
    fn a_target_timeout_too_long_for_its_batch_is_refused() {
        assert_eq!(timeout(Some(25), 30), Ok(25));
        assert_eq!(
            timeout(Some(26), 30).unwrap_err(),
            "TARGET_TIMEOUT_SECONDS is 26, and a batch has 30 s (--invocation), of which 5 s are reserved for handing \
             off failed messages; set TARGET_TIMEOUT_SECONDS to at most 25, or --invocation to at least 31s"
        );
        assert!(timeout(Some(1), 5).is_err());
    }

    #[test]
    fn the_default_timeout_is_thirty_seconds_or_less_for_a_shorter_batch() {
        assert_eq!(
            [900, 35, 30, 9, 6, 1].map(|seconds| timeout(None, seconds).unwrap()),
            [30, 30, 25, 4, 1, 1]
        );
    }
}

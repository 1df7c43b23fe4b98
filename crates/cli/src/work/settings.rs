//! The settings of all functions that a process runs, and what is wrong with any of them in one message.

use redeliver_aws::settings::{
    FailedMessageProcessorSettings, FinalDlqAnnotatorSettings, MessageProcessorSettings, SettingsError,
    TargetSettings, polled_queue_url,
};

use super::FunctionName;

/// A function that is not run has none.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// With `SOURCE_QUEUE_URL`.
    pub(super) message_processor: Option<(MessageProcessorSettings, TargetSettings, String)>,
    /// They name the queue that it polls.
    pub(super) failed_message_processor: Option<FailedMessageProcessorSettings>,
    /// With `ANNOTATION_QUEUE_URL`.
    pub(super) final_dlq_annotator: Option<(FinalDlqAnnotatorSettings, String)>,
}

impl Settings {
    /// Reads them from the environment.
    ///
    /// # Errors
    /// All that is missing or wrong.
    pub(super) fn of(functions: &[FunctionName]) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        let mut wrong = Wrong(None);
        for function in functions {
            match function {
                FunctionName::MessageProcessor => {
                    let own = wrong.note(MessageProcessorSettings::with_target_from_env());
                    let queue = wrong.note(polled_queue_url("SOURCE_QUEUE_URL"));
                    settings.message_processor =
                        own.zip(queue).map(|((processor, target), queue)| (processor, target, queue));
                }
                FunctionName::FailedMessageProcessor => {
                    settings.failed_message_processor =
                        wrong.note(FailedMessageProcessorSettings::from_env());
                }
                FunctionName::FinalDlqAnnotator => {
                    let own = wrong.note(FinalDlqAnnotatorSettings::from_env());
                    let queue = wrong.note(polled_queue_url("ANNOTATION_QUEUE_URL"));
                    settings.final_dlq_annotator = own.zip(queue);
                }
            }
        }
        wrong.0.map_or(Ok(settings), Err)
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

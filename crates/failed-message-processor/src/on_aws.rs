//! The failed-message-processor on AWS: SQS and the system clock, with the caller's observer.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::FailedMessageProcessorSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::ports::Observer;
use redeliver_core::redelivery::Redelivery;

use crate::FailedMessageProcessor;

/// The default name in logs and metrics.
pub const NAME: &str = "failed-message-processor";

/// Runs a failed-message-processor in Lambda until the process is stopped. If its settings are invalid, it logs all
/// errors in one message and does not start.
pub async fn run() -> ExitCode {
    start::run(NAME, async {
        let settings = FailedMessageProcessorSettings::from_env()?;
        let lines = JsonLinesObserver::for_stdout(NAME, settings.logging);
        Ok(FailedMessageProcessor::on_aws(settings, &start::sdk_config().await, lines))
    })
    .await
}

impl<O: Observer> FailedMessageProcessor<SqsQueue, SystemClock, O> {
    /// Creates a failed-message-processor with these settings, for Lambda or any other environment.
    #[must_use]
    pub fn on_aws(settings: FailedMessageProcessorSettings, config: &SdkConfig, observer: O) -> Self {
        let client = start::sqs_client(config);
        Self {
            redelivery: Redelivery {
                source_queue: start::queue_sender(&client, settings.source_queue_url),
                intermediate_dlq: start::queue_sender(&client, settings.intermediate_dlq_url),
            },
            annotation_queue: start::queue_sender(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer,
            schema: settings.schema,
            resenders: settings.resenders,
            policy: settings.policy,
        }
    }
}

//! The async-retry-handler on AWS: SQS, Lambda and the system clock, with the caller's observer.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::AsyncRetryHandlerSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::targets::LambdaInvoker;
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::ports::Observer;

use crate::AsyncRetryHandler;

/// The default name in logs and metrics.
pub const NAME: &str = "async-retry-handler";

/// Runs an async-retry-handler in Lambda until the process is stopped. If its settings are invalid, it logs all errors
/// in one message and does not start.
pub async fn run() -> ExitCode {
    start::run(NAME, async {
        let settings = AsyncRetryHandlerSettings::from_env()?;
        let lines = JsonLinesObserver::for_stdout(NAME, settings.logging);
        Ok(AsyncRetryHandler::on_aws(settings, &start::sdk_config().await, lines))
    })
    .await
}

impl<O: Observer> AsyncRetryHandler<LambdaInvoker, SqsQueue, SystemClock, O> {
    /// Creates an async-retry-handler with these settings, for Lambda or any other environment.
    #[must_use]
    pub fn on_aws(settings: AsyncRetryHandlerSettings, config: &SdkConfig, observer: O) -> Self {
        let client = start::sqs_client(config);
        Self {
            invoker: LambdaInvoker::new(config),
            retry_queue: start::queue_sender(&client, settings.retry_queue_url),
            annotation_queue: start::queue_sender(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer,
            policy: settings.policy,
            functions: settings.functions,
        }
    }
}

//! The async-retry handler as it runs: on SQS and Lambda, in real time, with an observer of the caller's choice.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::AsyncRetryHandlerSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::targets::LambdaInvoker;
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::ports::Observer;

use crate::AsyncRetryHandler;

/// Its name in logs and metrics, if neither Lambda nor anybody else has given it another.
pub const NAME: &str = "async-retry-handler";

/// Runs an async-retry handler in Lambda until the process is stopped. If its settings are not right it says so, all in
/// one message, and does not run.
pub async fn run() -> ExitCode {
    start::run(NAME, async {
        let settings = AsyncRetryHandlerSettings::from_env()?;
        let lines = JsonLines::stdout(NAME, settings.logging);
        Ok(AsyncRetryHandler::on_aws(settings, &start::sdk_config().await, lines))
    })
    .await
}

impl<O: Observer> AsyncRetryHandler<LambdaInvoker, SqsQueue, SystemClock, O> {
    /// An async-retry handler with these settings, in Lambda or anywhere else.
    #[must_use]
    pub fn on_aws(settings: AsyncRetryHandlerSettings, config: &SdkConfig, observer: O) -> Self {
        let client = start::sqs_client(config);
        Self {
            invoker: LambdaInvoker::new(config),
            retry_queue: start::queue(&client, settings.retry_queue_url),
            annotation_queue: start::queue(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer,
            policy: settings.policy,
            functions: settings.functions,
        }
    }
}

//! The async-retry handler in Lambda.

use std::process::ExitCode;

use redeliver_async_retry_handler::AsyncRetryHandler;
use redeliver_aws::SystemClock;
use redeliver_aws::settings::AsyncRetryHandlerSettings;
use redeliver_aws::start;
use redeliver_aws::targets::LambdaInvoker;
use redeliver_aws::telemetry::JsonLines;

const NAME: &str = "async-retry-handler";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::run(NAME, async {
        let settings = AsyncRetryHandlerSettings::from_env()?;
        let config = start::sdk_config().await;
        let client = start::sqs_client(&config);
        Ok(AsyncRetryHandler {
            invoker: LambdaInvoker::new(&config),
            retry_queue: start::queue(&client, settings.retry_queue_url),
            annotation_queue: start::queue(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer: JsonLines::stdout(NAME),
            policy: settings.policy,
            functions: settings.functions,
        })
    })
    .await
}

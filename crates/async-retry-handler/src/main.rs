//! The async-retry handler in Lambda.

use std::process::ExitCode;

use redeliver_async_retry_handler::{AsyncRetryHandler, NAME};
use redeliver_aws::settings::AsyncRetryHandlerSettings;
use redeliver_aws::start;
use redeliver_aws::telemetry::JsonLines;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::run(NAME, async {
        let settings = AsyncRetryHandlerSettings::from_env()?;
        Ok(AsyncRetryHandler::on_aws(settings, &start::sdk_config().await, JsonLines::stdout(NAME)))
    })
    .await
}

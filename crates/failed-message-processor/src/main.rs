//! The failed-message processor in Lambda.

use std::process::ExitCode;

use redeliver_aws::settings::FailedMessageProcessorSettings;
use redeliver_aws::start;
use redeliver_aws::telemetry::JsonLines;
use redeliver_failed_message_processor::{FailedMessageProcessor, NAME};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::run(NAME, async {
        let settings = FailedMessageProcessorSettings::from_env()?;
        Ok(FailedMessageProcessor::on_aws(settings, &start::sdk_config().await, JsonLines::stdout(NAME)))
    })
    .await
}

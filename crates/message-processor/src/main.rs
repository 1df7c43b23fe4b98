//! The message processor that calls `TARGET`: an HTTP endpoint or a Lambda function.

use std::process::ExitCode;
use std::sync::Arc;

use redeliver_aws::settings::MessageProcessorSettings;
use redeliver_aws::start;
use redeliver_aws::telemetry::JsonLines;
use redeliver_message_processor::{NAME, run_prepared};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run_prepared(async {
        let (settings, target) = MessageProcessorSettings::with_target_from_env()?;
        let config = start::sdk_config().await;
        let target = start::target(&config, target, Arc::new(JsonLines::stdout(NAME))).await?;
        Ok((settings, config, target))
    })
    .await
}

//! The failed-message processor in Lambda.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::FailedMessageProcessorSettings;
use redeliver_aws::start;
use redeliver_aws::telemetry::JsonLines;
use redeliver_failed_message_processor::FailedMessageProcessor;

const NAME: &str = "failed-message-processor";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::run(NAME, async {
        let settings = FailedMessageProcessorSettings::from_env()?;
        let client = start::sqs_client(&start::sdk_config().await);
        Ok(FailedMessageProcessor {
            source_queue: start::queue(&client, settings.source_queue_url),
            intermediate_dlq: start::queue(&client, settings.intermediate_dlq_url),
            annotation_queue: start::queue(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer: JsonLines::stdout(NAME),
            schema: settings.schema,
            policy: settings.policy,
        })
    })
    .await
}

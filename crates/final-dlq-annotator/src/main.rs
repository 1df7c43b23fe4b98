//! The final-DLQ annotator in Lambda.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::FinalDlqAnnotatorSettings;
use redeliver_aws::start;
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::schema::MessageSchema;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;

const NAME: &str = "final-dlq-annotator";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::run(NAME, async {
        let settings = FinalDlqAnnotatorSettings::from_env()?;
        let client = start::sqs_client(&start::sdk_config().await);
        Ok(FinalDlqAnnotator {
            final_dlq: start::queue(&client, settings.final_dlq_url),
            clock: SystemClock,
            observer: JsonLines::stdout(NAME),
            schema: MessageSchema::default(),
        })
    })
    .await
}

//! The final-DLQ annotator in Lambda.

use std::process::ExitCode;

use redeliver_aws::settings::FinalDlqAnnotatorSettings;
use redeliver_aws::start;
use redeliver_aws::telemetry::JsonLines;
use redeliver_final_dlq_annotator::{FinalDlqAnnotator, NAME};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    start::run(NAME, async {
        let settings = FinalDlqAnnotatorSettings::from_env()?;
        Ok(FinalDlqAnnotator::on_aws(settings, &start::sdk_config().await, JsonLines::stdout(NAME)))
    })
    .await
}

//! The final-dlq-annotator on AWS: SQS and real time, with the caller's observer.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::FinalDlqAnnotatorSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::ports::Observer;

use crate::FinalDlqAnnotator;

/// Its default name in logs and metrics.
pub const NAME: &str = "final-dlq-annotator";

/// Runs a final-dlq-annotator in Lambda until the process is stopped. If its settings are invalid, it logs all errors
/// in one message and does not run.
pub async fn run() -> ExitCode {
    start::run(NAME, async {
        let settings = FinalDlqAnnotatorSettings::from_env()?;
        let lines = JsonLines::stdout(NAME, settings.logging);
        Ok(FinalDlqAnnotator::on_aws(settings, &start::sdk_config().await, lines))
    })
    .await
}

impl<O: Observer> FinalDlqAnnotator<SqsQueue, SystemClock, O> {
    /// A final-dlq-annotator with these settings, for Lambda or any other environment.
    #[must_use]
    pub fn on_aws(settings: FinalDlqAnnotatorSettings, config: &SdkConfig, observer: O) -> Self {
        Self {
            final_dlq: start::queue(&start::sqs_client(config), settings.final_dlq_url),
            clock: SystemClock,
            observer,
        }
    }
}

//! The final-DLQ annotator as it runs: on SQS, in real time, its events as JSON lines.

use std::io::Stdout;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::FinalDlqAnnotatorSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::schema::MessageSchema;

use crate::FinalDlqAnnotator;

/// Its name in logs and metrics, where neither Lambda nor anybody else has given it another.
pub const NAME: &str = "final-dlq-annotator";

impl FinalDlqAnnotator<SqsQueue, SystemClock, JsonLines<SystemClock, Stdout>> {
    /// A final-DLQ annotator with these settings, in Lambda or anywhere else; `name` is its name in logs and metrics, where
    /// Lambda has given it no other.
    #[must_use]
    pub fn on_aws(settings: FinalDlqAnnotatorSettings, config: &SdkConfig, name: &str) -> Self {
        Self {
            final_dlq: start::queue(&start::sqs_client(config), settings.final_dlq_url),
            clock: SystemClock,
            observer: JsonLines::stdout(name),
            schema: MessageSchema::default(),
        }
    }
}

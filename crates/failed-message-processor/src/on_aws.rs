//! The failed-message processor as it runs: on SQS, in real time, its events as JSON lines.

use std::io::Stdout;

use redeliver_aws::SystemClock;
use redeliver_aws::settings::FailedMessageProcessorSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::telemetry::JsonLines;

use crate::{FailedMessageProcessor, Pacer};

/// Its name in logs and metrics, where neither Lambda nor anybody else has given it another.
pub const NAME: &str = "failed-message-processor";

impl FailedMessageProcessor<SqsQueue, SystemClock, JsonLines<SystemClock, Stdout>> {
    /// A failed-message processor with these settings, in Lambda or anywhere else; `name` is its name in logs and metrics, where
    /// Lambda has given it no other.
    #[must_use]
    pub fn on_aws(settings: FailedMessageProcessorSettings, config: &SdkConfig, name: &str) -> Self {
        let client = start::sqs_client(config);
        Self {
            source_queue: start::queue(&client, settings.source_queue_url),
            intermediate_dlq: start::queue(&client, settings.intermediate_dlq_url),
            annotation_queue: start::queue(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer: JsonLines::stdout(name),
            schema: settings.schema,
            policy: settings.policy,
            pacer: Pacer::default(),
        }
    }
}

//! The message processor as it runs: on SQS, in real time, its events where they are wanted.

use redeliver_aws::SystemClock;
use redeliver_aws::settings::{MessageProcessorSettings, StrategySettings};
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_core::ports::Observer;

use crate::{MessageProcessor, Strategy};

impl<H, O: Observer> MessageProcessor<H, SqsQueue, SystemClock, O> {
    /// A message processor with these settings, in Lambda or anywhere else.
    #[must_use]
    pub fn on_aws(handler: H, settings: MessageProcessorSettings, config: &SdkConfig, observer: O) -> Self {
        let client = start::sqs_client(config);
        Self {
            handler,
            strategy: match settings.strategy {
                StrategySettings::DelayedResend { intermediate_dlq_url } => {
                    Strategy::DelayedResend { intermediate_dlq: start::queue(&client, intermediate_dlq_url) }
                }
                StrategySettings::Visibility { source_queue_url, queue } => {
                    let source_queue = start::queue(&client, source_queue_url);
                    Strategy::Visibility { source_queue, settings: queue }
                }
            },
            policy: settings.policy,
            annotation_queue: start::queue(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer,
            schema: settings.schema,
            max_concurrency: settings.max_concurrency,
        }
    }
}

//! The message-processor on AWS: SQS and the system clock, with the caller's observer.

use std::process::ExitCode;
use std::sync::Arc;

use futures_util::join;
use redeliver_aws::SystemClock;
use redeliver_aws::settings::MessageProcessorSettings;
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::stderr;
pub use redeliver_aws::targets::RuntimeCommand;
use redeliver_aws::targets::Target;
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::handler::Handler;
use redeliver_core::ports::Observer;

use crate::{MessageProcessor, SharedBreaker};

/// The default name in logs and metrics.
pub const NAME: &str = "message-processor";

/// Runs a message-processor with this handler in Lambda until the process is stopped.
///
/// It reads the message-processor's settings except `TARGET`. If any are invalid, it logs all errors in one message and
/// does not start.
pub async fn run(handler: impl Handler) -> ExitCode {
    start::run(NAME, async {
        let settings = MessageProcessorSettings::from_env()?;
        let lines = JsonLinesObserver::for_stdout(NAME, settings.logging).with_schema(&settings.schema);
        Ok(MessageProcessor::on_aws(handler, settings, &start::sdk_config().await, lines))
    })
    .await
}

/// Runs a message-processor that calls `TARGET`, an HTTP endpoint or a Lambda function; otherwise like [`run`].
pub async fn run_with_target() -> ExitCode {
    start::run(NAME, async {
        let (settings, target) = MessageProcessorSettings::with_target_from_env()?;
        if let Some(remark) = target.secret_warning() {
            stderr::write_line(format_args!("warning: {remark}"));
        }
        let config = start::sdk_config().await;
        let lines =
            Arc::new(JsonLinesObserver::for_stdout(NAME, settings.logging).with_schema(&settings.schema));
        let observer: Arc<dyn Observer> = lines;
        let target = start::build_target(&config, target, Arc::clone(&observer)).await?;
        Ok(MessageProcessor::on_aws(target, settings, &config, observer))
    })
    .await
}

/// Runs a message-processor around the user's own function, in any language: `command` starts the function's runtime as
/// a child process. Otherwise like [`run`].
pub async fn run_with_own_function(command: RuntimeCommand) -> ExitCode {
    start::run_with_guest(NAME, async {
        let (settings, own) = MessageProcessorSettings::with_own_function_from_env()?;
        let lines =
            Arc::new(JsonLinesObserver::for_stdout(NAME, settings.logging).with_schema(&settings.schema));
        let observer: Arc<dyn Observer> = lines;
        // Both take time, so they run concurrently.
        let started = start::start_own_function(command, own, Arc::clone(&observer));
        let (function, config) = join!(started, start::sdk_config());
        let function = function?;
        let handler = Target::OwnFunction(Arc::clone(&function));
        Ok((MessageProcessor::on_aws(handler, settings, &config, observer), function))
    })
    .await
}

impl<H, O: Observer> MessageProcessor<H, SqsQueue, SystemClock, O> {
    /// Creates a message-processor with these settings, for Lambda or any other environment.
    #[must_use]
    pub fn on_aws(handler: H, settings: MessageProcessorSettings, config: &SdkConfig, observer: O) -> Self {
        let client = start::sqs_client(config);
        Self {
            handler,
            on_failure: settings.on_failure.map_queues(|url| start::queue_sender(&client, url)),
            breaker: SharedBreaker::from_policy(&settings.policy),
            policy: settings.policy,
            annotation_queue: start::queue_sender(&client, settings.annotation_queue_url),
            clock: SystemClock,
            observer,
            schema: settings.schema,
            resenders: settings.resenders,
            max_concurrency: settings.max_concurrency,
        }
    }
}

//! From settings to workers: everything is checked before anything is received.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use redeliver_aws::SystemClock;
use redeliver_aws::start::{self, StartError};
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::ports::{Clock as _, Function, Queue as _};
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::MessageProcessor;
use thiserror::Error;

use super::settings::Settings;
use super::{Arguments, FunctionName, Health, Stop, Vitals, Worker};
use crate::connection::KnownQueue;

/// All that is to run.
pub(super) struct Prepared {
    /// Each ends once the stop is requested and what it has received is handled.
    pub(super) workers: Vec<LocalBoxFuture<'static, ()>>,
    /// Their health.
    pub(super) health: Health,
}

/// Messages would come back while they are still being handled.
#[derive(Debug, PartialEq, Eq, Error)]
#[error(
    "{url}: its visibility timeout is {visibility} s, and a batch may take {invocation} s (--invocation-seconds), so messages \
     would come back while they are being handled; set the visibility timeout to {} s, which is six times as much, or give less \
     time to a batch",
    (.invocation * 6).min(43_200)
)]
pub(super) struct TooShort {
    url: String,
    visibility: u64,
    invocation: u64,
}

/// Makes the workers.
///
/// # Errors
/// If settings are missing or wrong, a queue cannot be used, or the target's headers cannot be read.
pub(super) async fn prepare(arguments: &Arguments, stop: &Stop) -> Result<Prepared, StartError> {
    let settings = Settings::of(&arguments.functions())?;
    let config = arguments.connection.sdk_config().await?;
    let health = Health { workers: Vec::new(), stop: stop.clone() };
    let mut prepared = Prepared { workers: Vec::new(), health };
    if let Some((settings, target, queue)) = settings.message_processor {
        let target = start::target(&config, target).await?;
        let function = MessageProcessor::on_aws(
            target,
            settings,
            &config,
            &arguments.name(FunctionName::MessageProcessor),
        );
        prepared.add(FunctionName::MessageProcessor, &queue, function, arguments).await?;
    }
    if let Some(settings) = settings.failed_message_processor {
        let queue = settings.intermediate_dlq_url.clone();
        let name = arguments.name(FunctionName::FailedMessageProcessor);
        let function = FailedMessageProcessor::on_aws(settings, &config, &name);
        prepared.add(FunctionName::FailedMessageProcessor, &queue, function, arguments).await?;
    }
    if let Some((settings, queue)) = settings.final_dlq_annotator {
        let name = arguments.name(FunctionName::FinalDlqAnnotator);
        let function = FinalDlqAnnotator::on_aws(settings, &config, &name);
        prepared.add(FunctionName::FinalDlqAnnotator, &queue, function, arguments).await?;
    }
    Ok(prepared)
}

impl Prepared {
    async fn add(
        &mut self,
        name: FunctionName,
        queue_url: &str,
        function: impl Function + 'static,
        arguments: &Arguments,
    ) -> Result<(), StartError> {
        let known = arguments.connection.queue(queue_url).await?;
        let limits = arguments.limits();
        check_visibility(&known, limits.invocation.as_secs())?;
        if !known.attributes.contains_key("RedrivePolicy") {
            eprintln!(
                "warning: {queue_url} has no redrive policy: a message that {} can neither handle nor hand on comes back for \
                 ever",
                name.as_str()
            );
        }
        let vitals = Arc::new(Vitals::new(name.as_str(), SystemClock.now()));
        self.health.workers.push(Arc::clone(&vitals));
        let worker = Worker {
            queue: known.queue,
            function,
            clock: SystemClock,
            observer: JsonLines::stdout(&arguments.name(name)),
            limits,
            vitals,
        };
        let stop = self.health.stop.clone();
        self.workers.push(async move { worker.run(&stop).await }.boxed_local());
        Ok(())
    }
}

fn check_visibility(known: &KnownQueue, invocation: u64) -> Result<(), TooShort> {
    // SQS tells it of every queue; what another endpoint does not tell cannot be checked.
    let visibility = known.attributes.get("VisibilityTimeout").and_then(|seconds| seconds.parse().ok());
    match visibility {
        Some(visibility) if visibility < invocation => {
            Err(TooShort { url: known.queue.url().to_owned(), visibility, invocation })
        }
        _ => Ok(()),
    }
}

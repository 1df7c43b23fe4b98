//! From settings to workers: everything is checked before anything is received.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use redeliver_aws::SystemClock;
use redeliver_aws::settings::StrategySettings;
use redeliver_aws::start::{self, StartError};
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::decision::HidingQueue;
use redeliver_core::ports::{Clock as _, Function, Queue as _};
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::MessageProcessor;
use serde_json::json;
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
    "{url}: its visibility timeout is {visibility} s, and a batch may take {invocation} s (--invocation), so messages \
     would come back while they are being handled; set the visibility timeout to {} s, which is six times as much, or give less \
     time to a batch",
    (.invocation * 6).min(43_200)
)]
pub(super) struct TooShort {
    url: String,
    visibility: u64,
    invocation: u64,
}

/// With `STRATEGY=visibility`: the settings do not tell of this queue.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("{url}: {rule}")]
pub(super) struct NotForHiding {
    url: String,
    rule: String,
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
        if let StrategySettings::Visibility { queue: told, .. } = &settings.strategy {
            let known = arguments.connection.queue(&queue).await?;
            check_hiding(known.queue.url(), &known.attributes, told, settings.policy.max_attempts)?;
        }
        let name = arguments.name(FunctionName::MessageProcessor);
        let target = start::target(&config, target, &name).await?;
        let function = MessageProcessor::on_aws(target, settings, &config, &name);
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
            let remark = format!(
                "a message that {} can neither handle nor hand on comes back for ever: give the queue a redrive policy",
                name.as_str()
            );
            super::warn("no_redrive_policy", json!({ "queue": queue_url, "remark": remark }));
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

/// Messages that fail stay on this queue: what the settings say of it must be so.
fn check_hiding(
    url: &str,
    attributes: &BTreeMap<String, String>,
    told: &HidingQueue,
    max_attempts: u32,
) -> Result<(), NotForHiding> {
    let attribute = |name: &str| attributes.get(name).and_then(|seconds| seconds.parse::<u64>().ok());
    let wrong = |rule: String| Err(NotForHiding { url: url.to_owned(), rule });
    let settings = [
        ("VISIBILITY_TIMEOUT_SECONDS", "VisibilityTimeout", u64::from(told.visibility_timeout.get())),
        ("RETENTION_SECONDS", "MessageRetentionPeriod", told.retention.as_secs()),
    ];
    for (setting, name, told) in settings {
        match attribute(name) {
            Some(seconds) if seconds != told => {
                return wrong(format!("its {name} is {seconds}; set {setting} to that"));
            }
            _ => {}
        }
    }
    let redrive = attributes.get("RedrivePolicy").and_then(|text| receives_of(text));
    let least = u64::from(max_attempts) + 10;
    match redrive {
        Some(count) if count < least => wrong(format!(
            "SQS moves a message out of it after {count} receives, and each retry is one; set the maxReceiveCount of its redrive \
             policy to {least}, ten more than the policy's max_attempts"
        )),
        _ => Ok(()),
    }
}

/// `maxReceiveCount` of a redrive policy, a number or a text with one.
fn receives_of(policy: &str) -> Option<u64> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    let count = &policy["maxReceiveCount"];
    count.as_u64().or_else(|| count.as_str()?.parse().ok())
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redeliver_core::limits::VisibilitySeconds;

    use super::*;

    #[test]
    fn a_queue_on_which_failed_messages_cannot_stay_is_refused_with_what_to_change() {
        let told = HidingQueue {
            visibility_timeout: VisibilitySeconds::new(180).unwrap(),
            retention: Duration::from_secs(604_800),
        };
        let refused = |changed: Option<(&str, &str)>| {
            let attributes = [
                ("VisibilityTimeout", "180"),
                ("MessageRetentionPeriod", "604800"),
                ("RedrivePolicy", r#"{"deadLetterTargetArn":"a","maxReceiveCount":15}"#),
            ];
            let attributes = attributes.into_iter().chain(changed);
            let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            check_hiding("Q", &attributes, &told, 5).err().map(|refused| refused.to_string())
        };
        assert_eq!(refused(None), None);
        assert_eq!(
            refused(Some(("VisibilityTimeout", "30"))).unwrap(),
            "Q: its VisibilityTimeout is 30; set VISIBILITY_TIMEOUT_SECONDS to that"
        );
        assert_eq!(
            refused(Some(("MessageRetentionPeriod", "345600"))).unwrap(),
            "Q: its MessageRetentionPeriod is 345600; set RETENTION_SECONDS to that"
        );
        assert_eq!(
            refused(Some(("RedrivePolicy", r#"{"maxReceiveCount":"1"}"#))).unwrap(),
            "Q: SQS moves a message out of it after 1 receives, and each retry is one; set the maxReceiveCount of its redrive \
             policy to 15, ten more than the policy's max_attempts"
        );
    }
}

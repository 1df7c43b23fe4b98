//! The final-dlq-annotator on AWS: SQS, S3, notices and real time, with the caller's observer.

use std::process::ExitCode;
use std::sync::Arc;

use redeliver_aws::SystemClock;
use redeliver_aws::archive::{AwsNotifier, S3Bucket};
use redeliver_aws::lambda::{Context, Diagnostic, Guest};
use redeliver_aws::settings::{ArchiveSettings, FinalDlqAnnotatorSettings};
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::telemetry::JsonLines;
use redeliver_core::archive::{Archive, Layout, deployment_of};
use redeliver_core::message::Timestamp;
use redeliver_core::notices::{About, Notices};
use redeliver_core::ports::Observer;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::FinalDlqAnnotator;

/// Its default name in logs and metrics.
pub const NAME: &str = "final-dlq-annotator";

/// A final-dlq-annotator on AWS.
type OnAws<O> = FinalDlqAnnotator<SqsQueue, SystemClock, O, S3Bucket, AwsNotifier>;

/// Runs a final-dlq-annotator in Lambda until the process is stopped. If its settings are invalid, it logs all errors
/// in one message and does not run.
pub async fn run() -> ExitCode {
    start::run_beside(NAME, async {
        let settings = FinalDlqAnnotatorSettings::from_env()?;
        let lines = JsonLines::stdout(NAME, settings.logging);
        let annotator = Arc::new(FinalDlqAnnotator::on_aws(settings, &start::sdk_config().await, lines));
        Ok((Arc::clone(&annotator), Arc::new(HourlyRule(annotator))))
    })
    .await
}

impl<O: Observer> OnAws<O> {
    /// A final-dlq-annotator with these settings, for Lambda or any other environment.
    #[must_use]
    pub fn on_aws(settings: FinalDlqAnnotatorSettings, config: &SdkConfig, observer: O) -> Self {
        let FinalDlqAnnotatorSettings { final_dlq_url, archive, notify, .. } = settings;
        let deployment = deployment_of(&final_dlq_url);
        let source = match &archive {
            Some(ArchiveSettings { bucket, prefix, .. }) => format!("s3://{bucket}/{}", prefix.as_str()),
            None => format!("--queue {deployment}"),
        };
        let archive = archive.map(|ArchiveSettings { bucket, prefix, omit }| Archive {
            store: S3Bucket::new(config, &bucket),
            layout: Layout { prefix, deployment: deployment.clone() },
            omit,
        });
        let about = About { deployment, source };
        Self {
            final_dlq: start::queue(&start::sqs_client(config), final_dlq_url),
            archive,
            notices: notify.map(|to| Notices::new(AwsNotifier::new(config, to), about)),
            clock: SystemClock,
            observer,
        }
    }
}

/// The rule that invokes the function once an hour.
struct HourlyRule<O>(Arc<OnAws<O>>);

impl<O: Observer + 'static> Guest for HourlyRule<O> {
    fn invoked(&self, _: &str, _: Option<&str>) {}

    async fn other_event(
        &self,
        event: &str,
        context: &Context,
        end: Timestamp,
    ) -> Option<Result<Box<RawValue>, Diagnostic>> {
        if !is_of_a_schedule(event) {
            return None;
        }
        self.0.review_causes(&context.request_id, end).await;
        Some(Ok(RawValue::NULL.to_owned()))
    }

    async fn restored(&self) {}
}

/// True for the event of a rule with a schedule ("Creating a scheduled rule", Amazon EventBridge User Guide).
fn is_of_a_schedule(event: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Event {
        detail_type: String,
    }
    serde_json::from_str(event).is_ok_and(|Event { detail_type }| detail_type == "Scheduled Event")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_event_of_a_schedule_is_taken_for_one() {
        let schedule = r#"{"version":"0","id":"53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa","detail-type":"Scheduled Event","source":"aws.events","account":"123456789012","time":"2026-11-27T16:53:06Z","region":"eu-central-1","resources":["arn:aws:events:eu-central-1:123456789012:rule/hourly"],"detail":{}}"#;
        assert!(is_of_a_schedule(schedule));
        for other in ["{}", "[]", "null", r#"{"Records":[]}"#, r#"{"detail-type":"Object Created"}"#] {
            assert!(!is_of_a_schedule(other), "{other}");
        }
    }
}

//! The final-dlq-annotator on AWS: SQS, S3, notices and the system clock, with the caller's observer.

use std::process::ExitCode;

use redeliver_aws::SystemClock;
use redeliver_aws::archive::S3Bucket;
use redeliver_aws::notifier::AwsNotifier;
use redeliver_aws::settings::{ArchiveSettings, FinalDlqAnnotatorSettings};
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::start::{self, SdkConfig};
use redeliver_aws::telemetry::JsonLinesObserver;
use redeliver_core::archive::{Archive, ArchiveLayout, deployment_name};
use redeliver_core::notices::{DeploymentInfo, Notices};
use redeliver_core::ports::Observer;

use crate::FinalDlqAnnotator;

/// The default name in logs and metrics.
pub const NAME: &str = "final-dlq-annotator";

/// Runs a final-dlq-annotator in Lambda until the process is stopped. If its settings are invalid, it logs all errors
/// in one message and does not start.
pub async fn run() -> ExitCode {
    start::run(NAME, async {
        let settings = FinalDlqAnnotatorSettings::from_env()?;
        let lines = JsonLinesObserver::for_stdout(NAME, settings.logging);
        Ok(FinalDlqAnnotator::on_aws(settings, &start::sdk_config().await, lines))
    })
    .await
}

impl<O: Observer> FinalDlqAnnotator<SqsQueue, SystemClock, O, S3Bucket, AwsNotifier> {
    /// Creates a final-dlq-annotator with these settings, for Lambda or any other environment.
    #[must_use]
    pub fn on_aws(settings: FinalDlqAnnotatorSettings, config: &SdkConfig, observer: O) -> Self {
        let FinalDlqAnnotatorSettings { final_dlq_url, archive, notify, .. } = settings;
        let deployment = deployment_name(&final_dlq_url);
        let source = match &archive {
            Some(ArchiveSettings { bucket, prefix, .. }) => format!("s3://{bucket}/{}", prefix.as_str()),
            None => format!("--queue {deployment}"),
        };
        let archive = archive.map(|ArchiveSettings { bucket, bucket_owner, prefix, omit }| Archive {
            store: S3Bucket::new(config, &bucket, Some(bucket_owner)),
            layout: ArchiveLayout { prefix, deployment: deployment.clone() },
            omit,
        });
        let about = DeploymentInfo { deployment, source };
        Self {
            final_dlq: start::queue_sender(&start::sqs_client(config), final_dlq_url),
            archive,
            notices: notify.map(|to| Notices::new(AwsNotifier::new(config, to), about)),
            clock: SystemClock,
            observer,
        }
    }
}

//! Describes errors from AWS requests, with advice.

use aws_config::SdkConfig;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use redeliver_aws::{NotReachedReason, not_reached_reason};
use redeliver_dead_letters::archive_bucket::CREDENTIALS_ADVICE;

use super::credential_error::explain_credential_failure;
use super::{AwsConnection, profile};
use crate::CommandFailure;
use crate::terminal::escape::escape_line;

impl AwsConnection {
    /// Describes a failed request, with advice on credentials and connectivity. `otherwise` adds advice on names and
    /// permissions for requests that reached the service.
    pub async fn explain_failure<E>(
        &self,
        error: &SdkError<E, HttpResponse>,
        otherwise: impl FnOnce(&str) -> String,
    ) -> CommandFailure
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        match not_reached_reason(error) {
            // Covers the codes of the JSON protocol and of the older query protocol.
            None if error.code().is_some_and(|code| code.starts_with("ExpiredToken")) => {
                format!("the AWS credentials have expired ({}): {CREDENTIALS_ADVICE}", describe_error(error))
            }
            None => otherwise(&describe_error(error)),
            Some(NotReachedReason::NoCredentials) => {
                format!("no AWS credentials found: {CREDENTIALS_ADVICE}")
            }
            Some(NotReachedReason::UnusableCredentials(why)) => {
                let profiles = profile::read_profiles(&EnvConfigFiles::default(), self.profile()).await.ok();
                let explained =
                    profiles.and_then(|profiles| explain_credential_failure(&profiles, error, &why));
                explained.unwrap_or_else(|| {
                    format!(
                        "the AWS credentials cannot be loaded ({}): {CREDENTIALS_ADVICE}",
                        escape_line(&why)
                    )
                })
            }
            Some(NotReachedReason::NoConnection(why)) => {
                let config = self.sdk_config(Some("us-east-1")).await;
                match config.ok().as_ref().and_then(SdkConfig::endpoint_url) {
                    Some(endpoint) => {
                        format!("no connection to {endpoint} ({why}): is it running? check --endpoint-url")
                    }
                    None => format!("no connection to AWS ({why}): check the network and the region"),
                }
            }
        }
        .into()
    }
}

/// Describes an AWS error: the service's code and message if it responded, otherwise the complete chain of causes.
pub fn describe_error<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match (error.code(), error.message()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        // If the response came from a different program, the parser's error contains no useful information.
        (None, _) => match error.raw_response().map(|answer| answer.status().as_u16()) {
            Some(status) => format!("the response is not from this service (HTTP {status})"),
            None => join_causes(error),
        },
    }
}

/// Returns true if SQS reports that the queue does not exist, with the code of its JSON protocol or of the older query
/// protocol.
pub fn is_missing_queue(error: &impl ProvideErrorMetadata) -> bool {
    let is_code = |code: &str| code.ends_with("QueueDoesNotExist") || code.ends_with("NonExistentQueue");
    error.code().is_some_and(is_code)
}

fn join_causes(error: &dyn std::error::Error) -> String {
    let mut causes = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        causes = format!("{causes}: {cause}");
        source = cause.source();
    }
    causes
}

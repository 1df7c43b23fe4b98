//! Event source mappings, through which Lambda polls queues.

use std::fmt::Display;

use aws_config::SdkConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::http::HttpResponse;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::list_event_source_mappings::builders::ListEventSourceMappingsFluentBuilder;
use aws_sdk_lambda::types::FunctionResponseType;
use redeliver_core::message::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::CommandFailure;
use crate::queues::{AwsConnection, RequestLog, describe_error, region_from_arn};

/// A client for Lambda's event source mappings.
#[derive(Clone, Debug)]
pub struct EventSources {
    client: Client,
}

/// An event source mapping, through which Lambda polls a queue or another source for a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LambdaMapping {
    pub uuid: String,
    /// The function's name, with its version or alias, if any.
    pub function: String,
    /// The ARN of the queue, or of another service's source.
    #[serde(skip)]
    pub source: String,
    /// True with `ReportBatchItemFailures`: Lambda does not delete messages that the function reports as failed.
    #[serde(skip)]
    pub reports_failures: bool,
    /// `Enabled`, `Disabled`, or a transitional state: `Creating`, `Enabling`, `Disabling`, `Updating`, `Deleting`.
    pub state: String,
    /// Maximum number of messages per invocation.
    pub batch_size: Option<i32>,
    /// Maximum number of concurrent invocations, if limited.
    pub maximum_concurrency: Option<i32>,
    /// The time of the last change, including state changes.
    #[serde(skip)]
    pub last_modified: Option<Timestamp>,
}

impl LambdaMapping {
    pub fn is_on(&self) -> bool {
        is_on(&self.state)
    }

    /// Returns true if the mapping reads an SQS queue, false for a stream or a broker.
    pub fn reads_queue(&self) -> bool {
        self.source.split(':').nth(2) == Some("sqs")
    }
}

/// Returns true if Lambda keeps the messages that the function reports as failed.
pub fn reports_failures(types: &[FunctionResponseType]) -> bool {
    types.contains(&FunctionResponseType::ReportBatchItemFailures)
}

/// Returns the command that enables failure reporting for a mapping.
pub fn report_failures_command(uuid: &str, region: &str) -> String {
    format!(
        "`aws lambda update-event-source-mapping --function-response-types ReportBatchItemFailures --uuid {uuid} --region {region}`"
    )
}

/// Returns true if a mapping in this state reads its queue, or soon will.
pub fn is_on(state: &str) -> bool {
    matches!(state, "Enabled" | "Enabling" | "Creating" | "Updating")
}

/// Converts a response. Three responses have the same members but different types.
macro_rules! mapping {
    ($found:ident) => {
        LambdaMapping {
            uuid: $found.uuid.unwrap_or_default(),
            function: function_name(&$found.function_arn.unwrap_or_default()).to_owned(),
            source: $found.event_source_arn.unwrap_or_default(),
            reports_failures: reports_failures(&$found.function_response_types.unwrap_or_default()),
            state: $found.state.unwrap_or_else(|| "unknown".to_owned()),
            batch_size: $found.batch_size,
            maximum_concurrency: $found.scaling_config.and_then(|scaling| scaling.maximum_concurrency),
            last_modified: $found
                .last_modified
                .and_then(|at| Timestamp::from_timestamp(at.secs(), at.subsec_nanos())),
        }
    };
}

/// The error from a request that Lambda rejected or did not respond to: the action, and Lambda's code and message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{words}")]
pub struct LambdaError {
    code: String,
    words: String,
}

impl LambdaError {
    /// Returns true if a retry may succeed: the mapping is being changed, or the request was throttled.
    pub fn is_transient(&self) -> bool {
        const TRANSIENT: [&str; 4] = [
            "ResourceInUseException",
            "ResourceConflictException",
            "TooManyRequestsException",
            "ServiceException",
        ];
        TRANSIENT.contains(&self.code.as_str())
    }
}

impl EventSources {
    /// Creates a client for the mappings in a queue's region.
    pub async fn for_queue_region(
        connection: &AwsConnection,
        queue_arn: &str,
    ) -> Result<Self, CommandFailure> {
        Ok(Self::new(&connection.sdk_config(region_from_arn(queue_arn)).await?))
    }

    /// Creates a client for the mappings in an account and region.
    pub fn new(config: &SdkConfig) -> Self {
        let config = aws_sdk_lambda::config::Builder::from(config).interceptor(RequestLog::default()).build();
        Self { client: Client::from_conf(config) }
    }

    /// Lists the mappings that read a queue.
    pub async fn list_for_queue(&self, queue_arn: &str) -> Result<Vec<LambdaMapping>, LambdaError> {
        self.list_pages(self.client.list_event_source_mappings().event_source_arn(queue_arn)).await
    }

    /// Lists the mappings of a function, or of one of its versions or aliases (`NAME:QUALIFIER`).
    pub async fn list_for_function(&self, function: &str) -> Result<Vec<LambdaMapping>, LambdaError> {
        self.list_pages(self.client.list_event_source_mappings().function_name(function)).await
    }

    async fn list_pages(
        &self,
        request: ListEventSourceMappingsFluentBuilder,
    ) -> Result<Vec<LambdaMapping>, LambdaError> {
        let answer: Result<Vec<_>, _> = request.into_paginator().items().send().collect().await;
        let mappings = answer.map_err(|error| to_lambda_error("lambda:ListEventSourceMappings", &error))?;
        let mappings = mappings.into_iter().map(|found| mapping!(found));
        Ok(mappings.collect())
    }

    /// Reads the current state of a mapping.
    pub async fn get_mapping(&self, uuid: &str) -> Result<LambdaMapping, LambdaError> {
        let answer = self.client.get_event_source_mapping().uuid(uuid).send().await;
        let found = answer.map_err(|error| to_lambda_error("lambda:GetEventSourceMapping", &error))?;
        Ok(mapping!(found))
    }

    /// Enables or disables a mapping, and returns it in an intermediate state, such as `Disabling`.
    pub async fn set_enabled(&self, uuid: &str, enabled: bool) -> Result<LambdaMapping, LambdaError> {
        let answer = self.client.update_event_source_mapping().uuid(uuid).enabled(enabled).send().await;
        let found = answer.map_err(|error| to_lambda_error("lambda:UpdateEventSourceMapping", &error))?;
        Ok(mapping!(found))
    }
}

/// Extracts the name, with any `:QUALIFIER`, from `arn:PARTITION:lambda:REGION:ACCOUNT:function:NAME`. Other text is
/// returned unchanged.
pub fn function_name(arn: &str) -> &str {
    arn.split_once(":function:").map_or(arn, |(_, name)| name)
}

fn to_lambda_error<E>(action: impl Display, error: &SdkError<E, HttpResponse>) -> LambdaError
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let code = error.code().unwrap_or_default().to_owned();
    LambdaError { code, words: format!("{action}: {}", describe_error(error)) }
}

#[cfg(test)]
mod tests;

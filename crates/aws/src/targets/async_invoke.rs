//! Lambda functions that are invoked without waiting for their answer.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::{Builder, Region};
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use redeliver_core::ports::{AsyncInvoker, NotInvoked};

use super::CONNECT_TIMEOUT;
use super::refused_payload::RefusedPayload;

/// For a whole request. Lambda only queues the event.
const TIMEOUT: Duration = Duration::from_secs(10);
/// "Invoke", AWS Lambda API Reference: the status of a queued event.
const ACCEPTED: i32 = 202;

/// Lambda's `Invoke` with invocation type `Event`.
#[derive(Debug)]
pub struct LambdaInvoker {
    client: Client,
}

impl LambdaInvoker {
    /// The SDK does not retry: what is not done is received again.
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self::with_timeout(config, TIMEOUT)
    }

    fn with_timeout(config: &SdkConfig, timeout: Duration) -> Self {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT.min(timeout));
        let config = Builder::from(config)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts.operation_timeout(timeout).build())
            .build();
        Self { client: Client::from_conf(config) }
    }
}

impl AsyncInvoker for LambdaInvoker {
    async fn invoke(&self, function_arn: &str, payload: &str) -> Result<(), NotInvoked> {
        // `arn:PARTITION:lambda:REGION:…`: the function may live in another region than this one.
        let region = function_arn.split(':').nth(3).map(|region| Region::new(region.to_owned()));
        let answer = self
            .client
            .invoke()
            .function_name(function_arn)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(payload))
            .customize()
            .config_override(Builder::default().region(region))
            .send()
            .await
            .map_err(|error| not_invoked(&error))?;
        match answer.status_code {
            ACCEPTED => Ok(()),
            other => Err(NotInvoked::NotNow { code: format!("HTTP {other}") }),
        }
    }
}

/// Only what is wrong with the payload itself stays wrong: [`RefusedPayload`].
fn not_invoked(error: &SdkError<InvokeError>) -> NotInvoked {
    let code = match error {
        SdkError::TimeoutError(_) => "Timeout",
        SdkError::ServiceError(answer) => {
            let code = answer.err().code().unwrap_or("NoErrorCode");
            match RefusedPayload::of(code) {
                Some(RefusedPayload::TooLarge) => return NotInvoked::TooLarge,
                Some(RefusedPayload::Invalid) => return NotInvoked::Invalid,
                None => code,
            }
        }
        _ => "Connection",
    };
    NotInvoked::NotNow { code: code.to_owned() }
}

#[cfg(test)]
mod tests;

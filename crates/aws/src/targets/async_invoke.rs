//! Asynchronous invocations of Lambda functions.

use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_lambda::config::Builder;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use redeliver_core::ports::{AsyncInvokeError, AsyncInvoker, Clock};

use super::drain::settle_connections;
use super::lambda_client::{LambdaClient, function_region};
use super::refused_payload::RefusedPayload;
use crate::SystemClock;

/// The status code for a queued event ("Invoke", AWS Lambda API Reference).
const ACCEPTED: i32 = 202;

/// Lambda's `Invoke` with invocation type `Event`.
#[derive(Debug)]
pub struct LambdaInvoker<C = SystemClock> {
    client: LambdaClient<C>,
}

impl LambdaInvoker {
    /// Creates an invoker without retries and without a timeout: an event whose response arrives too late would be
    /// queued twice, since its message is received again.
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self { client: LambdaClient::new(config, None, SystemClock) }
    }
}

impl<C: Clock + Clone + fmt::Debug + 'static> AsyncInvoker for LambdaInvoker<C> {
    async fn invoke_async(&self, function_arn: &str, payload: &str) -> Result<(), AsyncInvokeError> {
        settle_connections().await;
        let answer = self
            .client
            .fresh_client()
            .invoke()
            .function_name(function_arn)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(payload))
            .customize()
            .config_override(Builder::default().region(function_region(function_arn)))
            .send()
            .await
            .map_err(|error| classify_invocation_error(&error))?;
        match answer.status_code {
            ACCEPTED => Ok(()),
            other => Err(AsyncInvokeError::NotNow { code: format!("HTTP {other}") }),
        }
    }
}

/// Classifies a failed invocation. Only errors caused by the payload are permanent (see [`RefusedPayload`]).
fn classify_invocation_error(error: &SdkError<InvokeError>) -> AsyncInvokeError {
    let code = match error {
        SdkError::ServiceError(answer) => {
            let code = answer.err().code().unwrap_or("NoErrorCode");
            match RefusedPayload::from_code(code) {
                Some(RefusedPayload::TooLarge) => return AsyncInvokeError::TooLarge,
                Some(RefusedPayload::Invalid) => return AsyncInvokeError::Invalid,
                None => code,
            }
        }
        _ => "Connection",
    };
    AsyncInvokeError::NotNow { code: code.to_owned() }
}

#[cfg(test)]
mod tests;

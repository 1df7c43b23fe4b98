//! Lambda functions that are invoked without waiting for their answer.

use std::fmt;

use aws_config::SdkConfig;
use aws_sdk_lambda::config::Builder;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use redeliver_core::ports::{AsyncInvoker, Clock, NotInvoked};

use super::drain::settle_connections;
use super::lambda_client::{LambdaClient, region_of};
use super::refused_payload::RefusedPayload;
use crate::SystemClock;

/// "Invoke", AWS Lambda API Reference: the status of a queued event.
const ACCEPTED: i32 = 202;

/// Lambda's `Invoke` with invocation type `Event`.
#[derive(Debug)]
pub struct LambdaInvoker<C = SystemClock> {
    client: LambdaClient<C>,
}

impl LambdaInvoker {
    /// The SDK does not retry, and waits as long as it is asked to: what has no answer is received again, and an event
    /// that was queued would be queued twice.
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self { client: LambdaClient::new(config, None, SystemClock) }
    }
}

impl<C: Clock + Clone + fmt::Debug + 'static> AsyncInvoker for LambdaInvoker<C> {
    async fn invoke(&self, function_arn: &str, payload: &str) -> Result<(), NotInvoked> {
        settle_connections().await;
        let answer = self
            .client
            .get()
            .invoke()
            .function_name(function_arn)
            .invocation_type(InvocationType::Event)
            .payload(Blob::new(payload))
            .customize()
            .config_override(Builder::default().region(region_of(function_arn)))
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

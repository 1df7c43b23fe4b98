//! A Lambda function as the target.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::operation::{RequestId as _, invoke::InvokeError};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_core::function_arn::format_version;
use redeliver_core::handler::{BodyForm, CallLogs, ErrorType, Handler, HandlerError, Invocation, Message};
use redeliver_core::json::value;
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Fault};
use redeliver_core::trace::{CallSpan, SpanKind, TraceContext, XRAY_TRACE_ID};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::drain::settle_connections;
use super::lambda_client::{LambdaClient, function_region};
use super::refused_payload::RefusedPayload;
use super::retry_after;
use crate::SystemClock;
use crate::failed_request::entry_error;

/// A Lambda function, invoked synchronously (`RequestResponse`) with the body's bytes.
#[derive(Debug)]
pub struct LambdaTarget<C = SystemClock> {
    client: LambdaClient<C>,
    arn: String,
    modes: FunctionModes,
}

/// The modes of a Lambda function that change how it is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionModes {
    /// Tenant isolation: the message group is the tenant.
    pub tenant_isolation: bool,
    /// A durable function: each execution has a name.
    pub durable: bool,
}

impl LambdaTarget {
    /// Creates a target that invokes the function with this ARN, in the ARN's region. `timeout` limits a complete call.
    /// The SDK does not retry; the retry policy does.
    #[must_use]
    pub fn new(config: &SdkConfig, arn: String, timeout: Duration) -> Self {
        Self::with_clock(config, arn, timeout, SystemClock)
    }
}

impl<C: Clock + Clone + fmt::Debug + 'static> LambdaTarget<C> {
    fn with_clock(config: &SdkConfig, arn: String, timeout: Duration, clock: C) -> Self {
        let config = config.to_builder().region(function_region(&arn)).build();
        Self {
            client: LambdaClient::new(&config, Some(timeout), clock),
            arn,
            modes: FunctionModes::default(),
        }
    }

    /// Sets the function's modes; by default, none are enabled.
    #[must_use]
    pub fn with_modes(self, modes: FunctionModes) -> Self {
        Self { modes, ..self }
    }

    async fn invoke_function(
        &self,
        message: &Message<'_>,
        group: Option<&str>,
        trace: Option<TraceContext>,
        logs: Option<&CallLogs>,
    ) -> Result<(), HandlerError> {
        let tenant_id = self.modes.tenant_isolation.then(|| tenant_id(group)).transpose()?;
        settle_connections().await;
        let answer = self
            .client
            .fresh_client()
            .invoke()
            .function_name(&self.arn)
            .invocation_type(InvocationType::RequestResponse)
            .payload(Blob::new(json_payload(message).as_bytes()))
            .set_client_context(client_context(message).map(|context| STANDARD.encode(context)))
            .set_tenant_id(tenant_id.map(str::to_owned))
            .set_durable_execution_name(self.modes.durable.then(|| execution_name(message, &self.arn)))
            .customize()
            .mutate_request(move |request| {
                if let Some(trace) = &trace {
                    let headers = request.headers_mut();
                    // The SDK has already set this header to the trace of our own invocation.
                    headers.insert(XRAY_TRACE_ID, trace.xray_header_for_lambda(headers.get(XRAY_TRACE_ID)));
                }
            })
            .send()
            .await
            .map_err(|error| classify_invocation_error(&error, self.client.now()))?;
        match answer.function_error {
            None => Ok(()),
            Some(_) => {
                if let Some(logs) = logs {
                    // The function's log group is unknown, since it is configurable.
                    logs.set_location(LogLocation::default().with_request_id(answer.request_id()));
                }
                let error = function_error(answer.payload.as_ref().map_or(&[], Blob::as_ref));
                let function =
                    answer.executed_version.and_then(|version| format_version(&self.arn, &version));
                Err(HandlerError { function, ..error })
            }
        }
    }
}

impl<C: Clock + Clone + fmt::Debug + 'static> Handler for LambdaTarget<C> {
    fn call_span(&self) -> CallSpan<'_> {
        let part = |place| self.arn.split(':').nth(place).unwrap_or_default();
        let [region, name] = [3, 6].map(part);
        let attributes = vec![
            ("faas.invoked_name", name.into()),
            ("faas.invoked_provider", "aws".into()),
            ("faas.invoked_region", region.into()),
        ];
        CallSpan { name: name.into(), kind: SpanKind::Client, attributes }
    }

    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.invoke_function(message, None, None, None).await
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        let group = invocation.record.message_group_id.as_deref();
        self.invoke_function(invocation.message, group, invocation.trace_context(), invocation.logs).await
    }
}

/// Returns the message group as a tenant id, which allows fewer characters ("TenantId", AWS Lambda API Reference).
fn tenant_id(group: Option<&str>) -> Result<&str, HandlerError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/=+-@ ".contains(&byte);
    let refused = |details: &str| Err(HandlerError::permanent("Lambda.InvalidTenantId", details));
    match group {
        None => refused("the message has no MessageGroupId, which is the tenant id"),
        Some(group) if group.bytes().all(is_allowed) => Ok(group),
        Some(_) => refused(
            "the MessageGroupId is not a tenant id, which has only letters, digits, spaces and . _ : / = + - @",
        ),
    }
}

/// Returns the name of the execution: the same for all copies of an attempt, with at most 62 of the 64 characters that
/// Lambda allows. Each attempt, and each call after a hold, has a different name, because Lambda returns the old result
/// for the name of a failed execution. The name also differs between functions that receive a copy of the same event:
/// names are unique per account and region ("Idempotency", AWS Lambda Developer Guide).
fn execution_name(message: &Message<'_>, arn: &str) -> String {
    let Message { message_id, redrive_generation, retry_attempt, held_seconds, .. } = message;
    let hold = if *held_seconds > 0 { format!("-{held_seconds}") } else { String::new() };
    let hash: String = Sha256::digest(arn).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{message_id}-{redrive_generation}-{retry_attempt}{hold}-{hash}")
}

/// Returns the payload, which must be JSON: any other body is encoded as a JSON string.
fn json_payload<'a>(message: &Message<'a>) -> Cow<'a, str> {
    match message.form {
        BodyForm::Plain { .. } if !value::is_json(message.body) => {
            Cow::Owned(serde_json::Value::from(message.body).to_string())
        }
        BodyForm::Plain { .. } | BodyForm::Envelope => Cow::Borrowed(message.body),
    }
}

/// Returns the client context for messages without an envelope, with the values that an HTTP target receives as headers
/// ("Invoke", AWS Lambda API Reference).
pub(super) fn client_context(message: &Message<'_>) -> Option<String> {
    let BodyForm::Plain { .. } = message.form else { return None };
    let custom = serde_json::json!({
        "Idempotency-Key": message.idempotency_key(),
        "X-Redeliver-Attempt": message.retry_attempt.to_string(),
    });
    Some(serde_json::json!({ "custom": custom }).to_string())
}

/// Parses the payload of a function error, `{"errorType":…,"errorMessage":…}` (AWS Lambda Developer Guide).
fn function_error(payload: &[u8]) -> HandlerError {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct FunctionErrorPayload {
        error_type: Option<String>,
        error_message: Option<String>,
    }
    let FunctionErrorPayload { error_type, error_message } =
        serde_json::from_slice(payload).unwrap_or_default();
    let error_type = error_type.map_or(ErrorType::Named("Lambda.FunctionError"), ErrorType::FromTarget);
    HandlerError::transient(error_type, error_message.unwrap_or_default())
}

/// Classifies a failed invocation. Only errors caused by the payload are permanent (see [`RefusedPayload`]).
fn classify_invocation_error(error: &SdkError<InvokeError>, now: Timestamp) -> HandlerError {
    match error {
        SdkError::TimeoutError(_) => {
            HandlerError::transient("Lambda.Timeout", "the function did not answer in time")
        }
        SdkError::ServiceError(answer) => {
            let code = answer.err().code().unwrap_or("no error code");
            let details = format!("Lambda answered {code}");
            match RefusedPayload::from_code(code) {
                Some(RefusedPayload::TooLarge) => {
                    return HandlerError::permanent("Lambda.RequestTooLarge", details);
                }
                Some(RefusedPayload::Invalid) => {
                    return HandlerError::permanent("Lambda.InvalidRequestContent", details);
                }
                None => {}
            }
            let error_type = match code {
                // An earlier call in this attempt started the execution, and its result is unknown. The function
                // exists, so the error type is not in `Lambda.*`, whose types are outages by default.
                "DurableExecutionAlreadyStartedException" => "ExecutionAlreadyStarted",
                "TooManyRequestsException" => "Lambda.Throttled",
                "AccessDeniedException" => "Lambda.AccessDenied",
                "ResourceNotFoundException" => "Lambda.NotFound",
                kms if kms.starts_with("KMS") => "Lambda.Kms",
                _ => "Lambda.Service",
            };
            let error = HandlerError::transient(error_type, details);
            // Lambda sends this header when it throttles a function ("Invoke", AWS Lambda API Reference).
            match answer
                .raw()
                .headers()
                .get("retry-after")
                .and_then(|value| retry_after::parse_retry_after(value, now))
            {
                Some(delay) => error.retry_after(delay),
                None => error,
            }
        }
        // The function may have run and caused the error. If this were "not now", the function would be called for a
        // day, about 180 times.
        _ if entry_error(error).fault == Fault::NoAnswer => HandlerError::transient(
            "Lambda.ConnectionLost",
            "the connection to Lambda broke before it answered",
        ),
        _ => HandlerError::transient("Lambda.Connect", "the request did not reach Lambda"),
    }
}

#[cfg(test)]
mod tests;

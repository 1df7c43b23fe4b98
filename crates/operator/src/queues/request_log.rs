//! Counts the requests to AWS and, with `-v`, logs them with their responses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_sdk_sqs::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_sqs::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sqs::error::BoxError;

use redeliver_core::lock;

use crate::terminal::stderr;

/// A counter of requests by action, including retries. It also logs each request, without its body and headers.
#[derive(Clone, Debug, Default)]
pub struct RequestLog(Arc<Mutex<BTreeMap<String, u64>>>);

impl RequestLog {
    /// Returns the number of requests so far, by action.
    pub fn counts_by_action(&self) -> BTreeMap<String, u64> {
        lock(&self.0).clone()
    }
}

impl Intercept for RequestLog {
    fn name(&self) -> &'static str {
        "Requests"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let place = request.uri().split('?').next().unwrap_or_default();
        // For example, `AmazonSQS.SendMessageBatch` ("Making query API requests using AWS JSON protocol in Amazon
        // SQS").
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        stderr::detail(format_args!("{} {place} {target}", request.method()));
        if let Some((_service, action)) = target.split_once('.') {
            *lock(&self.0).entry(action.to_owned()).or_default() += 1;
        }
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response();
        let id = answer.headers().get("x-amzn-requestid").unwrap_or("none");
        stderr::detail(format_args!("  {} (request id {id})", answer.status()));
        Ok(())
    }
}

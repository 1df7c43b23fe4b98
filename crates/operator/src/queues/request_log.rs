//! `-v`: each request to AWS, and how it was answered.

use aws_sdk_sqs::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_sqs::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sqs::error::BoxError;

use crate::terminal::stderr;

/// Logs requests, without bodies and headers.
#[derive(Debug)]
pub struct Requests;

impl Intercept for Requests {
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
        let action = request.headers().get("x-amz-target").unwrap_or_default();
        stderr::detail(format_args!("{} {place} {action}", request.method()));
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

//! The Lambda API client for targets and asynchronous invocations. It makes one request per call.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::config::interceptors::BeforeDeserializationInterceptorContextMut;
use aws_sdk_lambda::config::{Builder, ConfigBag, Intercept, Region, RuntimeComponents};
use aws_sdk_lambda::error::BoxError;
use aws_sdk_lambda::primitives::{ByteStream, SdkBody};
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;

use super::drain::Drains;
use super::{CONNECT_TIMEOUT, IDLE_TIMEOUT};
use crate::http_client;

/// A Lambda client without retries, since its callers retry.
pub(super) struct LambdaClient<C> {
    clock: C,
    /// The client and the time of its last use.
    client: Mutex<(Client, Timestamp)>,
}

impl<C: Clock + Clone + fmt::Debug + 'static> LambdaClient<C> {
    /// Creates a client. `timeout` limits a complete request; without it, the caller must limit the time.
    pub(super) fn new(config: &SdkConfig, timeout: Option<Duration>, clock: C) -> Self {
        let connect_timeout = timeout.map_or(CONNECT_TIMEOUT, |timeout| CONNECT_TIMEOUT.min(timeout));
        let mut timeouts = TimeoutConfig::builder().connect_timeout(connect_timeout);
        timeouts.set_operation_timeout(timeout);
        let config = Builder::from(config)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts.build())
            .interceptor(HeadInterceptor(Drains::new(clock.clone())))
            .build();
        let client = Mutex::new((Client::from_conf(config), clock.now()));
        Self { clock, client }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the client, with new connections after a pause such as a freeze. The SDK keeps idle connections for
    /// 90 s, measured by a clock that may stop during a freeze, and a request on a dead connection would waste an
    /// attempt.
    pub(super) fn fresh_client(&self) -> Client {
        let now = self.clock.now();
        let mut client = lock(&self.client);
        if (now - client.1).to_std().map_or(true, |idle| idle > IDLE_TIMEOUT) {
            // The HTTP client owns the connections.
            let config = client.0.config().to_builder().http_client(http_client()).build();
            client.0 = Client::from_conf(config);
        }
        client.1 = now;
        client.0.clone()
    }
}

/// Returns the region in a function's ARN (`arn:PARTITION:lambda:REGION:…`), which may differ from ours.
pub(super) fn function_region(function_arn: &str) -> Option<Region> {
    function_arn.split(':').nth(3).map(|region| Region::new(region.to_owned()))
}

impl<C> fmt::Debug for LambdaClient<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LambdaClient").finish_non_exhaustive()
    }
}

/// An interceptor that passes an empty body to the SDK if the response head determines the outcome. If the SDK waited
/// for the body, a known outcome could be lost.
#[derive(Debug)]
struct HeadInterceptor<C>(Drains<C>);

impl<C: Clock + Clone + fmt::Debug + 'static> Intercept for HeadInterceptor<C> {
    fn name(&self) -> &'static str {
        "HeadDecides"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let answer = context.response_mut();
        // The response from a failed function has `X-Amz-Function-Error` and the error in the body. The response to a
        // rejected request has the error code in `x-amzn-ErrorType` and only a message in the body ("Invoke", AWS
        // Lambda API Reference).
        let has_decided = if answer.status().is_success() {
            answer.headers().get("x-amz-function-error").is_none()
        } else {
            answer.headers().get("x-amzn-errortype").is_some()
        };
        if has_decided {
            let mut body = ByteStream::new(std::mem::replace(answer.body_mut(), SdkBody::empty()));
            self.0.spawn_drain(async move { while let Some(Ok(_)) = body.next().await {} });
        }
        Ok(())
    }
}

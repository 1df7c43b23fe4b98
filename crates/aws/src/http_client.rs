//! The HTTP client that all AWS clients use: the SDK's default client, with a limit on response bodies. The SDK buffers
//! a complete response before parsing it, so an endless body would exhaust memory.

use aws_sdk_sqs::config::SharedAsyncSleep;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, Connector, ConnectorBuilder};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use thiserror::Error;

/// More than the longest response to `ReceiveMessage`: ten messages of 1 MiB ("Amazon SQS message quotas") as JSON, in
/// which an escape such as `\u0009` is six times as long as the character itself.
const RECEIVED_BYTES_MAX: usize = 64 << 20;
/// More than any other response: the longest is a Lambda function's, at 6 MB ("Lambda quotas").
const ANSWER_BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Error)]
enum UnreadableBody {
    #[error("the response is larger than {} MiB, more than AWS ever returns", .0 >> 20)]
    TooLong(usize),
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// Creates the client for [`aws_config::SdkConfig`] and for all other requests to AWS.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    let client = Builder::new().build_with_connector_fn(|settings, components| {
        let sleep_impl = components.and_then(RuntimeComponents::sleep_impl);
        new_https_connector(settings, sleep_impl, ProxyConfig::from_env())
    });
    SharedHttpClient::new(Bounded(client))
}

/// Creates a connector for requests that are made without an SDK client.
pub(crate) fn new_connector(
    settings: Option<&HttpConnectorSettings>,
    sleep_impl: Option<SharedAsyncSleep>,
    proxy: ProxyConfig,
) -> SharedHttpConnector {
    SharedHttpConnector::new(Bounded(SharedHttpConnector::new(new_https_connector(
        settings, sleep_impl, proxy,
    ))))
}

/// Creates a connector with the configuration of the SDK's default client.
fn new_https_connector(
    settings: Option<&HttpConnectorSettings>,
    sleep_impl: Option<SharedAsyncSleep>,
    proxy: ProxyConfig,
) -> Connector {
    let mut connector = ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
    connector.set_connector_settings(settings.cloned());
    connector.set_sleep_impl(sleep_impl);
    connector.set_proxy_config(Some(proxy));
    connector.build()
}

/// An HTTP client or connector that limits the length of every response.
#[derive(Debug)]
struct Bounded<T>(T);

impl HttpClient for Bounded<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Bounded(self.0.http_connector(settings, components)))
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.validate_base_client_config(components, config)
    }

    /// Loads the certificates before the first request.
    fn validate_final_config(
        &self,
        components: &RuntimeComponents,
        config: &ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.validate_final_config(components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.0.connector_metadata()
    }
}

impl HttpConnector for Bounded<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let bytes_max = response_bytes_max(&request);
        let call = self.0.call(request);
        HttpConnectorFuture::new(async move { Ok(call.await?.map(|body| limit_body(body, bytes_max))) })
    }
}

fn response_bytes_max(request: &HttpRequest) -> usize {
    match request.headers().get("x-amz-target") {
        Some("AmazonSQS.ReceiveMessage") => RECEIVED_BYTES_MAX,
        _ => ANSWER_BYTES_MAX,
    }
}

fn limit_body(body: SdkBody, bytes_max: usize) -> SdkBody {
    let limited = Limited::new(body, bytes_max);
    SdkBody::from_body_1_x(limited.map_err(move |error| {
        if error.is::<LengthLimitError>() {
            UnreadableBody::TooLong(bytes_max)
        } else {
            UnreadableBody::Other(error)
        }
    }))
}

#[cfg(test)]
mod tests;

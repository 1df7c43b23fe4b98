//! The HTTP client of every AWS client: the SDK's own, but no answer is longer than any that AWS gives. The SDK collects
//! an answer before it looks at it, and one without an end would take all memory.

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_http_client::{Builder, ConnectorBuilder};
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

/// The longest answer is that of `ReceiveMessage`: ten messages of 1 MiB ("Amazon SQS message quotas") as JSON, where a
/// character may take six times its bytes (`\u0009`), and what stands around them.
const ANSWER_MAX: usize = 64 << 20;

#[derive(Debug, Error)]
enum Unreadable {
    #[error("the answer has more than {} MiB, which no answer of AWS has", ANSWER_MAX >> 20)]
    TooLong,
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

/// For [`aws_config::SdkConfig`], and whatever else makes requests to AWS.
#[must_use]
pub fn http_client() -> SharedHttpClient {
    // As the SDK makes its own.
    let client = Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = ConnectorBuilder::default().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(RuntimeComponents::sleep_impl));
        connector.set_proxy_config(Some(ProxyConfig::from_env()));
        connector.build()
    });
    SharedHttpClient::new(Bounded(client))
}

/// Limits the length of every answer.
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

    /// Loads the certificates, so that the first request need not.
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
        let call = self.0.call(request);
        HttpConnectorFuture::new(async move { Ok(call.await?.map(bounded)) })
    }
}

fn bounded(body: SdkBody) -> SdkBody {
    let limited = Limited::new(body, ANSWER_MAX);
    SdkBody::from_body_1_x(limited.map_err(|error| {
        if error.is::<LengthLimitError>() { Unreadable::TooLong } else { Unreadable::Other(error) }
    }))
}

#[cfg(test)]
mod tests;

//! Signed requests to one service.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningError, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use aws_types::service_config::ServiceConfigKey;
use http_body_util::BodyExt as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use redeliver_core::ports::{Clock as _, EntryError, Fault};

use crate::SystemClock;
use crate::failed_request::{connector_error, no_credentials};
use crate::http_client::connector;
use crate::role_credentials::RoleCredentials;

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout of a response's first byte.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// All but unreserved characters ("Create a signed AWS API request", IAM User Guide).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const ENCODED_BUT_SLASH: &AsciiSet = &ENCODED.remove(b'/');

/// A text in a query or in a form.
pub(super) fn encoded(text: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(text, ENCODED)
}

/// A key in a path.
pub(super) fn encoded_path(key: &str) -> impl fmt::Display + '_ {
    utf8_percent_encode(key, ENCODED_BUT_SLASH)
}

/// Sends signed requests to a service in a region.
#[derive(Clone)]
pub(super) struct SignedClient {
    service: &'static str,
    region: String,
    /// `https://HOST`, without a `/` at its end.
    pub(super) endpoint: Endpoint,
    connector: SharedHttpConnector,
    credentials: Arc<RoleCredentials>,
}

/// The address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// AWS's own host, such as `s3.eu-central-1.amazonaws.com`.
    Aws(String),
    /// A URL that the environment or a command names, such as an emulator's.
    Custom(String),
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) body: Vec<u8>,
}

/// One request.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, &'a str)>,
    pub(super) body: Vec<u8>,
}

impl SignedClient {
    /// A client with the credentials of the configuration; its region, if none is named.
    pub(super) fn new(config: &SdkConfig, service: &'static str, region: Option<&str>) -> Self {
        let region = region.or(config.region().map(AsRef::as_ref)).unwrap_or("us-east-1").to_owned();
        let settings =
            HttpConnectorSettings::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        Self {
            endpoint: Endpoint::of(config, service, &region),
            service,
            region,
            connector: connector(Some(&settings.build()), config.sleep_impl(), ProxyConfig::from_env()),
            credentials: Arc::new(RoleCredentials::new(config.credentials_provider())),
        }
    }

    /// The answer to a request, whatever its status.
    pub(super) async fn send(&self, request: Request<'_>) -> Result<Response, EntryError> {
        let now = SystemClock.now().into();
        let not_built = || EntryError::new(Fault::Sender, "RequestNotBuilt");
        let credentials = self.credentials.at(now).await.map_err(|_| no_credentials())?;
        let signature = self.signature(&request, credentials, now).map_err(|_| not_built())?;
        let content_length = request.body.len().to_string();
        let mut signed = HttpRequest::new(SdkBody::from(request.body));
        signed.set_method(request.method).map_err(|_| not_built())?;
        if request.method != "GET" {
            // The HTTP client sends none for an empty body, and S3 refuses a write without one
            // (`MissingContentLength`).
            signed.headers_mut().insert("content-length", content_length);
        }
        signed.set_uri(request.url).map_err(|_| not_built())?;
        for (name, value) in request.headers {
            signed.headers_mut().insert(name, value.to_owned());
        }
        for (name, value) in signature {
            signed.headers_mut().insert(name, value);
        }
        let answer = self.connector.call(signed).await.map_err(|error| connector_error(&error))?;
        let (status, etag) = (answer.status().as_u16(), answer.headers().get("etag").map(str::to_owned));
        // The request was carried out, whatever becomes of the answer's body.
        let lost = |_| EntryError::new(Fault::NoAnswer, "Connection");
        let body = answer.into_body().collect().await.map_err(lost)?.to_bytes().to_vec();
        Ok(Response { status, etag, body })
    }

    fn signature(
        &self,
        request: &Request<'_>,
        credentials: aws_credential_types::Credentials,
        now: SystemTime,
    ) -> Result<Vec<(&'static str, String)>, SigningError> {
        let mut settings = SigningSettings::default();
        if self.service == "s3" {
            // S3 takes paths as they are, and wants the body's checksum in a header ("Authenticating Requests: Using the
            // Authorization Header", Amazon S3 API Reference).
            settings.percent_encoding_mode = PercentEncodingMode::Single;
            settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        let identity = credentials.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(self.service)
            .time(now)
            .settings(settings)
            .build()
            .expect("identity, region, name, time and settings are set");
        let headers = request.headers.iter().copied();
        let body = SignableBody::Bytes(&request.body);
        let signable = SignableRequest::new(request.method, &request.url, headers, body)?;
        let (instructions, _) = sign(signable, &params.into())?.into_parts();
        let (headers, _) = instructions.into_parts();
        Ok(headers.into_iter().map(|header| (header.name(), header.value().to_owned())).collect())
    }
}

impl Endpoint {
    /// A service's own variable takes precedence over that of all services, and both over AWS's host.
    pub(super) fn of(config: &SdkConfig, service: &str, region: &str) -> Self {
        let own = config.service_config().and_then(|of_service| {
            let service_id = if service == "events" { "eventbridge" } else { service };
            let key = ServiceConfigKey::builder().service_id(service_id).env("AWS_ENDPOINT_URL");
            of_service.load_config(key.profile("endpoint_url").build().ok()?)
        });
        if let Some(url) = own.as_deref().or(config.endpoint_url()) {
            return Self::Custom(url.trim_end_matches('/').to_owned());
        }
        let fips = if config.use_fips() == Some(true) { "-fips" } else { "" };
        let dual_stack = if config.use_dual_stack() == Some(true) { ".dualstack" } else { "" };
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let dual_stack = if service == "s3" { dual_stack } else { "" };
        Self::Aws(format!("{service}{fips}{dual_stack}.{region}.{domain}"))
    }

    /// The URL of the service itself.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Aws(host) => format!("https://{host}/"),
            Self::Custom(url) => format!("{url}/"),
        }
    }
}

/// Shows no credentials.
impl fmt::Debug for SignedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, region, endpoint, .. } = self;
        f.debug_struct("SignedClient")
            .field("service", service)
            .field("region", region)
            .field("endpoint", endpoint)
            .finish_non_exhaustive()
    }
}

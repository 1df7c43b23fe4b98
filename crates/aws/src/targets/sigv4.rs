//! AWS Signature Version 4, with the program's own role.
//!
//! The algorithm: "Create a signed AWS API request", IAM User Guide,
//! <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SigningError, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use redeliver_core::handler::HandlerError;
use redeliver_core::message::Timestamp;
use reqwest::header::HeaderValue;
use reqwest::{Body, Request, Url};
use strum::{EnumString, IntoStaticStr};
use thiserror::Error;

use crate::role_credentials::RoleCredentials;

/// Headers that a signature adds. With `TARGET_SIGV4`, a secret cannot set them.
pub(super) const HEADERS: [&str; 4] =
    ["authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];
/// Headers that are signed in addition to `Host` and AWS's own. A secret's headers are not signed: each authenticates
/// the call by itself, and the signer logs signed values at TRACE.
const SIGNED: [&str; 3] = ["content-type", "idempotency-key", "x-redeliver-attempt"];

/// A service that receives signed calls, with its name in signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
pub enum SignedService {
    /// Lambda function URLs.
    #[strum(serialize = "lambda")]
    Lambda,
    /// API Gateway.
    #[strum(serialize = "execute-api")]
    ExecuteApi,
    #[strum(serialize = "vpc-lattice-svcs")]
    VpcLattice,
}

/// `TARGET_SIGV4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigV4Setting {
    /// `auto`: the URL's host determines the service and region.
    ByHost,
    /// A service behind a custom domain name, in the program's region.
    Service(SignedService),
}

/// The reason why calls cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SigV4Error {
    #[error("must be auto, lambda, execute-api or vpc-lattice-svcs")]
    UnknownSetting,
    #[error(
        "is auto, but the URL's host is not that of a function URL, an API of API Gateway or a service of VPC Lattice; set it to lambda, execute-api or vpc-lattice-svcs"
    )]
    UnknownHost,
    #[error("does not match the service in the URL's host; set it to auto")]
    OtherService,
    #[error("is set, but the region is not known; set AWS_REGION")]
    NoRegion,
}

impl FromStr for SigV4Setting {
    type Err = SigV4Error;

    fn from_str(text: &str) -> Result<Self, SigV4Error> {
        match text {
            "auto" => Ok(Self::ByHost),
            service => service.parse().map(Self::Service).map_err(|_| SigV4Error::UnknownSetting),
        }
    }
}

impl SigV4Setting {
    /// Returns the service, and the region if the host contains it.
    ///
    /// # Errors
    /// If the setting does not match the URL.
    pub fn resolve_service(self, url: &Url) -> Result<(SignedService, Option<&str>), SigV4Error> {
        match (self, parse_aws_host(url.host_str().unwrap_or_default())) {
            (Self::ByHost, Some((service, region))) => Ok((service, Some(region))),
            (Self::ByHost, None) => Err(SigV4Error::UnknownHost),
            (Self::Service(named), Some((service, region))) if named == service => {
                Ok((service, Some(region)))
            }
            (Self::Service(_), Some(_)) => Err(SigV4Error::OtherService),
            (Self::Service(service), None) => Ok((service, None)),
        }
    }
}

/// Returns the service and region of a host under an AWS domain: "Creating and managing Lambda function URLs" (AWS
/// Lambda Developer Guide), "Invoke REST APIs in API Gateway" (API Gateway Developer Guide), "Amazon VPC Lattice
/// services" (VPC Lattice User Guide).
fn parse_aws_host(host: &str) -> Option<(SignedService, &str)> {
    let labels: Vec<_> = host.split('.').collect();
    match labels[..] {
        [_, "lambda-url", region, "on", "aws"] => Some((SignedService::Lambda, region)),
        [_, "execute-api", region, "amazonaws", "com"]
        | [_, "execute-api", region, "amazonaws", "com", "cn"] => Some((SignedService::ExecuteApi, region)),
        [_, _, "vpc-lattice-svcs", region, "on", "aws"] => Some((SignedService::VpcLattice, region)),
        _ => None,
    }
}

/// A request signer that uses the program's role, for the service that `TARGET_SIGV4` selects.
#[derive(Clone)]
pub struct SigV4Signer {
    setting: SigV4Setting,
    region: Option<String>,
    credentials: Arc<RoleCredentials>,
}

impl SigV4Signer {
    /// Creates a signer with the credentials and region of the SDK's configuration.
    #[must_use]
    pub fn new(setting: SigV4Setting, config: &SdkConfig) -> Self {
        let region = config.region().map(ToString::to_string);
        let credentials = Arc::new(RoleCredentials::new(config.credentials_provider()));
        Self { setting, region, credentials }
    }

    /// Returns the signer for this URL.
    ///
    /// # Errors
    /// If the setting does not match the URL, or the region is unknown.
    pub(super) fn for_url(&self, url: &Url) -> Result<SigV4, SigV4Error> {
        let (service, region) = self.setting.resolve_service(url)?;
        let region = region.or(self.region.as_deref()).ok_or(SigV4Error::NoRegion)?.to_owned();
        Ok(SigV4 { service, region, credentials: Arc::clone(&self.credentials) })
    }
}

/// A signer for requests to one service in one region.
#[derive(Clone)]
pub(super) struct SigV4 {
    service: SignedService,
    region: String,
    credentials: Arc<RoleCredentials>,
}

/// Ignores the credentials, since a program has one role.
impl PartialEq for SigV4 {
    fn eq(&self, other: &Self) -> bool {
        (self.service, &self.region) == (other.service, &other.region)
    }
}

impl Eq for SigV4 {}

impl SigV4 {
    /// Adds the signature to a request that already has all other headers.
    pub(super) async fn sign_request(
        &self,
        request: &mut Request,
        now: Timestamp,
    ) -> Result<(), HandlerError> {
        let Ok(credentials) = self.credentials.load_at(now.into()).await else {
            return Err(HandlerError::transient(
                "Http.NoCredentials",
                "no credentials to sign the call with",
            ));
        };
        let signs_body = match self.service {
            SignedService::Lambda | SignedService::ExecuteApi => true,
            // "VPC Lattice does not support payload signing" ("SIGv4 authenticated requests for Amazon VPC Lattice").
            SignedService::VpcLattice => false,
        };
        add_signature(request, self.service.into(), &self.region, credentials, now.into(), signs_body)
            .map_err(|_| HandlerError::transient("Http.NotSigned", "the call cannot be signed"))
    }
}

fn add_signature(
    request: &mut Request,
    service: &str,
    region: &str,
    credentials: Credentials,
    now: SystemTime,
    signs_body: bool,
) -> Result<(), SigningError> {
    let mut settings = SigningSettings::default();
    let body = request.body().and_then(Body::as_bytes).unwrap_or_default();
    let body = if signs_body {
        SignableBody::Bytes(body)
    } else {
        // Adds the header `x-amz-content-sha256`.
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        SignableBody::UnsignedPayload
    };
    let identity = credentials.into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(settings)
        .build()
        .expect("identity, region, name, time and settings are set");
    let headers =
        SIGNED.iter().filter_map(|name| Some((*name, request.headers().get(*name)?.to_str().ok()?)));
    let signable = SignableRequest::new(request.method().as_str(), request.url().as_str(), headers, body)?;
    let (instructions, _) = sign(signable, &params.into())?.into_parts();
    let (headers, _) = instructions.into_parts();
    for header in headers {
        let mut value = HeaderValue::from_str(header.value()).expect("the signer's values are ASCII");
        value.set_sensitive(header.sensitive());
        request.headers_mut().insert(header.name(), value);
    }
    Ok(())
}

/// Omits the credentials.
impl fmt::Debug for SigV4Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigV4Signer").field("setting", &self.setting).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

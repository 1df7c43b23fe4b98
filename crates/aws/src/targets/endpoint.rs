//! The endpoint of an HTTP target: its URL and the authentication of requests. Parts of it can be in a secret.

mod secret;

use std::fmt;

use redeliver_core::handler::{HandlerError, Message};
use redeliver_core::message::Timestamp;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Request, RequestBuilder};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use thiserror::Error;

use super::http::no_response;
use super::sigv4::{self, SigV4, SigV4Error, SigV4Signer};
use super::standard_webhooks::{self, SigningSecrets, SigningSecretsError};
use super::{TargetAddress, TargetError, TargetUrl};

pub use secret::SecretEndpoint;

/// The URL and the authentication for every request.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) url: TargetUrl,
    /// The headers from the secret.
    pub(super) headers: HeaderMap,
    signing: Signing,
}

/// The signature of a request.
#[derive(Clone, PartialEq, Eq)]
enum Signing {
    /// No signature: any credentials are in the headers.
    None,
    /// Signed with the signing secrets in the endpoint's secret.
    StandardWebhooks(SigningSecrets),
    /// Signed with the program's role.
    SigV4(SigV4),
}

/// The settings that, together with a secret, define an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointSettings {
    pub url: UrlSetting,
    pub sigv4: Option<SigV4Signer>,
}

/// The location of the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlSetting {
    /// `TARGET`.
    Given(TargetUrl),
    /// The secret. `TARGET_ALLOW_HTTP` also applies to a URL in the secret.
    InSecret { allow_http: bool },
}

/// The reason why a secret is unusable, without any of its values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// Secrets Manager's error code.
    #[error(
        "the secret of TARGET_HEADERS_SECRET_ARN cannot be read ({0}); the function's role needs secretsmanager:GetSecretValue on it"
    )]
    Unreadable(String),
    /// Not an object of strings.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN is not a JSON object of header names and string values")]
    NotAnObject,
    /// A name that HTTP does not allow. It is not shown, since the name and the value might be swapped.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has a name that is not a valid HTTP header name")]
    NotAName,
    /// A value that HTTP does not allow, for example because of a line break.
    #[error(
        "the header {0} in the secret of TARGET_HEADERS_SECRET_ARN has a line break or another control character; remove it"
    )]
    NotAValue(HeaderName),
    /// A header that occurs twice, ignoring case as HTTP does.
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has the header {0} twice")]
    Twice(HeaderName),
    /// A header that redeliver or HTTP sets.
    #[error(
        "the secret of TARGET_HEADERS_SECRET_ARN has {0}, which redeliver or HTTP itself sets; remove it"
    )]
    Reserved(HeaderName),
    /// A name that begins with a colon and is neither `:url` nor `:signing-secrets`. It is not shown.
    #[error(
        "the secret of TARGET_HEADERS_SECRET_ARN has a name that begins with a colon and is neither {URL} nor {SIGNING_SECRETS}; correct it"
    )]
    UnknownPart,
    #[error("the secret of TARGET_HEADERS_SECRET_ARN has {0} twice; remove one")]
    PartTwice(&'static str),
    #[error("{URL} in the secret of TARGET_HEADERS_SECRET_ARN is not an https:// URL")]
    NotAUrl,
    #[error("{URL} in the secret of TARGET_HEADERS_SECRET_ARN {0}")]
    Url(TargetError),
    #[error("TARGET is not set, and the secret of TARGET_HEADERS_SECRET_ARN has no {URL}; set one of them")]
    NoUrl,
    #[error("TARGET is set, and the secret of TARGET_HEADERS_SECRET_ARN also has {URL}; remove one of them")]
    TwoUrls,
    #[error("{SIGNING_SECRETS} in the secret of TARGET_HEADERS_SECRET_ARN {0}")]
    SigningSecrets(SigningSecretsError),
    #[error(
        "TARGET_SIGV4 is set, and the secret of TARGET_HEADERS_SECRET_ARN also has {SIGNING_SECRETS}; remove one of them"
    )]
    TwoSignatures,
    #[error("TARGET_SIGV4 {0}")]
    SigV4(SigV4Error),
}

impl SecretError {
    /// Returns a code for logs, which contains no names from the secret.
    fn log_code(&self) -> &str {
        match self {
            Self::Unreadable(code) => code,
            Self::NotAnObject => "NotAnObject",
            Self::NotAName => "NotAName",
            Self::NotAValue(_) => "NotAValue",
            Self::Twice(_) => "Twice",
            Self::Reserved(_) => "Reserved",
            Self::UnknownPart => "UnknownPart",
            Self::PartTwice(_) => "PartTwice",
            Self::NotAUrl => "NotAUrl",
            Self::Url(_) => "Url",
            Self::NoUrl => "NoUrl",
            Self::TwoUrls => "TwoUrls",
            Self::SigningSecrets(_) => "SigningSecrets",
            Self::TwoSignatures => "TwoSignatures",
            Self::SigV4(_) => "SigV4",
        }
    }
}

/// The members of the secret other than headers. A header's name cannot begin with a colon.
const URL: &str = ":url";
const SIGNING_SECRETS: &str = ":signing-secrets";

/// Headers that redeliver or HTTP itself sets.
const RESERVED: [&str; 15] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "idempotency-key",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The prefix of redeliver's current and future headers.
const RESERVED_PREFIX: &str = "x-redeliver-";

impl Endpoint {
    /// Creates an endpoint without authentication.
    #[must_use]
    pub fn without_auth(url: TargetUrl) -> Self {
        Self { url, headers: HeaderMap::new(), signing: Signing::None }
    }

    /// Creates an endpoint whose calls are signed with the program's role.
    ///
    /// # Errors
    /// If the signer's setting does not match the URL.
    pub fn with_role(url: TargetUrl, signer: &SigV4Signer) -> Result<Self, SigV4Error> {
        let signing = Signing::SigV4(signer.for_url(&url.0)?);
        Ok(Self { signing, ..Self::without_auth(url) })
    }

    /// Parses the secret's value.
    ///
    /// # Errors
    /// If the value is not a JSON object of valid headers and parts, or does not match the settings.
    pub fn parse(settings: &EndpointSettings, secret: &str) -> Result<Self, SecretError> {
        let SecretMembers(named) = serde_json::from_str(secret).map_err(|_| SecretError::NotAnObject)?;
        let (mut headers, mut url, mut signing_secrets) = (HeaderMap::new(), None, None);
        for (name, value) in named {
            match name.as_str() {
                URL => set_once(&mut url, URL, value)?,
                SIGNING_SECRETS => set_once(&mut signing_secrets, SIGNING_SECRETS, value)?,
                part if part.starts_with(':') => return Err(SecretError::UnknownPart),
                _ => add_header(&mut headers, &name, &value, settings.sigv4.is_some())?,
            }
        }
        let url = settings.url.resolve_url(url.as_deref())?;
        let signing = match (signing_secrets, &settings.sigv4) {
            (None, None) => Signing::None,
            (None, Some(signer)) => Signing::SigV4(signer.for_url(&url.0).map_err(SecretError::SigV4)?),
            (Some(_), Some(_)) => return Err(SecretError::TwoSignatures),
            (Some(text), None) => {
                Signing::StandardWebhooks(SigningSecrets::parse(&text).map_err(SecretError::SigningSecrets)?)
            }
        };
        Ok(Self { url, headers, signing })
    }

    /// Adds the signature, with this timestamp, to a request that already has all other headers.
    pub(super) async fn sign_request(
        &self,
        request: RequestBuilder,
        message: &Message<'_>,
        now: Timestamp,
    ) -> Result<Request, HandlerError> {
        match &self.signing {
            Signing::None => build_request(request),
            Signing::StandardWebhooks(secrets) => build_request(secrets.sign_request(request, message, now)),
            Signing::SigV4(signature) => {
                let mut request = build_request(request)?;
                signature.sign_request(&mut request, now).await?;
                Ok(request)
            }
        }
    }
}

fn build_request(request: RequestBuilder) -> Result<Request, HandlerError> {
    request.build().map_err(|error| no_response(&error))
}

fn set_once(part: &mut Option<String>, name: &'static str, value: String) -> Result<(), SecretError> {
    match part.replace(value) {
        None => Ok(()),
        Some(_) => Err(SecretError::PartTwice(name)),
    }
}

fn add_header(headers: &mut HeaderMap, name: &str, value: &str, has_sigv4: bool) -> Result<(), SecretError> {
    let name: HeaderName = name.parse().map_err(|_| SecretError::NotAName)?;
    let text = name.as_str();
    if has_sigv4 && sigv4::HEADERS.contains(&text) {
        return Err(SecretError::Reserved(name));
    }
    if RESERVED.contains(&text)
        || text.starts_with(RESERVED_PREFIX)
        || standard_webhooks::HEADERS.contains(&text)
    {
        return Err(SecretError::Reserved(name));
    }
    let Ok(mut value) = HeaderValue::from_str(value) else {
        return Err(SecretError::NotAValue(name));
    };
    value.set_sensitive(true);
    match headers.insert(&name, value) {
        None => Ok(()),
        Some(_) => Err(SecretError::Twice(name)),
    }
}

impl UrlSetting {
    fn resolve_url(&self, in_secret: Option<&str>) -> Result<TargetUrl, SecretError> {
        match (self, in_secret) {
            (Self::Given(url), None) => Ok(url.clone()),
            (Self::Given(_), Some(_)) => Err(SecretError::TwoUrls),
            (Self::InSecret { .. }, None) => Err(SecretError::NoUrl),
            (Self::InSecret { allow_http }, Some(text)) => match TargetAddress::parse(text, *allow_http) {
                Ok(TargetAddress::Url(url)) => Ok(url),
                Ok(TargetAddress::LambdaArn(_)) | Err(TargetError::Neither) => Err(SecretError::NotAUrl),
                Err(error) => Err(SecretError::Url(error)),
            },
        }
    }
}

/// Shows nothing from the secret, not even the names of its headers.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").finish_non_exhaustive()
    }
}

/// The members of an object of strings, including duplicates.
struct SecretMembers(Vec<(String, String)>);

impl<'de> Deserialize<'de> for SecretMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecretMembersVisitor;
        impl<'de> Visitor<'de> for SecretMembersVisitor {
            type Value = SecretMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<SecretMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = object.next_entry()? {
                    members.push(member);
                }
                Ok(SecretMembers(members))
            }
        }
        deserializer.deserialize_map(SecretMembersVisitor)
    }
}

#[cfg(test)]
mod tests;

//! Standard Webhooks symmetric signatures, version 1.
//!
//! The specification: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>.

use std::fmt;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use redeliver_core::handler::Message;
use redeliver_core::message::Timestamp;
use reqwest::RequestBuilder;
use sha2::Sha256;
use thiserror::Error;

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";
/// The headers of a signed request ("Webhook headers").
pub(super) const HEADERS: [&str; 3] = [ID, TIMESTAMP, SIGNATURE];

/// The prefix of a symmetric secret ("Signature scheme").
const PREFIX: &str = "whsec_";
/// The length of a symmetric secret ("Signature scheme").
const KEY_BYTES: RangeInclusive<usize> = 24..=64;

/// One or two secrets: during a rotation, requests are signed with both, and the target accepts either.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecrets {
    first: SigningKey,
    second: Option<SigningKey>,
}

#[derive(Clone, PartialEq, Eq)]
struct SigningKey(Vec<u8>);

/// The reason why signing secrets are invalid, without the secrets themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SigningSecretsError {
    #[error("is empty; set it to one secret ({PREFIX}BASE64), or to two separated by a space")]
    Empty,
    #[error("has more than two secrets; keep the current one and the next one")]
    TooMany,
    #[error("has a secret that is not {PREFIX} and base64 with its padding; copy it again")]
    NotASecret,
    #[error(
        "has a secret that is not {} to {} bytes long; generate another: head -c 32 /dev/urandom | base64",
        KEY_BYTES.start(),
        KEY_BYTES.end()
    )]
    WrongLength,
}

impl SigningSecrets {
    /// Parses one or two secrets separated by whitespace.
    ///
    /// # Errors
    /// Returns the reason why they are invalid.
    pub fn parse(text: &str) -> Result<Self, SigningSecretsError> {
        let mut secrets = text.split_ascii_whitespace();
        let first = secrets.next().ok_or(SigningSecretsError::Empty)?;
        let second = secrets.next();
        if secrets.next().is_some() {
            return Err(SigningSecretsError::TooMany);
        }
        Ok(Self { first: SigningKey::parse(first)?, second: second.map(SigningKey::parse).transpose()? })
    }

    /// Adds the headers. The id is the message id, the same in every attempt, so receivers can use it as an idempotency
    /// key. The timestamp is that of the attempt.
    pub(super) fn sign_request(
        &self,
        request: RequestBuilder,
        message: &Message<'_>,
        now: Timestamp,
    ) -> RequestBuilder {
        // Always a UUID. A producer's own id may contain periods, which separate the signed parts.
        let id = message.message_id;
        let timestamp = now.timestamp();
        request
            .header(ID, id)
            .header(TIMESTAMP, timestamp)
            .header(SIGNATURE, self.joined_signatures(id, timestamp, message.body))
    }

    /// Returns the signatures, separated by spaces.
    fn joined_signatures(&self, id: &str, timestamp: i64, body: &str) -> String {
        let mut signatures = self.first.signature(id, timestamp, body);
        if let Some(second) = &self.second {
            signatures.push(' ');
            signatures.push_str(&second.signature(id, timestamp, body));
        }
        signatures
    }
}

impl SigningKey {
    fn parse(secret: &str) -> Result<Self, SigningSecretsError> {
        let encoded = secret.strip_prefix(PREFIX).ok_or(SigningSecretsError::NotASecret)?;
        let key = STANDARD.decode(encoded).map_err(|_| SigningSecretsError::NotASecret)?;
        if KEY_BYTES.contains(&key.len()) { Ok(Self(key)) } else { Err(SigningSecretsError::WrongLength) }
    }

    fn signature(&self, id: &str, timestamp: i64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC accepts keys of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body.as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// Omits the secrets.
impl fmt::Debug for SigningSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

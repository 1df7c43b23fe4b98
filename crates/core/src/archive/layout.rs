//! Builds and parses the keys of the archive's objects:
//!
//! ```text
//! PREFIXdead-letters/deployment=NAME/date=2026-11-27/cause=FINGERPRINT/142233.123456Z-ID.jsonl.gz
//! ```

use chrono::NaiveDateTime;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::message::Timestamp;

/// Size limit of a prefix; S3 limits a whole key to 1,024 bytes ("Naming Amazon S3 objects").
const PREFIX_BYTES_MAX: usize = 256;
/// The folder of the dead letters, after the prefix.
const DEAD_LETTERS: &str = "dead-letters/";
const DATE: &str = "%Y-%m-%d";
const TIME: &str = "%H%M%S%.6fZ";
const EXTENSION: &str = ".jsonl.gz";

/// The prefix of all keys: empty, or ending with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(String);

/// The reason why a text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PrefixError {
    #[error("has more than {PREFIX_BYTES_MAX} characters")]
    TooLong,
    #[error("begins with `/`, which would create a folder without a name; remove it")]
    Slash,
    #[error("has a character other than A-Z a-z 0-9 ! _ . * ' ( ) / = -")]
    Character,
}

impl Prefix {
    /// Checks the text, and appends a missing `/` unless it is empty. Allowed are the characters that S3 calls safe
    /// ("Naming Amazon S3 objects"), and `=`.
    ///
    /// # Errors
    /// The text has more than 256 characters, begins with `/`, or has a character that is not allowed.
    pub fn new(text: &str) -> Result<Self, PrefixError> {
        let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"!_.*'()/=-".contains(&byte);
        match text {
            "" => Ok(Self::default()),
            _ if text.len() > PREFIX_BYTES_MAX => Err(PrefixError::TooLong),
            _ if text.starts_with('/') => Err(PrefixError::Slash),
            _ if !text.bytes().all(is_safe) => Err(PrefixError::Character),
            _ => Ok(Self(format!("{}/", text.trim_end_matches('/')))),
        }
    }

    /// The text: empty, or ending with `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The identity of a death: the same for all copies and receives of its verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Death {
    /// Time of the last failure.
    pub at: Timestamp,
    /// The cause's fingerprint.
    pub fingerprint: String,
    /// The SQS message id of the delivery that failed.
    pub id: String,
}

impl Death {
    /// A death with texts that are safe in a key: an unsafe text is replaced by its hash.
    #[must_use]
    pub fn new(at: Timestamp, fingerprint: &str, id: &str) -> Self {
        Self { at, fingerprint: safe_or_hash(fingerprint), id: safe_or_hash(id) }
    }
}

/// The text, if it is short and safe in a key; otherwise 32 hexadecimal digits of its hash.
fn safe_or_hash(text: &str) -> String {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(is_safe) {
        return text.to_owned();
    }
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The layout of a deployment's objects in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveLayout {
    pub prefix: Prefix,
    /// The name of the final DLQ.
    pub deployment: String,
}

/// The deployment's name in keys: the name of its final DLQ, which is the last part of the queue's URL.
#[must_use]
pub fn deployment_name(final_dlq_url: &str) -> String {
    let name = final_dlq_url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    safe_or_hash(name)
}

impl ArchiveLayout {
    /// The folder that holds all deployments of an archive.
    #[must_use]
    pub fn deployments_folder(prefix: &Prefix) -> String {
        format!("{}{DEAD_LETTERS}", prefix.as_str())
    }

    /// The folder that holds the deployment's days.
    #[must_use]
    pub fn days_folder(&self) -> String {
        format!("{}deployment={}/", Self::deployments_folder(&self.prefix), self.deployment)
    }

    /// The object key of a death.
    #[must_use]
    pub fn object_key(&self, death: &Death) -> String {
        let Death { at, fingerprint, id } = death;
        let place = format!("{}date={}/cause={fingerprint}/", self.days_folder(), at.format(DATE));
        format!("{place}{}-{id}{EXTENSION}", at.format(TIME))
    }

    /// The death with this key; `None` for any other key.
    #[must_use]
    pub fn parse_key(&self, key: &str) -> Option<Death> {
        let (date, rest) = key.strip_prefix(&self.days_folder())?.strip_prefix("date=")?.split_once('/')?;
        let (fingerprint, rest) = rest.strip_prefix("cause=")?.split_once('/')?;
        let (time, id) = rest.strip_suffix(EXTENSION)?.split_once('-')?;
        let at = NaiveDateTime::parse_from_str(&format!("{date}T{time}"), &format!("{DATE}T{TIME}")).ok()?;
        let death = Death { at: at.and_utc(), fingerprint: fingerprint.to_owned(), id: id.to_owned() };
        // A key in another spelling is not ours.
        (self.object_key(&death) == key).then_some(death)
    }
}

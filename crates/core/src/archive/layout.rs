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
/// The folder for dead letters, after the prefix.
const DEAD_LETTERS: &str = "dead-letters/";
const DATE: &str = "%Y-%m-%d";
const TIME: &str = "%H%M%S%.6fZ";
const EXTENSION: &str = ".jsonl.gz";

/// The prefix of all keys: empty, or ending with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(String);

/// The reason why a prefix is refused.
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
    /// Checks the prefix, and appends a missing `/` unless the prefix is empty. The allowed characters are those that
    /// S3 calls safe ("Naming Amazon S3 objects") and `=`.
    ///
    /// # Errors
    /// The string has more than 256 characters, starts with `/`, or contains a character that is not allowed.
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

    /// Returns the prefix: empty, or ending with `/`.
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
    /// Creates a death whose strings are safe in a key: a hash replaces an unsafe string.
    #[must_use]
    pub fn new(at: Timestamp, fingerprint: &str, id: &str) -> Self {
        Self { at, fingerprint: safe_name_or_hash(fingerprint), id: safe_name_or_hash(id) }
    }
}

/// Returns the string if it is short and safe in a key, otherwise 32 hexadecimal digits of its hash.
fn safe_name_or_hash(text: &str) -> String {
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

/// Returns the deployment's name in keys: the name of its final DLQ, i.e. the last part of the queue's URL.
#[must_use]
pub fn deployment_name(final_dlq_url: &str) -> String {
    let name = final_dlq_url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    safe_name_or_hash(name)
}

impl ArchiveLayout {
    /// Returns the folder that contains the `deployment=` folders of an archive.
    #[must_use]
    pub fn deployments_folder(prefix: &Prefix) -> String {
        format!("{}{DEAD_LETTERS}", prefix.as_str())
    }

    /// Returns the folder that contains the deployment's `date=` folders.
    #[must_use]
    pub fn days_folder(&self) -> String {
        format!("{}deployment={}/", Self::deployments_folder(&self.prefix), self.deployment)
    }

    /// Returns the object key for a death.
    #[must_use]
    pub fn object_key(&self, death: &Death) -> String {
        let Death { at, fingerprint, id } = death;
        let place = format!("{}date={}/cause={fingerprint}/", self.days_folder(), at.format(DATE));
        format!("{place}{}-{id}{EXTENSION}", at.format(TIME))
    }

    /// Parses an object key of this deployment; `None` for any other key.
    #[must_use]
    pub fn parse_key(&self, key: &str) -> Option<Death> {
        let (date, rest) = key.strip_prefix(&self.days_folder())?.strip_prefix("date=")?.split_once('/')?;
        let (fingerprint, rest) = rest.strip_prefix("cause=")?.split_once('/')?;
        let (time, id) = rest.strip_suffix(EXTENSION)?.split_once('-')?;
        let at = NaiveDateTime::parse_from_str(&format!("{date}T{time}"), &format!("{DATE}T{TIME}")).ok()?;
        let death = Death { at: at.and_utc(), fingerprint: fingerprint.to_owned(), id: id.to_owned() };
        // redeliver writes each key in only one way, so it did not write a key that is spelled differently.
        (self.object_key(&death) == key).then_some(death)
    }
}

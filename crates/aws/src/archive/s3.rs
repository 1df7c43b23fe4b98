//! An S3 bucket, accessed through the AWS SDK: conditional writes, reads and listings, one request per call.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_types::service_config::ServiceConfigKey;
use redeliver_core::ports::{EntryError, Fault, Listing, ListingPage, ObjectStore, ReadableStore};
use thiserror::Error;

use crate::failed_request::entry_error;

/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The timeout for the first byte of the response.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The id of an AWS account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountId(u64);

/// The error for a string that is not an AWS account id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("is not the id of an AWS account, which has 12 digits, such as 123456789012")]
pub struct AccountIdError;

impl FromStr for AccountId {
    type Err = AccountIdError;

    fn from_str(text: &str) -> Result<Self, AccountIdError> {
        let has_12_digits = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| has_12_digits).map(Self).ok_or(AccountIdError)
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012}", self.0)
    }
}

/// Splits `s3://BUCKET/PREFIX` into the bucket and the prefix, which may be empty. Returns `None` for any other string.
#[must_use]
pub fn parse_s3_uri(uri: &str) -> Option<(&str, &str)> {
    let (bucket, prefix) =
        uri.strip_prefix("s3://").map(|rest| rest.split_once('/').unwrap_or((rest, "")))?;
    (!bucket.is_empty()).then_some((bucket, prefix))
}

/// A bucket in S3 or a compatible service.
#[derive(Clone, Debug)]
pub struct S3Bucket {
    client: Client,
    name: String,
    /// The expected owner: S3 rejects every request if the bucket belongs to another account
    /// (`x-amz-expected-bucket-owner`). Anyone can register the name of a deleted bucket.
    owner: Option<String>,
}

impl S3Bucket {
    /// Creates a handle for a bucket in the configuration's region. With `owner`, every request fails if the bucket
    /// belongs to another account.
    #[must_use]
    pub fn new(config: &SdkConfig, name: &str, owner: Option<AccountId>) -> Self {
        Self {
            client: Client::from_conf(client_config(config).build()),
            name: name.to_owned(),
            owner: owner.map(|account| account.to_string()),
        }
    }
}

/// Configures a client without retries, since `redeliver_core::deliver` retries.
fn client_config(config: &SdkConfig) -> Builder {
    let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
    Builder::from(config)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts.build())
        // Emulators do not have a hostname per bucket.
        .force_path_style(has_custom_endpoint(config))
}

fn has_custom_endpoint(config: &SdkConfig) -> bool {
    let key = ServiceConfigKey::builder().service_id("S3").env("AWS_ENDPOINT_URL").profile("endpoint_url");
    let s3_endpoint = || config.service_config()?.load_config(key.build().ok()?);
    config.endpoint_url().is_some() || s3_endpoint().is_some()
}

impl ObjectStore for S3Bucket {
    async fn create_object(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        let put = self.client.put_object().bucket(&self.name).key(key).body(ByteStream::from(content));
        let put = put.if_none_match("*").set_expected_bucket_owner(self.owner.clone());
        match put.send().await {
            Ok(_) => Ok(true),
            Err(error) if response_status(&error) == Some(412) => Ok(false),
            Err(error) => Err(classify_error(&error)),
        }
    }
}

impl ReadableStore for S3Bucket {
    async fn read_object(&self, key: &str) -> Result<Option<Vec<u8>>, EntryError> {
        let get = self.client.get_object().bucket(&self.name).key(key);
        match get.set_expected_bucket_owner(self.owner.clone()).send().await {
            Ok(object) => match object.body.collect().await {
                Ok(content) => Ok(Some(content.to_vec())),
                Err(_) => Err(EntryError::new(Fault::NoAnswer, "Connection")),
            },
            Err(error) if error.code() == Some("NoSuchKey") => Ok(None),
            Err(error) => Err(classify_error(&error)),
        }
    }

    async fn list_keys(&self, listing: Listing<'_>) -> Result<ListingPage, EntryError> {
        let list = self.client.list_objects_v2().bucket(&self.name).prefix(listing.prefix);
        let answer = list
            .set_delimiter(listing.by_folder.then(|| "/".to_owned()))
            .set_continuation_token(listing.page.map(str::to_owned))
            .set_expected_bucket_owner(self.owner.clone())
            .send()
            .await
            .map_err(|error| classify_error(&error))?;
        // A truncated listing must not be mistaken for a complete one.
        if answer.is_truncated == Some(true) && answer.next_continuation_token.is_none() {
            return Err(EntryError::new(Fault::NoAnswer, "UnreadableAnswer"));
        }
        let keys = answer.contents.unwrap_or_default().into_iter().filter_map(|object| object.key);
        let folders = answer.common_prefixes.unwrap_or_default().into_iter().filter_map(|entry| entry.prefix);
        Ok(ListingPage {
            keys: keys.collect(),
            folders: folders.collect(),
            next: answer.next_continuation_token,
        })
    }
}

fn classify_error<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> EntryError {
    let code = |status| error.code().map_or_else(|| format!("HTTP {status}"), str::to_owned);
    match response_status(error) {
        // The bucket is in another region: the request had no effect, and a retry would get the same response.
        Some(status @ 300..=399) => EntryError::new(Fault::Sender, code(status)),
        // `ConditionalRequestConflict`, a concurrent write to the same object: a retry will find that it exists.
        Some(409) => EntryError::new(Fault::Throttled, code(409)),
        _ => entry_error(error),
    }
}

fn response_status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|answer| answer.status().as_u16())
}

#[cfg(test)]
mod tests;

//! An archive of dead letters in an S3 bucket. Listing skips days outside the requested period. A purge can write to
//! the archive.

mod backup;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::time::Duration;

use chrono::NaiveDate;
use flate2::read::MultiGzDecoder;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use redeliver_core::archive::{ArchiveLayout, Death, Prefix};
use redeliver_core::deliver::settle_one;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, EntryError, Listing, ReadableStore};
use thiserror::Error;

use crate::file_queue::{BadLine, read_line};
use crate::{DeadLetterError, LINE_BYTES_MAX};

pub use backup::BucketBackup;

/// The timeout for a request including its retries.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum number of concurrent object reads.
const CONCURRENT_READS: usize = 32;
/// The maximum number of days to list concurrently.
const CONCURRENT_LISTINGS: usize = 8;

/// An archive, or one deployment's part of it.
#[derive(Clone, Debug)]
pub struct ArchiveBucket<S, C> {
    pub store: S,
    pub clock: C,
    pub prefix: Prefix,
    /// Restricts the archive to this deployment; `None` for all deployments.
    pub deployment: Option<String>,
}

/// A period from `since` (inclusive) to `until` (exclusive). `None` leaves that side open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// A dead letter in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedDeath {
    pub layout: Arc<ArchiveLayout>,
    pub death: Death,
}

/// The dead letters found for a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveListing {
    /// Sorted by time, earliest first.
    pub deaths: Vec<ArchivedDeath>,
    /// Keys under the prefix that do not follow the archive's layout.
    pub unrelated_keys: Vec<String>,
}

/// An object that is not a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedObject {
    pub key: String,
    /// The reason, without any values from the object.
    pub why: String,
}

/// The advice for a user without AWS credentials.
pub const CREDENTIALS_ADVICE: &str = "set AWS_PROFILE or --profile, or set AWS_ACCESS_KEY_ID and \
                                      AWS_SECRET_ACCESS_KEY; for single sign-on run `aws sso \
                                      login --profile NAME` first";

/// A failed S3 request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {}", describe_error(error, permission))]
pub struct ArchiveError {
    /// The object key, or the listed prefix.
    key: String,
    error: EntryError,
    /// The permission that the request requires.
    permission: &'static str,
}

fn describe_error(error: &EntryError, permission: &str) -> String {
    // The error codes that `redeliver-aws` uses for requests that did not reach S3.
    match error.code.as_str() {
        "NoCredentials" => {
            format!("no AWS credentials found, or they cannot be loaded: {CREDENTIALS_ADVICE}")
        }
        "Connect" => "no connection to S3: check the network, the region and --endpoint-url".to_owned(),
        _ => format!("{error}{}", suggest_remedy(error, permission)),
    }
}

fn suggest_remedy(error: &EntryError, permission: &str) -> String {
    match error.code.as_str() {
        "PermanentRedirect" | "AuthorizationHeaderMalformed" => {
            ": the bucket is in another region; name it with --region".to_owned()
        }
        "NoSuchBucket" => ": check the bucket's name, and the account".to_owned(),
        "AccessDenied" => {
            let on_key = if permission == "s3:PutObject" { "kms:GenerateDataKey" } else { "kms:Decrypt" };
            let key = if permission == "s3:ListBucket" {
                String::new()
            } else {
                format!(", and {on_key} on the bucket's own key if it has one")
            };
            let owner = match permission {
                "s3:PutObject" => {
                    "; if the bucket belongs to another account, name that account with --bucket-owner"
                }
                _ => "",
            };
            format!(": you need {permission} there{key}{owner}")
        }
        _ => String::new(),
    }
}

/// The reason why an object is not a dead letter.
#[derive(Debug, Error)]
enum BadObject {
    #[error("it was deleted after it was listed")]
    Gone,
    #[error("it is in a storage class that cannot be read; restore it first")]
    NotRestored,
    #[error("it is not gzip, or is truncated")]
    NotGzip,
    #[error("it has more than one line")]
    SeveralLines,
    #[error("it has more than {LINE_BYTES_MAX} bytes, the limit for a dead letter")]
    TooLong,
    #[error(transparent)]
    Line(BadLine),
}

impl Period {
    fn contains(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

    /// Returns true if the period overlaps the day.
    fn overlaps_day(&self, day: NaiveDate) -> bool {
        let start = day.and_hms_opt(0, 0, 0).map(|midnight| midnight.and_utc());
        self.since.is_none_or(|since| since.date_naive() <= day)
            && self.until.is_none_or(|until| start.is_some_and(|start| start < until))
    }
}

impl ArchivedDeath {
    /// Returns the object key.
    #[must_use]
    pub fn object_key(&self) -> String {
        self.layout.object_key(&self.death)
    }
}

impl<S: ReadableStore, C: Clock> ArchiveBucket<S, C> {
    /// Lists the deployments that have dead letters in the archive, or only [`ArchiveBucket::deployment`] if it is set.
    ///
    /// # Errors
    /// If listing the bucket is denied (`s3:ListBucket`), or S3 does not respond within 20 s.
    pub async fn list_deployments(&self) -> Result<Vec<Arc<ArchiveLayout>>, ArchiveError> {
        let layout = |deployment: &str| {
            Arc::new(ArchiveLayout { prefix: self.prefix.clone(), deployment: deployment.to_owned() })
        };
        let folder = ArchiveLayout::deployments_folder(&self.prefix);
        let folders = self.list_keys(&folder, true).await?;
        let names = folders
            .iter()
            .filter_map(|name| name.strip_prefix(&folder)?.strip_prefix("deployment=")?.strip_suffix('/'));
        let is_requested = |name: &&str| self.deployment.as_ref().is_none_or(|deployment| deployment == name);
        Ok(names.filter(is_requested).map(layout).collect())
    }

    /// Lists the dead letters from a period, earliest first. Days outside the period cost no requests.
    ///
    /// # Errors
    /// If listing the bucket is denied (`s3:ListBucket`), or S3 does not respond within 20 s.
    pub async fn find_deaths(&self, period: Period) -> Result<ArchiveListing, ArchiveError> {
        let mut found = ArchiveListing::default();
        for layout in self.list_deployments().await? {
            self.find_in_deployment(&layout, period, &mut found).await?;
        }
        found.deaths.sort_by(|one, other| one.death.cmp(&other.death));
        Ok(found)
    }

    /// Adds a deployment's dead letters from the period.
    async fn find_in_deployment(
        &self,
        layout: &Arc<ArchiveLayout>,
        period: Period,
        found: &mut ArchiveListing,
    ) -> Result<(), ArchiveError> {
        let folder = layout.days_folder();
        let days = self.list_keys(&folder, true).await?;
        let days = days.iter().filter(|day| {
            let date = day.strip_prefix(&folder).and_then(|day| day.strip_prefix("date="));
            let date = date.and_then(|date| date.strip_suffix('/')).and_then(|date| date.parse().ok());
            date.is_some_and(|date| period.overlaps_day(date))
        });
        let listings = days.map(|day| self.list_keys(day, false));
        let keys: Vec<_> = stream::iter(listings).buffered(CONCURRENT_LISTINGS).try_concat().await?;
        for key in keys {
            match layout.parse_key(&key) {
                Some(death) if period.contains(death.at) => {
                    found.deaths.push(ArchivedDeath { layout: Arc::clone(layout), death });
                }
                // The S3 console creates an empty object for a folder.
                None if !key.ends_with('/') => found.unrelated_keys.push(key),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes each dead letter to `output` as one line, in order, and calls `progress` with the number of objects read
    /// so far. Returns the skipped objects: those that were deleted in the meantime, have not been restored from an
    /// archive storage class, or are not dead letters.
    ///
    /// # Errors
    /// If a request for an object keeps failing for 20 s or is denied, or the output cannot be written.
    pub async fn export_lines(
        &self,
        deaths: Vec<ArchivedDeath>,
        output: &mut impl Write,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<SkippedObject>, DeadLetterError> {
        let reads = deaths.into_iter().map(|death| async move {
            let key = death.object_key();
            let line = self.fetch_line(&key).await;
            (key, line)
        });
        let mut reads = stream::iter(reads).buffered(CONCURRENT_READS);
        let (mut skipped, mut done) = (Vec::new(), 0);
        while let Some((key, line)) = reads.next().await {
            match line? {
                Ok(line) => {
                    output.write_all(&line)?;
                    output.write_all(b"\n")?;
                }
                Err(why) => skipped.push(SkippedObject { key, why: why.to_string() }),
            }
            done += 1;
            progress(done);
        }
        output.flush()?;
        Ok(skipped)
    }

    /// Fetches an object's line.
    async fn fetch_line(&self, key: &str) -> Result<Result<Vec<u8>, BadObject>, ArchiveError> {
        match self.get_object(key).await {
            Ok(Some(object)) => Ok(extract_line(&object)),
            Ok(None) => Ok(Err(BadObject::Gone)),
            // The error for objects in Glacier and similar storage classes ("GetObject", Amazon S3 API Reference).
            Err(ArchiveError { error, .. }) if error.code == "InvalidObjectState" => {
                Ok(Err(BadObject::NotRestored))
            }
            Err(error) => Err(error),
        }
    }

    /// Lists all keys with a prefix, or all folders under it.
    async fn list_keys(&self, prefix: &str, by_folder: bool) -> Result<Vec<String>, ArchiveError> {
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let listing = Listing { prefix, by_folder, page: next.as_deref() };
            let page = self.send_request(prefix, "s3:ListBucket", || self.store.list_keys(listing)).await?;
            all.extend(if by_folder { page.folders } else { page.keys });
            next = page.next;
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads an object, or returns `None` if it does not exist.
    ///
    /// # Errors
    /// If the request keeps failing for 20 s, or is denied.
    pub async fn get_object(&self, key: &str) -> Result<Option<Vec<u8>>, ArchiveError> {
        self.send_request(key, "s3:GetObject", || self.store.read_object(key)).await
    }

    /// Writes an object and returns true. If the key already exists, writes nothing and returns false.
    ///
    /// # Errors
    /// If the request keeps failing for 20 s, or is denied. Without a response, the object may have been written
    /// anyway.
    pub async fn create_object(&self, key: &str, content: &[u8]) -> Result<bool, ArchiveError> {
        self.send_request(key, "s3:PutObject", || self.store.create_object(key, content.to_vec())).await
    }

    async fn send_request<R, F: Future<Output = Result<R, EntryError>>>(
        &self,
        key: &str,
        permission: &'static str,
        request: impl Fn() -> F,
    ) -> Result<R, ArchiveError> {
        let settled = settle_one(request, &self.clock, self.clock.now() + REQUEST_TIMEOUT).await;
        settled.map_err(|error| ArchiveError { key: key.to_owned(), error, permission })
    }
}

/// Returns the single line of an object, without its line break, if the line is a dead letter.
fn extract_line(content: &[u8]) -> Result<Vec<u8>, BadObject> {
    // The compressed size is limited as well: one megabyte can contain fifty thousand empty gzip members, each of which
    // needs a dictionary.
    if content.len() > LINE_BYTES_MAX {
        return Err(BadObject::TooLong);
    }
    let mut text = Vec::new();
    // Decodes all gzip members: the first one alone would look like a complete object.
    MultiGzDecoder::new(content)
        .take(LINE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|_: io::Error| BadObject::NotGzip)?;
    if text.len() > LINE_BYTES_MAX {
        return Err(BadObject::TooLong);
    }
    let line = text.trim_ascii();
    if line.contains(&b'\n') {
        return Err(BadObject::SeveralLines);
    }
    read_line(line, Timestamp::UNIX_EPOCH).map_err(BadObject::Line)?;
    Ok(line.to_vec())
}

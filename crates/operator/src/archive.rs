//! An archive of dead letters, `s3://BUCKET[/PREFIX]`, which is read like a file.

use std::path::Path;
use std::sync::Arc;

use chrono::{NaiveDate, TimeDelta};
use clap::Args;
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_aws::archive::{AccountId, S3Bucket, parse_s3_uri};
use redeliver_core::archive::{ArchiveLayout, Prefix};
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::FileQueue;
use redeliver_dead_letters::archive_bucket::{ArchiveBucket, ArchiveListing, Period, SkippedObject};

use crate::queues::{AwsConnection, account};
use crate::terminal::help::{CONNECT, SELECT};
use crate::terminal::stderr;
use crate::terminal::units::{format_count, group_digits};
use crate::{CommandFailure, UsageError};

/// Maximum number of bad objects named in warnings; the rest are only counted.
const NAMED_MAX: usize = 20;

/// The options that select the part of an archive to read.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PeriodArgs {
    /// With s3://: only deaths at or after this time, such as 2026-11-27 or 2d
    ///
    /// A day (UTC), a time such as 2026-11-27T08:30:00Z, or a time span before now, such as 2d.
    #[arg(long, help_heading = SELECT, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<TimeArg>,
    /// With s3://: only deaths before this time, in the formats of --since
    #[arg(long, help_heading = SELECT, value_name = "TIME", value_parser = parse_time)]
    pub until: Option<TimeArg>,
    #[command(flatten)]
    pub owner: BucketOwnerArgs,
}

/// The owner of an archive's bucket.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct BucketOwnerArgs {
    /// With s3://: the 12-digit id of the account that owns the bucket
    ///
    /// A bucket in another account is rejected. The default is the queue's account when writing, and your own when
    /// reading.
    #[arg(long, help_heading = CONNECT, value_name = "ACCOUNT")]
    pub bucket_owner: Option<AccountId>,
}

impl BucketOwnerArgs {
    /// Returns the named account, or else the caller's. `None` if STS does not respond.
    async fn resolve_account(self, connection: &AwsConnection) -> Option<AccountId> {
        match self.bucket_owner {
            Some(account) => Some(account),
            None => account::caller_account(connection).await,
        }
    }
}

/// A timestamp on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeArg {
    At(Timestamp),
    Ago(TimeDelta),
}

/// Parses a date, a timestamp, or a duration before now.
fn parse_time(text: &str) -> Result<TimeArg, String> {
    let day = text.parse::<NaiveDate>().ok().and_then(|day| day.and_hms_opt(0, 0, 0));
    let at = day.map(|midnight| midnight.and_utc()).or_else(|| parse_rfc3339(text));
    let span = || humantime::parse_duration(text).ok().and_then(|span| TimeDelta::from_std(span).ok());
    at.map(TimeArg::At).or_else(|| span().map(TimeArg::Ago)).ok_or_else(|| {
        "write a day such as 2026-11-27, a time such as 2026-11-27T08:30:00Z, or a span such as 2d".to_owned()
    })
}

impl PeriodArgs {
    /// Returns true if no option is given.
    pub const fn is_default(&self) -> bool {
        self.selects_all() && self.owner.bucket_owner.is_none()
    }

    const fn selects_all(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    fn resolve_period(&self, now: Timestamp) -> Result<Period, CommandFailure> {
        let at = |time| match time {
            TimeArg::At(at) => at,
            TimeArg::Ago(span) => now.checked_sub_signed(span).unwrap_or(Timestamp::UNIX_EPOCH),
        };
        let (since, until) = (self.since.map(at), self.until.map(at));
        match (since, until) {
            (Some(since), Some(until)) if since >= until => {
                Err(UsageError::new("--since is not before --until, so the period is empty").into())
            }
            _ => Ok(Period { since, until }),
        }
    }
}

/// The address of an archive, `s3://BUCKET[/PREFIX]`, or of a deployment's folder in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveUri {
    uri: String,
    bucket: String,
    prefix: Prefix,
    /// `s3://BUCKET/PREFIXdead-letters/deployment=NAME`
    deployment: Option<String>,
}

impl ArchiveUri {
    /// Parses an address. Returns `None` if the path is a file name.
    pub fn from_path(path: &Path) -> Option<Result<Self, CommandFailure>> {
        let uri = path.to_str().filter(|uri| uri.starts_with("s3://"))?;
        Some(
            Self::parse(uri)
                .map_err(|why| format!("{uri}: {why}; write s3://BUCKET or s3://BUCKET/PREFIX").into()),
        )
    }

    fn parse(uri: &str) -> Result<Self, String> {
        let (bucket, path) = parse_s3_uri(uri).ok_or("has no bucket")?;
        let path = path.trim_end_matches('/');
        let (prefix, deployment) = match path.rsplit_once("dead-letters/deployment=") {
            Some((prefix, name)) if (prefix.is_empty() || prefix.ends_with('/')) && !name.contains('/') => {
                (prefix, Some(name.to_owned()))
            }
            _ => (path, None),
        };
        let prefix = Prefix::new(prefix).map_err(|why| format!("the prefix {why}"))?;
        Ok(Self { uri: uri.to_owned(), bucket: bucket.to_owned(), prefix, deployment })
    }

    /// Returns the address as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.uri
    }

    /// Opens the archive in the connection's region. If `owner` is given, the bucket must belong to that account.
    pub async fn open(
        &self,
        connection: &AwsConnection,
        owner: Option<AccountId>,
    ) -> Result<ArchiveBucket<S3Bucket, SystemClock>, CommandFailure> {
        Ok(ArchiveBucket {
            store: S3Bucket::new(&connection.sdk_config(None).await?, &self.bucket, owner),
            clock: SystemClock,
            prefix: self.prefix.clone(),
            deployment: self.deployment.clone(),
        })
    }

    /// Opens the archive for reading. After a bucket is deleted, another account can create one with the same name and
    /// fill it with forged dead letters, which `audit --save` would pass on. The bucket must therefore belong to the
    /// caller, unless the options name another owner.
    async fn open_to_read(
        &self,
        connection: &AwsConnection,
        owner: BucketOwnerArgs,
    ) -> Result<ArchiveBucket<S3Bucket, SystemClock>, CommandFailure> {
        self.open(connection, owner.resolve_account(connection).await).await
    }

    /// Rejects an address at which there is no archive, for example because its prefix is misspelled.
    pub async fn check_exists(
        &self,
        connection: &AwsConnection,
        owner: BucketOwnerArgs,
    ) -> Result<(), CommandFailure> {
        let deployments = self.open_to_read(connection, owner).await?.list_deployments().await;
        if deployments.map_err(|error| self.archive_error(error))?.is_empty() {
            return Err(self.not_found_error());
        }
        Ok(())
    }

    /// Checks that the dead letters of this archive can be sent from a saved file: the bucket's owner is known, and all
    /// dead letters belong to one deployment, whose queue they are sent back to.
    pub async fn check_single_deployment(
        &self,
        connection: &AwsConnection,
        owner: BucketOwnerArgs,
    ) -> Result<(), CommandFailure> {
        let Some(account) = owner.resolve_account(connection).await else {
            return Err(format!(
                "{}: could not determine your account from STS, and --save needs the bucket's owner: name it with --bucket-owner \
                 (the account of the deployment, unless its variable ARCHIVE_BUCKET_OWNER names another)",
                self.uri
            )
            .into());
        };
        let deployments = self.open(connection, Some(account)).await?.list_deployments().await;
        let deployments = deployments.map_err(|error| self.archive_error(error))?;
        if deployments.len() < 2 {
            return Ok(());
        }
        let address = |layout: &Arc<ArchiveLayout>| {
            let folder = layout.days_folder();
            format!("s3://{}/{}", self.bucket, folder.trim_end_matches('/'))
        };
        let addresses: Vec<_> = deployments.iter().map(address).collect();
        Err(format!(
            "{}: the archive contains dead letters of several deployments; name one of {}",
            self.uri,
            addresses.join(", ")
        )
        .into())
    }

    /// Suggests an alternative to sending directly from an archive, which is not supported.
    pub fn send_hint(&self) -> String {
        let uri = &self.uri;
        format!(
            "{uri} is an archive, which can only be read: write its dead letters to a file with `redeliver audit {uri} \
             --save FILE`, then send them with `redeliver redrive FILE --to QUEUE --apply`"
        )
    }

    /// Reads the dead letters of a period into a temporary file. Skips objects that are not dead letters, and warns
    /// about each of the first 20.
    ///
    /// # Errors
    /// If S3 rejects a request, `--since` is not before `--until`, or there is no archive at the address.
    pub async fn read_period(
        &self,
        period: PeriodArgs,
        connection: &AwsConnection,
    ) -> Result<FileQueue, CommandFailure> {
        let archive = self.open_to_read(connection, period.owner).await?;
        let now = SystemClock.now();
        let found = archive.find_deaths(period.resolve_period(now)?).await;
        let ArchiveListing { deaths, unrelated_keys } = found.map_err(|error| self.archive_error(error))?;
        let is_empty = deaths.is_empty() && unrelated_keys.is_empty();
        if is_empty && archive.list_deployments().await.map_err(|error| self.archive_error(error))?.is_empty()
        {
            return Err(self.not_found_error());
        }
        let objects = format_count(deaths.len() as u64, "object");
        let hint = if period.selects_all() { "; --since and --until read only a part" } else { "" };
        stderr::remark(format_args!("reading {objects} of {}{hint}", self.uri));
        let bar = ProgressBar::new(deaths.len() as u64);
        let bar = stderr::show_progress(bar, "{bar:40} {human_pos}/{human_len} objects read, {elapsed}");
        let mut file = tempfile::tempfile()?;
        let mut output = std::io::BufWriter::new(&mut file);
        let read = archive.export_lines(deaths, &mut output, &|done| bar.set_position(done)).await;
        drop(output);
        bar.finish_and_clear();
        let bad = read.map_err(|error| self.archive_error(error))?;
        let unrelated = unrelated_keys
            .into_iter()
            .map(|key| SkippedObject { key, why: "its key does not match the archive layout".to_owned() });
        let left_out: Vec<_> = unrelated.chain(bad).collect();
        for SkippedObject { key, why } in left_out.iter().take(NAMED_MAX) {
            stderr::warning(format_args!("s3://{}/{key}: left out: {why}", self.bucket));
        }
        if left_out.len() > NAMED_MAX {
            let count = group_digits(left_out.len() as u64);
            stderr::warning(format_args!("{}: {count} objects are left out", self.uri));
        }
        let queue = FileQueue::open(file, &self.uri, &self.uri, now)?;
        Ok(queue.with_unreadable(left_out.into_iter().map(|SkippedObject { key, .. }| key)))
    }

    fn archive_error(&self, error: impl std::fmt::Display) -> CommandFailure {
        let error = error.to_string();
        let hint = if error.contains("AccessDenied") {
            "; if the bucket belongs to another account, name that account with --bucket-owner"
        } else {
            ""
        };
        format!("s3://{}/{error}{hint}", self.bucket).into()
    }

    fn not_found_error(&self) -> CommandFailure {
        let folder = ArchiveLayout::deployments_folder(&self.prefix);
        let (folder, suspect) = match &self.deployment {
            Some(deployment) => {
                (format!("{folder}deployment={deployment}/"), "name, which is the final DLQ's".to_owned())
            }
            None => (folder, "prefix, which is the part before dead-letters/".to_owned()),
        };
        format!("{}: no archive found: {folder} has no objects; check the {suspect}", self.uri).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_parts(text: &str) -> Result<(String, String, Option<String>), String> {
        let parsed = ArchiveUri::parse(text)?;
        Ok((parsed.bucket, parsed.prefix.as_str().to_owned(), parsed.deployment))
    }

    #[test]
    fn an_address_has_a_bucket_and_optional_prefix_and_deployment() {
        let parts = |bucket: &str, prefix: &str, deployment: Option<&str>| {
            Ok((bucket.to_owned(), prefix.to_owned(), deployment.map(str::to_owned)))
        };
        for same in ["s3://kept", "s3://kept/"] {
            assert_eq!(parse_parts(same), parts("kept", "", None));
        }
        for same in ["s3://kept/a/b", "s3://kept/a/b/"] {
            assert_eq!(parse_parts(same), parts("kept", "a/b/", None));
        }
        let orders = Some("orders-final-dlq");
        let folder = "dead-letters/deployment=orders-final-dlq";
        assert_eq!(parse_parts(&format!("s3://kept/a/{folder}/")), parts("kept", "a/", orders));
        assert_eq!(parse_parts(&format!("s3://kept/{folder}")), parts("kept", "", orders));
        assert_eq!(parse_parts("s3://"), Err("has no bucket".to_owned()));
        assert!(
            parse_parts("s3://kept/a b").unwrap_err().starts_with("the prefix has a character other than")
        );
        assert!(ArchiveUri::from_path(Path::new("dead.jsonl")).is_none());
    }

    #[test]
    fn a_time_is_a_day_a_timestamp_or_a_span() {
        let at = |text| Ok(TimeArg::At(parse_rfc3339(text).unwrap()));
        assert_eq!(parse_time("2026-11-27"), at("2026-11-27T00:00:00Z"));
        assert_eq!(parse_time("2026-11-27T08:30:00Z"), at("2026-11-27T08:30:00Z"));
        assert_eq!(parse_time("2d"), Ok(TimeArg::Ago(TimeDelta::days(2))));
        for wrong in ["", "yesterday", "2026-13-01", "27.11.2026"] {
            assert!(parse_time(wrong).unwrap_err().starts_with("write a day such as"), "{wrong}");
        }
        let backwards = PeriodArgs {
            since: parse_time("1d").ok(),
            until: parse_time("2d").ok(),
            ..PeriodArgs::default()
        };
        let error = backwards.resolve_period(Timestamp::UNIX_EPOCH + TimeDelta::days(9)).unwrap_err();
        assert_eq!(error.to_string(), "--since is not before --until, so the period is empty");
    }
}

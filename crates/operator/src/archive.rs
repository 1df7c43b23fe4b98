//! `s3://BUCKET[/PREFIX]`: an archive of dead letters that is read like a file.

use std::path::Path;
use std::sync::Arc;

use chrono::{NaiveDate, TimeDelta};
use clap::Args;
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_aws::archive::{AccountId, S3Bucket, bucket_of_uri};
use redeliver_core::archive::{Folder, Layout, Prefix};
use redeliver_core::message::Timestamp;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::ports::Clock as _;
use redeliver_dead_letters::FileQueue;
use redeliver_dead_letters::archive_bucket::{ArchiveBucket, Found, Period, ReadDeath, ReadDeaths};
use redeliver_dead_letters::archive_queue::{ArchiveQueue, Lease};
use uuid::Uuid;

use crate::Failure;
use crate::dead_letter_source::DeadLetters;
use crate::queues::Connection;
use crate::terminal::stderr;
use crate::terminal::units::{counted, grouped};

/// Bad objects that are named; the others are counted.
const NAMED_MAX: usize = 20;

/// The time for which the final DLQ keeps a dead letter: SQS's longest.
const FINAL_DLQ_KEEPS: TimeDelta = TimeDelta::days(14);

/// The period of an archive to read.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PeriodArgs {
    /// With s3://: only what died at this time or later: a day, such as 2026-11-27 (UTC), a time, such as
    /// 2026-11-27T08:30:00Z, or a span back from now, such as 2d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Moment>,
    /// With s3://: only what died before this time; written as --since
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Moment>,
    /// With s3://: also the dead letters that were sent back
    #[arg(long)]
    pub sent_back: bool,
    #[command(flatten)]
    pub owner: BucketOwnerArgs,
}

/// The owner of an archive's bucket.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct BucketOwnerArgs {
    /// With s3://: the account that owns the bucket, 12 digits; a bucket of another is refused [default: when writing, the
    /// queue's account; when reading, any]
    #[arg(long, value_name = "ACCOUNT")]
    pub bucket_owner: Option<AccountId>,
}

/// A time on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(Timestamp),
    Ago(TimeDelta),
}

/// Parses a day, a time, or a span back from now.
fn moment(text: &str) -> Result<Moment, String> {
    let day = text.parse::<NaiveDate>().ok().and_then(|day| day.and_hms_opt(0, 0, 0));
    let at = day.map(|midnight| midnight.and_utc()).or_else(|| parse_rfc3339(text));
    let span = || humantime::parse_duration(text).ok().and_then(|span| TimeDelta::from_std(span).ok());
    at.map(Moment::At).or_else(|| span().map(Moment::Ago)).ok_or_else(|| {
        "write a day such as 2026-11-27, a time such as 2026-11-27T08:30:00Z, or a span such as 2d".to_owned()
    })
}

impl PeriodArgs {
    /// True if no option is given.
    pub const fn is_default(&self) -> bool {
        self.is_everything() && !self.sent_back && self.owner.bucket_owner.is_none()
    }

    const fn is_everything(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    fn period(&self, now: Timestamp) -> Result<Period, Failure> {
        let at = |moment| match moment {
            Moment::At(at) => at,
            Moment::Ago(span) => now.checked_sub_signed(span).unwrap_or(Timestamp::UNIX_EPOCH),
        };
        let (since, until) = (self.since.map(at), self.until.map(at));
        match (since, until) {
            (Some(since), Some(until)) if since >= until => {
                Err("--since is not before --until: nothing is in between".into())
            }
            _ => Ok(Period { since, until }),
        }
    }
}

/// `s3://BUCKET[/PREFIX]`, or a deployment's folder in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveUri {
    uri: String,
    bucket: String,
    prefix: Prefix,
    /// `s3://BUCKET/PREFIXdead-letters/deployment=NAME`
    deployment: Option<String>,
}

impl ArchiveUri {
    /// `None` if it is the name of a file.
    pub fn of(path: &Path) -> Option<Result<Self, Failure>> {
        let uri = path.to_str().filter(|uri| uri.starts_with("s3://"))?;
        Some(
            Self::parse(uri)
                .map_err(|why| format!("{uri}: {why}; write s3://BUCKET or s3://BUCKET/PREFIX").into()),
        )
    }

    fn parse(uri: &str) -> Result<Self, String> {
        let (bucket, path) = bucket_of_uri(uri).ok_or("has no bucket")?;
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

    /// The address, as it was written.
    pub fn as_str(&self) -> &str {
        &self.uri
    }

    /// The archive, in the region of the connection, and in a bucket of this account if one is named.
    pub async fn open(
        &self,
        connection: &Connection,
        owner: Option<AccountId>,
    ) -> Result<ArchiveBucket<S3Bucket, SystemClock>, Failure> {
        Ok(ArchiveBucket {
            store: S3Bucket::new(&connection.sdk_config(None).await?, &self.bucket, owner),
            clock: SystemClock,
            prefix: self.prefix.clone(),
            deployment: self.deployment.clone(),
        })
    }

    /// Refuses an address without an archive, such as a misspelt prefix.
    pub async fn check(&self, connection: &Connection, owner: BucketOwnerArgs) -> Result<(), Failure> {
        let deployments = self.open(connection, owner.bucket_owner).await?.deployments().await;
        match deployments.map_err(|error| self.failed(error))?.is_empty() {
            true => Err(self.without_archive()),
            false => Ok(()),
        }
    }

    /// Reads the dead letters of a period into a file without a name.
    pub async fn read(&self, period: PeriodArgs, connection: &Connection) -> Result<FileQueue, Failure> {
        let archive = self.open(connection, period.owner.bucket_owner).await?;
        Ok(self.read_from(&archive, period, &self.uri).await?.0)
    }

    /// Reads the dead letters that are to be sent back, perhaps of one group. With `applied` it takes the lease: no other
    /// run may send from this archive until it is released.
    pub async fn read_to_send(
        &self,
        period: PeriodArgs,
        group: Option<&str>,
        connection: &Connection,
        applied: bool,
    ) -> Result<DeadLetters, Failure> {
        if period.sent_back {
            return Err("--sent-back cannot send: to send a message once more, delete its mark below sent-back/, and \
                        name a new journal"
                .into());
        }
        let archive = self.open(connection, period.owner.bucket_owner).await?;
        let layout = self.one_deployment(&archive).await?;
        let archive = ArchiveBucket { deployment: Some(layout.deployment.clone()), ..archive };
        // However the address was written: the journal is named after it.
        let arn = format!("s3://{}/{}", self.bucket, layout.days(Folder::DeadLetters));
        if !applied {
            let (lines, read) = self.read_from(&archive, period, &arn).await?;
            self.warn_of_letters_still_queued(&read, group);
            return Ok(DeadLetters::File(lines));
        }
        let run = Uuid::new_v4().to_string();
        let lease = Lease::acquire(archive.clone(), &layout, run).await;
        let lease = lease.map_err(|error| self.failed(error))?;
        match lease.during(self.read_from(&archive, period, &arn)).await {
            Ok((lines, read)) => {
                self.warn_of_letters_still_queued(&read, group);
                Ok(DeadLetters::Archive(Box::new(ArchiveQueue::new(lines, read, lease))))
            }
            Err(error) => {
                lease.release(None).await;
                Err(error)
            }
        }
    }

    /// Warns of dead letters that the final DLQ still has.
    fn warn_of_letters_still_queued(&self, read: &[ReadDeath], group: Option<&str>) {
        let since = SystemClock.now() - FINAL_DLQ_KEEPS;
        let deaths = read.iter().map(|read| &read.death.death);
        let of_group = deaths.filter(|death| group.is_none_or(|group| death.fingerprint == group));
        let count = of_group.filter(|death| since <= death.at).count() as u64;
        if count > 0 {
            stderr::warning(format_args!(
                "{}: {} of the last 14 days: unless it was purged or redriven, each is in the final DLQ, too, and would \
                 exist twice. Redrive those from there, and the others from here with --until {}",
                self.uri,
                counted(count, "dead letter"),
                since.format("%Y-%m-%d")
            ));
        }
    }

    /// The archive's only deployment; an error names them if there are several.
    async fn one_deployment(
        &self,
        archive: &ArchiveBucket<S3Bucket, SystemClock>,
    ) -> Result<Arc<Layout>, Failure> {
        let deployments = archive.deployments().await.map_err(|error| self.failed(error))?;
        match &deployments[..] {
            [one] => Ok(Arc::clone(one)),
            [] => Err(self.without_archive()),
            several => {
                let address = |layout: &Arc<Layout>| {
                    let folder = layout.days(Folder::DeadLetters);
                    format!("s3://{}/{}", self.bucket, folder.trim_end_matches('/'))
                };
                let addresses: Vec<_> = several.iter().map(address).collect();
                Err(format!(
                    "{}: it has the dead letters of several deployments; name one of {}",
                    self.uri,
                    addresses.join(", ")
                )
                .into())
            }
        }
    }

    async fn read_from(
        &self,
        archive: &ArchiveBucket<S3Bucket, SystemClock>,
        period: PeriodArgs,
        arn: &str,
    ) -> Result<(FileQueue, Vec<ReadDeath>), Failure> {
        let now = SystemClock.now();
        let bounds = period.period(now)?;
        let Found { mut deaths, sent_back, not_ours } =
            archive.find(bounds).await.map_err(|error| self.failed(error))?;
        let is_empty = deaths.is_empty() && sent_back.is_empty() && not_ours.is_empty();
        if is_empty && archive.deployments().await.map_err(|error| self.failed(error))?.is_empty() {
            return Err(self.without_archive());
        }
        if period.sent_back {
            deaths.extend(sent_back);
            deaths.sort_by(|one, other| one.death.cmp(&other.death));
        } else if !sent_back.is_empty() {
            let left_out = counted(sent_back.len() as u64, "dead letter");
            stderr::remark(format_args!("{}: {left_out} left out: sent back before (--sent-back)", self.uri));
        }
        let objects = counted(deaths.len() as u64, "object");
        let hint = if period.is_everything() { "; --since and --until read only a part" } else { "" };
        stderr::remark(format_args!("reading {objects} of {}{hint}", self.uri));
        let bar = ProgressBar::new(deaths.len() as u64);
        let bar = stderr::progress(bar, "{bar:40} {human_pos}/{human_len} objects read, {elapsed}");
        let mut file = tempfile::tempfile()?;
        let mut output = std::io::BufWriter::new(&mut file);
        let read = archive.read(deaths, &mut output, &|done| bar.set_position(done)).await;
        drop(output);
        bar.finish_and_clear();
        let ReadDeaths { bad, deaths } = read.map_err(|error| self.failed(error))?;
        let not_ours = not_ours.into_iter().map(|key| (key, "its key is not one of an archive".to_owned()));
        let bad: Vec<_> = not_ours.chain(bad).collect();
        for (key, why) in bad.iter().take(NAMED_MAX) {
            stderr::warning(format_args!("s3://{}/{key}: left out: {why}", self.bucket));
        }
        if bad.len() > NAMED_MAX {
            stderr::warning(format_args!("{}: {} objects are left out", self.uri, grouped(bad.len() as u64)));
        }
        let queue = FileQueue::open(file, &self.uri, arn, now)?;
        Ok((queue.with_unreadable(bad.into_iter().map(|(key, _)| key)), deaths))
    }

    fn failed(&self, error: impl std::fmt::Display) -> Failure {
        format!("s3://{}/{error}", self.bucket).into()
    }

    fn without_archive(&self) -> Failure {
        let folder: &str = Folder::DeadLetters.into();
        let place = Layout::deployments(&self.prefix);
        let (place, what) = match &self.deployment {
            Some(deployment) => {
                (format!("{place}deployment={deployment}/"), "deployment's name: the final DLQ's".to_owned())
            }
            None => (place, format!("prefix, which is the part before {folder}/")),
        };
        format!("{}: there is no archive: no object is in {place}; check the {what}", self.uri).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Result<(String, String, Option<String>), String> {
        let parsed = ArchiveUri::parse(text)?;
        Ok((parsed.bucket, parsed.prefix.as_str().to_owned(), parsed.deployment))
    }

    #[test]
    fn an_address_has_a_bucket_perhaps_a_prefix_and_perhaps_a_deployment() {
        let of = |bucket: &str, prefix: &str, deployment: Option<&str>| {
            Ok((bucket.to_owned(), prefix.to_owned(), deployment.map(str::to_owned)))
        };
        for same in ["s3://kept", "s3://kept/"] {
            assert_eq!(uri(same), of("kept", "", None));
        }
        for same in ["s3://kept/a/b", "s3://kept/a/b/"] {
            assert_eq!(uri(same), of("kept", "a/b/", None));
        }
        let orders = Some("orders-final-dlq");
        let folder = "dead-letters/deployment=orders-final-dlq";
        assert_eq!(uri(&format!("s3://kept/a/{folder}/")), of("kept", "a/", orders));
        assert_eq!(uri(&format!("s3://kept/{folder}")), of("kept", "", orders));
        assert_eq!(uri("s3://"), Err("has no bucket".to_owned()));
        assert!(uri("s3://kept/a b").unwrap_err().starts_with("the prefix has a character other than"));
        assert!(ArchiveUri::of(Path::new("dead.jsonl")).is_none());
    }

    #[test]
    fn a_time_is_a_day_a_moment_or_a_span() {
        let at = |text| Ok(Moment::At(parse_rfc3339(text).unwrap()));
        assert_eq!(moment("2026-11-27"), at("2026-11-27T00:00:00Z"));
        assert_eq!(moment("2026-11-27T08:30:00Z"), at("2026-11-27T08:30:00Z"));
        assert_eq!(moment("2d"), Ok(Moment::Ago(TimeDelta::days(2))));
        for wrong in ["", "yesterday", "2026-13-01", "27.11.2026"] {
            assert!(moment(wrong).unwrap_err().starts_with("write a day such as"), "{wrong}");
        }
        let backwards = PeriodArgs {
            since: moment("1d").ok(),
            until: moment("2d").ok(),
            sent_back: false,
            ..PeriodArgs::default()
        };
        let error = backwards.period(Timestamp::UNIX_EPOCH + TimeDelta::days(9)).unwrap_err();
        assert_eq!(error.to_string(), "--since is not before --until: nothing is in between");
    }
}

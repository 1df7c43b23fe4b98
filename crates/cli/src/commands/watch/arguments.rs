//! The arguments of `redeliver watch`.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use redeliver_aws::archive::NotifyArn;
use redeliver_core::archive::Omit;
use redeliver_operator::archive::ArchiveUri;
use redeliver_operator::queues::{Connection, QueueAddress};
use redeliver_operator::terminal::units::{DAY, MINUTE, seconds};

/// Watch DLQs: write each new dead letter to an archive in S3, and send one notice for each new cause.
///
/// For any DLQ, also of SNS, EventBridge, Lambda or your own queue. It deletes nothing and sends nothing. SQS cannot show a
/// message without receiving it, so it asks for the counts, and reads the queue only at its start, when they have changed,
/// and once a day. Each reading adds one to each message's receive count; a message that was received three times or more
/// no longer counts in CloudWatch's ApproximateAgeOfOldestMessage.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redeliver watch --queue orders-dlq --archive s3://my-archive/dlqs \\
    --notify arn:aws:sns:eu-central-1:123456789012:dead-letters
  redeliver watch --queue orders-dlq --queue mails-dlq \\
    --archive s3://my-archive/dlqs --omit /data/email,/data/address
  redeliver watch --queue orders-dlq --archive s3://my-archive/dlqs --once

The queue's name is its name in the archive. Read it with `redeliver audit s3://BUCKET/PREFIX`. Without --archive each \
process tells each cause itself, at most once an hour.

A failed turn is reported on standard error, and the next one makes up for it; only --once ends with it.

Exit codes:
  0    with --once: all was read, archived and told; without: ended by a signal
  1    with --once: something could not be read, archived or told
  2    bad usage, or a queue or an archive that cannot be used
  130  with --once: interrupted; or a second signal came")]
pub struct Arguments {
    /// A DLQ: its URL, name or ARN; may be given several times
    #[arg(long = "queue", value_name = "QUEUE", required = true)]
    pub(super) queues: Vec<QueueAddress>,
    /// Write each new dead letter there: s3://BUCKET or s3://BUCKET/PREFIX
    #[arg(long, value_name = "S3_URI", required_unless_present = "notify", value_parser = archive_uri)]
    pub(super) archive: Option<ArchiveUri>,
    /// Send notices there: the ARN of an SNS topic or of an event bus
    #[arg(long, value_name = "ARN")]
    pub(super) notify: Option<NotifyArn>,
    /// JSON Pointers into the body, separated by commas: these values are not archived
    #[arg(long, value_name = "POINTERS", requires = "archive", value_parser = Omit::parse)]
    pub(super) omit: Option<Omit>,
    /// The time between two requests for the counts, from 1m to 1d
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = seconds(MINUTE..=DAY), conflicts_with = "once")]
    pub(super) every: Duration,
    /// Read each queue once and end, for a scheduled task. Needs --archive, which remembers what was told
    #[arg(long, requires = "archive")]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) connection: Connection,
}

fn archive_uri(text: &str) -> Result<ArchiveUri, String> {
    let uri = ArchiveUri::of(Path::new(text)).transpose().map_err(|error| error.to_string())?;
    uri.ok_or_else(|| "write s3://BUCKET or s3://BUCKET/PREFIX".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:dead-letters";

    fn refused(arguments: &[&str]) -> Option<String> {
        let all = ["program", "--queue", "orders-dlq"].iter().chain(arguments);
        Program::try_parse_from(all).err().map(|error| error.to_string())
    }

    #[test]
    fn an_archive_or_notices_are_needed_and_an_archive_for_a_single_turn() {
        for fine in [
            &["--archive", "s3://kept/dlqs", "--once"][..],
            &["--archive", "s3://kept", "--omit", "/data/email,/data/name"],
            &["--notify", TOPIC, "--every", "1m"],
        ] {
            assert_eq!(refused(fine), None);
        }
        for (wrong, why) in [
            (&[][..], "--archive <S3_URI>"),
            (&["--notify", TOPIC, "--once"], "--archive <S3_URI>"),
            (&["--archive", "kept"], "write s3://BUCKET or s3://BUCKET/PREFIX"),
            (&["--archive", "s3://"], "s3://: has no bucket"),
            (&["--notify", "orders"], "is not the ARN of an SNS topic"),
            (&["--archive", "s3://kept", "--omit", "email"], "entry 1 is not a JSON Pointer to a member"),
            (&["--notify", TOPIC, "--omit", "/a"], "--archive <S3_URI>"),
            (&["--archive", "s3://kept", "--every", "10s"], "whole seconds from 1m to 1d"),
        ] {
            let error = refused(wrong).unwrap_or_default();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
    }
}

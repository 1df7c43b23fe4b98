//! `redeliver watch`: the archive and the notices for any DLQ, also one that redeliver does not fill.

mod arguments;

use std::collections::BTreeSet;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::{join_all, select};
use redeliver_aws::archive::{AwsNotifier, S3Bucket};
use redeliver_aws::sqs::SqsQueue;
use redeliver_aws::{Stop, SystemClock};
use redeliver_core::archive::{Archive, Layout, Omit, deployment_of};
use redeliver_core::notices::{About, Notices};
use redeliver_core::ports::{Clock as _, Queue as _};
use redeliver_dead_letters::archive_bucket::ArchiveBucket;
use redeliver_dead_letters::watch::{Turn, Watch};
use redeliver_operator::Failure;
use redeliver_operator::queues::{KnownQueue, account};
use redeliver_operator::sentences::{incompleteness, still_hidden};
use redeliver_operator::terminal::signals::interrupted;
use redeliver_operator::terminal::stderr;
use redeliver_operator::terminal::units::counted;
use uuid::Uuid;

pub use arguments::Arguments;

type Watched = Watch<SqsQueue, S3Bucket, AwsNotifier, SystemClock>;

/// Watches the queues until a signal comes, or once.
pub async fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let stop = interrupted("stopping: giving the messages back; a second signal does not wait")?;
    let watches = open(arguments).await?;
    let every = (!arguments.once).then_some(arguments.every);
    let is_well = join_all(watches.into_iter().map(|watch| run(watch, every, &stop))).await;
    Ok(match (arguments.once, stop.is_requested()) {
        (true, true) => ExitCode::from(130),
        (true, false) if is_well.contains(&false) => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

async fn open(arguments: &Arguments) -> Result<Vec<Watched>, Failure> {
    let connection = &arguments.connection;
    let archive = match &arguments.archive {
        None => None,
        Some(uri) => {
            let bucket = uri.reach(connection).await?;
            if bucket.deployment.is_some() {
                let why = "names one queue's folder: write s3://BUCKET or s3://BUCKET/PREFIX";
                return Err(format!("{}: {why}", uri.as_str()).into());
            }
            Some((uri.as_str(), bucket))
        }
    };
    let notifier = match &arguments.notify {
        None => None,
        Some(to) => Some(AwsNotifier::new(&connection.sdk_config(None).await?, to.clone())),
    };
    let mut names = BTreeSet::new();
    let mut watches = Vec::new();
    for address in &arguments.queues {
        let KnownQueue { queue, attributes } = connection.find(address).await?;
        if attributes.contains_key("RedrivePolicy") {
            return Err(format!(
                "{} has a redrive policy: each read counts as a receive, and after enough receives SQS moves the \
                 messages on; watch the queue that it moves them to",
                queue.url()
            )
            .into());
        }
        let name = deployment_of(queue.url());
        if !names.insert(name.clone()) {
            return Err(format!(
                "two queues have the name {name}, and an archive and its notices know a queue by its name: watch each \
                 by a command of its own, with an archive prefix of its own"
            )
            .into());
        }
        account::announce(connection, queue.arn(), format_args!("watching {}", queue.arn())).await;
        watches.push(watch(queue, name, archive.as_ref(), notifier.clone(), arguments.omit.as_ref()));
    }
    Ok(watches)
}

fn watch(
    queue: SqsQueue,
    deployment: String,
    archive: Option<&(&str, ArchiveBucket<S3Bucket, SystemClock>)>,
    notifier: Option<AwsNotifier>,
    omit: Option<&Omit>,
) -> Watched {
    let source = archive.map_or_else(|| format!("--queue {deployment}"), |(uri, _)| (*uri).to_owned());
    let archive = archive.map(|(_, bucket)| Archive {
        store: bucket.store.clone(),
        layout: Layout { prefix: bucket.prefix.clone(), deployment: deployment.clone() },
        omit: omit.cloned().unwrap_or_default(),
    });
    let notices = notifier.map(|notifier| Notices::new(notifier, About { deployment, source }));
    Watch::new(queue, SystemClock, archive, notices, Uuid::new_v4().to_string())
}

/// Turns until the stop, or one turn without `every`. Returns true if the last one was done without a problem.
async fn run(mut watch: Watched, every: Option<Duration>, stop: &Stop) -> bool {
    loop {
        let turn = watch.turn(stop.requested()).await;
        let is_well = print(&deployment_of(watch.queue().url()), &turn);
        let Some(every) = every else { return is_well };
        select(pin!(SystemClock.sleep(every)), pin!(stop.requested())).await;
        if stop.is_requested() {
            return is_well;
        }
    }
}

/// Says what a turn did. Returns true if there was no problem.
fn print(name: &str, turn: &Turn) -> bool {
    let Turn { coverage, told, refused, failure, .. } = turn;
    match coverage {
        None if told.is_empty() => stderr::detail(format_args!("{name}: not read")),
        _ => stderr::remark(format_args!("{name}: {}", in_words(turn))),
    }
    if let Some(failure) = failure {
        stderr::error(format_args!("{name}: {failure}"));
    }
    for (fingerprint, code) in refused {
        stderr::error(format_args!("{name}: a notice about {fingerprint} was not sent ({code})"));
    }
    let hidden = coverage.and_then(|coverage| still_hidden(coverage.still_hidden));
    let is_cut_off = failure.is_some() || turn.is_interrupted;
    let incomplete = coverage.filter(|coverage| !coverage.complete && !is_cut_off);
    let incomplete = incomplete.map(|coverage| incompleteness(&coverage));
    for sentence in hidden.iter().chain(&incomplete) {
        stderr::warning(format_args!("{name}: {sentence}"));
    }
    failure.is_none() && refused.is_empty() && incomplete.is_none()
}

/// `12 messages read, 3 new; notices: appeared 21d708b3fca00092`
fn in_words(turn: &Turn) -> String {
    let read = match turn.coverage {
        None => "not read".to_owned(),
        Some(coverage) => format!("{} read, {} new", counted(coverage.seen, "message"), turn.new),
    };
    let told: Vec<_> = turn.told.iter().map(|(kind, cause)| format!("{kind} {cause}")).collect();
    if told.is_empty() { read } else { format!("{read}; notices: {}", told.join(", ")) }
}

#[cfg(test)]
mod tests {
    use redeliver_dead_letters::Coverage;

    use super::*;

    fn read(seen: u64, approximate: u64, new: u64) -> Turn {
        let complete = seen == approximate;
        let coverage = Some(Coverage { seen, approximate, complete, ..Coverage::default() });
        Turn { coverage, new, ..Turn::default() }
    }

    #[test]
    fn a_turn_is_said_in_one_line() {
        assert_eq!(in_words(&read(12, 12, 3)), "12 messages read, 3 new");
        let told = vec![("appeared", "21d7".to_owned()), ("quiet", "0bf1".to_owned())];
        let turn = Turn { told: told.clone(), ..read(1, 1, 1) };
        assert_eq!(in_words(&turn), "1 message read, 1 new; notices: appeared 21d7, quiet 0bf1");
        assert_eq!(
            in_words(&Turn { told, ..Turn::default() }),
            "not read; notices: appeared 21d7, quiet 0bf1"
        );
    }

    #[test]
    fn a_message_that_was_not_seen_and_a_refused_notice_are_problems() {
        assert!(print("dlq", &read(2, 2, 0)));
        assert!(print("dlq", &Turn::default()));
        assert!(!print("dlq", &read(1, 2, 0)));
        let refused = vec![("21d7".to_owned(), "AccessDenied".to_owned())];
        assert!(!print("dlq", &Turn { refused, ..read(1, 1, 1) }));
        assert!(!print("dlq", &Turn { failure: Some("x".into()), ..Turn::default() }));
    }
}

//! The findings about a queue, each with advice.

use redeliver_core::message::Timestamp;

use crate::fleet::facts::{FunctionReader, QueueAttributes, QueueId};
use crate::fleet::report::{Dlq, DlqState, FindingCode, QueueFinding, join_names};
use crate::queues::event_sources::report_failures_command;
use crate::status::readers::Readers;
use crate::terminal::units::{approximate_span, format_count, format_span};

/// The maximum SQS retention ("Amazon SQS message quotas").
const RETENTION_MAX: u64 = 14 * 24 * 60 * 60;

/// Returns the findings about a DLQ. `sources` are the queues whose redrive policies name it.
pub(super) fn find_faults(
    dlq: &Dlq,
    sources: &[(&QueueId, &QueueAttributes)],
    now: Timestamp,
) -> Vec<QueueFinding> {
    let found = [
        (FindingCode::Missing, missing_queue(dlq)),
        (FindingCode::PointsToItself, self_reference(dlq, sources)),
        (FindingCode::KindMismatch, kind_mismatch(dlq, sources)),
        (FindingCode::ShortRetention, short_retention(dlq, sources)),
        (FindingCode::NoAlarm, missing_alarm(dlq)),
        (FindingCode::DeletedSoon, imminent_deletion(dlq, now)),
        (FindingCode::AgeUncertain, uncertain_age(dlq)),
        (FindingCode::Orphan, orphan_queue(dlq)),
    ];
    found
        .into_iter()
        .filter_map(|(code, sentence)| Some(QueueFinding { code, sentence: sentence? }))
        .collect()
}

/// Returns a finding if a queue that is not a DLQ itself has no DLQ.
pub(super) fn missing_dlq(read: &QueueAttributes) -> Option<QueueFinding> {
    let retention = read.counts.retention_seconds.map(|seconds| format!(" after {}", format_span(seconds)));
    read.redrives_to.is_none().then(|| QueueFinding {
        code: FindingCode::NoDlq,
        sentence: format!(
            "it has no dead-letter queue: a message that always fails is retried until SQS deletes it{}; add a redrive \
             policy",
            retention.unwrap_or_default()
        ),
    })
}

/// Returns the findings about a queue and the functions that read it, each with its timeout, if known.
pub(super) fn find_reader_faults(
    read: &QueueAttributes,
    readers: &[(&FunctionReader, Option<u64>)],
) -> Vec<QueueFinding> {
    let visibility = short_visibility(read, readers);
    let visibility = visibility.map(|sentence| QueueFinding { code: FindingCode::ShortVisibility, sentence });
    let unreported = readers.iter().filter(|(reader, _)| !reader.reports_failures).map(|(reader, _)| QueueFinding {
        code: FindingCode::UnreportedFailures,
        sentence: format!(
            "{} reads it without ReportBatchItemFailures: one failed message brings back its whole batch, and a \
             message that only the function's response reports as failed is deleted; run {}",
            reader.function,
            report_failures_command(&reader.mapping_uuid, &reader.queue.region)
        ),
    });
    visibility.into_iter().chain(unreported).collect()
}

/// Returns a finding if the visibility timeout is below six times the function's timeout, plus the batching window. A
/// batch must remain hidden for that long, since Lambda may retry it while the function is throttled
/// (<https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html>).
fn short_visibility(read: &QueueAttributes, readers: &[(&FunctionReader, Option<u64>)]) -> Option<String> {
    let visibility = read.visibility_seconds?;
    let needed = readers.iter().filter_map(|(reader, timeout)| {
        let needed = (*timeout)?.saturating_mul(6).saturating_add(reader.batching_window_seconds);
        Some((needed, (*timeout)?, reader.function.as_str()))
    });
    let (needed, timeout, function) = needed.max().filter(|(needed, ..)| visibility < *needed)?;
    let [visibility, needed, timeout] = [visibility, needed, timeout].map(format_span);
    Some(format!(
        "its visibility timeout is {visibility}, and the timeout of {function} is {timeout}: SQS may deliver a message \
         again while Lambda works on it or is throttled; set it to {needed}: six times the timeout of the function, \
         plus the batching window"
    ))
}

fn missing_queue(dlq: &Dlq) -> Option<String> {
    let feeders: Vec<_> = dlq.fed_by.iter().map(|feeder| feeder.name.as_str()).collect();
    let feeders = join_names(&feeders);
    (dlq.state == DlqState::Missing).then(|| {
        format!(
            "the queue does not exist, so dead letters of {feeders} are lost; create it, or point {feeders} at another \
             DLQ"
        )
    })
}

fn self_reference(dlq: &Dlq, sources: &[(&QueueId, &QueueAttributes)]) -> Option<String> {
    sources.iter().any(|(source, _)| source.name == dlq.name).then(|| {
        "its redrive policy names itself: a message that fails never leaves it; name another queue".to_owned()
    })
}

fn kind_mismatch(dlq: &Dlq, sources: &[(&QueueId, &QueueAttributes)]) -> Option<String> {
    let others = sources.iter().filter(|(source, _)| source.is_fifo() != is_fifo(dlq));
    let names: Vec<_> = others.map(|(source, _)| source.name.as_str()).collect();
    let (own, other) = if is_fifo(dlq) { ("a FIFO", "standard") } else { ("a standard", "FIFO") };
    (!names.is_empty()).then(|| {
        let names = join_names(&names);
        format!(
            "it is {own} queue and cannot hold messages of the {other} queue {names}; use a queue of that kind"
        )
    })
}

/// Returns a finding if the DLQ's retention is not longer than its sources' retention. When SQS moves a message from a
/// standard queue, its retention still counts from the first send; from a FIFO queue, it restarts
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html>).
/// A DLQ that already has the SQS maximum is not reported.
fn short_retention(dlq: &Dlq, sources: &[(&QueueId, &QueueAttributes)]) -> Option<String> {
    let own = dlq.counts.retention_seconds.filter(|own| *own < RETENTION_MAX && !is_fifo(dlq))?;
    let others = sources.iter().filter(|(source, _)| source.name != dlq.name);
    let kept =
        others.filter_map(|(source, read)| Some((read.counts.retention_seconds?, source.name.as_str())));
    let (longest, name) = kept.max().filter(|(longest, _)| own <= *longest)?;
    let [own, longest, most] = [own, longest, RETENTION_MAX].map(format_span);
    Some(format!(
        "its retention is {own}, and that of {name} is {longest}, counted from the first send: a message that waited \
         there is deleted soon after it arrives; set the retention to {most}"
    ))
}

/// Returns a finding if messages are waiting in a queue that has no alarm and that no function or container reads.
fn missing_alarm(dlq: &Dlq) -> Option<String> {
    let waiting = dlq.counts.total_messages();
    let has_none = dlq.alarms.as_ref().is_some_and(Vec::is_empty);
    let is_read = !dlq.read_by.is_empty() || dlq.readers.as_ref().is_some_and(Readers::is_steady);
    (waiting > 0 && !is_read && has_none).then(|| {
        let verb = if waiting == 1 { "waits" } else { "wait" };
        format!("{} {verb} in it, and no CloudWatch alarm watches it", format_count(waiting, "message"))
    })
}

fn imminent_deletion(dlq: &Dlq, now: Timestamp) -> Option<String> {
    let deleted_by = dlq.first_deleted_by.filter(|_| dlq.counts.has_messages())?;
    let when = match (deleted_by - now).num_seconds() {
        ..=0 => "at any moment".to_owned(),
        seconds => format!("in {} at the latest", approximate_span(seconds)),
    };
    dlq.counts.retention()?.ends_soon(deleted_by, now).then(|| {
        format!("SQS deletes the oldest message {when}: send it back, or keep it (`redeliver audit --save`)")
    })
}

/// Returns a remark if something, such as an audit, receives the messages.
fn uncertain_age(dlq: &Dlq) -> Option<String> {
    let Some(Readers::SomethingElse { messages_received: 1.., .. }) = dlq.readers else { return None };
    dlq.counts.has_messages().then(|| {
        "something receives its messages, and CloudWatch's age leaves out those that were received three times or \
         more: the oldest may be older than this. `redeliver audit` shows when SQS deletes each one"
            .to_owned()
    })
}

fn orphan_queue(dlq: &Dlq) -> Option<String> {
    (dlq.fed_by.is_empty() && dlq.state == DlqState::There).then(|| {
        "no queue, function or subscriber found here points to it: it may be an orphan, or something else sends to it \
         (EventBridge, SNS, Scheduler, a function's destination, your own code)"
            .to_owned()
    })
}

fn is_fifo(dlq: &Dlq) -> bool {
    redeliver_core::ports::is_fifo(&dlq.name)
}

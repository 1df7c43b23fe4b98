//! What may be wrong with a dead-letter queue: few things, each with what to do about it.

use chrono::TimeDelta;
use redeliver_core::message::Timestamp;
use serde::Serialize;

use crate::fleet::facts::{Attributes, QueueId};
use crate::fleet::report::{Dlq, DlqState};
use crate::people::{about, counted, span};

/// The longest that SQS keeps a message ("Amazon SQS message quotas").
const RETENTION_MAX: u64 = 14 * 24 * 60 * 60;
const A_DAY: TimeDelta = TimeDelta::days(1);
/// Names in a sentence.
const NAMES_MAX: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: Code,
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    Missing,
    PointsToItself,
    KindMismatch,
    ShortRetention,
    NoAlarm,
    DeletedSoon,
    /// A remark: who else may send to a queue is not looked at.
    Orphan,
}

/// `sources` are the queues whose redrive policies name it.
pub(super) fn findings(dlq: &Dlq, sources: &[(&QueueId, &Attributes)], now: Timestamp) -> Vec<Finding> {
    let found = [
        missing(dlq),
        points_to_itself(dlq, sources),
        kind_mismatch(dlq, sources),
        short_retention(dlq, sources),
        no_alarm(dlq),
        deleted_soon(dlq, now),
        orphan(dlq),
    ];
    found.into_iter().flatten().collect()
}

fn missing(dlq: &Dlq) -> Option<Finding> {
    let feeders: Vec<_> = dlq.fed_by.iter().map(|feeder| feeder.name.as_str()).collect();
    let sentence = || {
        format!(
            "there is no such queue: dead letters of {} go nowhere; create it, or name another DLQ there",
            some_of(&feeders)
        )
    };
    (dlq.state == DlqState::Missing).then(|| Finding { code: Code::Missing, sentence: sentence() })
}

fn points_to_itself(dlq: &Dlq, sources: &[(&QueueId, &Attributes)]) -> Option<Finding> {
    let sentence =
        "its redrive policy names itself: a message that fails never leaves it; name another queue";
    let is_own = sources.iter().any(|(source, _)| source.name == dlq.name);
    is_own.then(|| Finding { code: Code::PointsToItself, sentence: sentence.to_owned() })
}

fn kind_mismatch(dlq: &Dlq, sources: &[(&QueueId, &Attributes)]) -> Option<Finding> {
    let others: Vec<_> = sources.iter().filter(|(source, _)| source.is_fifo() != is_fifo(dlq)).collect();
    let names: Vec<_> = others.iter().map(|(source, _)| source.name.as_str()).collect();
    let (own, other) = if is_fifo(dlq) { ("a FIFO", "standard") } else { ("a standard", "FIFO") };
    let sentence = || {
        format!(
            "it is {own} queue and cannot take what comes of the {other} queue {}; use one of that kind",
            some_of(&names)
        )
    };
    (!names.is_empty()).then(|| Finding { code: Code::KindMismatch, sentence: sentence() })
}

/// SQS keeps the moment of sending when it moves a message of a standard queue, and sets a new one in a FIFO queue
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/setting-up-dead-letter-queue-retention.html>).
/// As long as its source, and longer not possible, is as good as it gets.
fn short_retention(dlq: &Dlq, sources: &[(&QueueId, &Attributes)]) -> Option<Finding> {
    let own = dlq.retention_seconds.filter(|own| *own < RETENTION_MAX && !is_fifo(dlq))?;
    let kept = sources.iter().filter(|(source, _)| source.name != dlq.name);
    let kept =
        kept.filter_map(|(source, attributes)| Some((attributes.retention_seconds?, source.name.as_str())));
    let (longest, name) = kept.max()?;
    let sentence = || {
        format!(
            "it keeps messages for {}, and {name} for {}, which counts from the first sending: what has waited there is deleted \
             soon after it came; set it to {}",
            span(own),
            span(longest),
            span(RETENTION_MAX),
        )
    };
    (own <= longest).then(|| Finding { code: Code::ShortRetention, sentence: sentence() })
}

/// What a function reads is not left lying.
fn no_alarm(dlq: &Dlq) -> Option<Finding> {
    let waiting = dlq.messages();
    let sentence = || {
        let verb = if waiting == 1 { "waits" } else { "wait" };
        format!("{} {verb} in it, and no CloudWatch alarm watches it", counted(waiting, "message"))
    };
    let has_none = dlq.alarms.as_ref().is_some_and(Vec::is_empty);
    let is_alone = waiting > 0 && dlq.read_by.is_empty() && has_none;
    is_alone.then(|| Finding { code: Code::NoAlarm, sentence: sentence() })
}

fn deleted_soon(dlq: &Dlq, now: Timestamp) -> Option<Finding> {
    let left = dlq.first_deleted_by.filter(|_| dlq.messages() > 0)? - now;
    let when = match left.num_seconds() {
        ..=0 => "at any moment".to_owned(),
        seconds => format!("in {} at the latest", about(seconds)),
    };
    let sentence = || {
        format!(
            "SQS deletes the oldest message {when}: send it back, or keep it (`redeliver audit --archive`)"
        )
    };
    (left < A_DAY).then(|| Finding { code: Code::DeletedSoon, sentence: sentence() })
}

fn orphan(dlq: &Dlq) -> Option<Finding> {
    let sentence = "nothing found points to it: perhaps an orphan, or something sends to it that is not looked at (EventBridge, \
                    SNS, Scheduler, a function's destination, your own code)";
    let is_alone = dlq.fed_by.is_empty() && dlq.state == DlqState::There;
    is_alone.then(|| Finding { code: Code::Orphan, sentence: sentence.to_owned() })
}

fn is_fifo(dlq: &Dlq) -> bool {
    dlq.name.ends_with(".fifo")
}

/// `a, b, c and 2 more`
pub(in crate::fleet) fn some_of(names: &[&str]) -> String {
    match names.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        None => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

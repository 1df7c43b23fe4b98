//! The report on all dead-letter queues.

use redeliver_core::message::Timestamp;
use serde::Serialize;

use crate::ExitCode;
use crate::queues::QueueCounts;
use crate::status::readers::Readers;
use crate::terminal::units::format_count;

/// Problems that the table and the page show; JSON has all of them.
const PROBLEMS_MAX: usize = 10;
/// Names in a sentence.
const NAMES_MAX: usize = 3;

/// The dead-letter queues of all regions and profiles that were read, with findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fleet {
    /// The start of the reads, in whole seconds.
    pub at: Timestamp,
    /// The regions that were read.
    pub regions: Vec<RegionSummary>,
    /// By account and region; those with a finding first, then those with the most messages.
    pub dlqs: Vec<Dlq>,
    /// The other queues that have findings, by account and region.
    pub queues: Vec<CheckedQueue>,
    /// Errors about what could not be read.
    pub problems: Vec<String>,
}

/// A queue that is not a DLQ, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedQueue {
    pub name: String,
    pub account: String,
    pub region: String,
    pub findings: Vec<QueueFinding>,
}

/// A region, seen with a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionSummary {
    /// `None` if it has no queue, so that nothing names it.
    pub account: Option<String>,
    pub region: String,
    pub profile: Option<String>,
    pub queues: u64,
}

/// A dead-letter queue, or a queue that looks like one. Unknown values are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dlq {
    pub name: String,
    pub account: String,
    pub region: String,
    pub state: DlqState,
    pub fed_by: Vec<Feeder>,
    /// Functions that read it.
    pub read_by: Vec<String>,
    /// Other readers that were seen; `None` if a function reads it, if it is empty, or if CloudWatch was not asked.
    pub readers: Option<Readers>,
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// The age of the oldest message.
    pub oldest_seconds: Option<i64>,
    /// When SQS deletes the oldest message, at the latest: it may have waited in its source before.
    pub first_deleted_by: Option<Timestamp>,
    pub alarms: Option<Vec<DlqAlarm>>,
    pub findings: Vec<QueueFinding>,
    /// The error if it could not be read.
    pub error: Option<String>,
}

/// The existence of a DLQ, as far as its account and region could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DlqState {
    There,
    /// A redrive policy, function or subscriber names it, but its account and region do not list it.
    Missing,
    /// Listed, but SQS refused its attributes.
    Unreadable,
    /// In an account or a region that was not read.
    NotLookedAt,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Feeder {
    pub kind: FeederKind,
    pub name: String,
}

/// The fact that makes a queue a DLQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeederKind {
    /// By a queue's redrive policy.
    Queue,
    /// By a function's own DLQ, for asynchronous invocations.
    Function,
    /// By an event source mapping's destination for failures, of a stream.
    EventSourceMapping,
    /// By the queue for failures of a subscriber of a custom event bus.
    Subscriber,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DlqAlarm {
    pub name: String,
    /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
    pub state: String,
}

/// A fault of a queue or a remark on it, with advice in its sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueFinding {
    pub code: FindingCode,
    pub sentence: String,
}

/// The kind of a finding. All but the remarks change the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCode {
    /// The DLQ does not exist.
    Missing,
    PointsToItself,
    /// A FIFO queue and a standard queue: SQS moves no message between them.
    KindMismatch,
    /// The retention is not longer than that of a source queue, and below the SQS limit of 14 days.
    ShortRetention,
    /// A queue that functions read has no redrive policy.
    NoDlq,
    /// The visibility timeout is below six function timeouts plus the batching window.
    ShortVisibility,
    /// A mapping without `ReportBatchItemFailures`.
    UnreportedFailures,
    /// Messages wait, without a reader and without a CloudWatch alarm.
    NoAlarm,
    /// The oldest message is in the last fifth of its retention.
    DeletedSoon,
    /// A remark: the oldest message may be older than CloudWatch reports.
    AgeUncertain,
    /// A remark: other senders to a queue are not known.
    Orphan,
}

impl Fleet {
    /// `Incomplete` if something could not be read, else `Found` if a finding is more than a remark, else `Done`.
    pub fn exit_code(&self) -> ExitCode {
        match (self.problems.is_empty(), self.is_well()) {
            (false, _) => ExitCode::Incomplete,
            (true, true) => ExitCode::Done,
            (true, false) => ExitCode::Found,
        }
    }

    /// The first problems, and how many more there are.
    pub fn shortened_problems(&self) -> Vec<String> {
        let more = self.problems.len().saturating_sub(PROBLEMS_MAX) as u64;
        let more =
            (more > 0).then(|| format!("and {} more: see --format json", format_count(more, "problem")));
        self.problems.iter().take(PROBLEMS_MAX).cloned().chain(more).collect()
    }

    /// True if no queue has a finding that is more than a remark.
    pub fn is_well(&self) -> bool {
        self.dlqs.iter().all(Dlq::is_well) && self.queues.is_empty()
    }

    /// Each account and region once, in the order of the DLQs.
    pub fn account_regions(&self) -> Vec<(Option<&str>, &str)> {
        let mut places: Vec<_> =
            self.regions.iter().map(|one| (one.account.as_deref(), one.region.as_str())).collect();
        places.extend(self.dlqs.iter().map(|dlq| (Some(dlq.account.as_str()), dlq.region.as_str())));
        places.sort_unstable();
        places.dedup();
        places
    }

    pub fn dlqs_in(&self, account: Option<&str>, region: &str) -> impl Iterator<Item = &Dlq> {
        self.dlqs.iter().filter(move |dlq| Some(dlq.account.as_str()) == account && dlq.region == region)
    }

    pub fn queues_in(&self, account: Option<&str>, region: &str) -> impl Iterator<Item = &CheckedQueue> {
        self.queues
            .iter()
            .filter(move |queue| Some(queue.account.as_str()) == account && queue.region == region)
    }

    /// The reads of this account and region: one for each profile.
    pub fn regions_in(&self, account: Option<&str>, region: &str) -> impl Iterator<Item = &RegionSummary> {
        self.regions.iter().filter(move |one| one.account.as_deref() == account && one.region == region)
    }
}

impl Dlq {
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|finding| finding.code.is_remark())
    }
}

impl FindingCode {
    /// True if nothing is known to be wrong.
    pub const fn is_remark(self) -> bool {
        matches!(self, Self::Orphan | Self::AgeUncertain)
    }
}

/// `a, b, c and 2 more`
pub(super) fn join_names(names: &[&str]) -> String {
    match names.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        None => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

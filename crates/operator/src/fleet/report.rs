//! The report on all dead-letter queues.

use redeliver_core::message::Timestamp;
use serde::Serialize;

use crate::ExitCode;
use crate::queues::QueueCounts;
use crate::status::readers::Readers;
use crate::terminal::units::format_count;

/// Maximum number of problems in the table and on the page; JSON contains all of them.
const PROBLEMS_MAX: usize = 10;
/// Maximum number of names in a sentence.
const NAMES_MAX: usize = 3;

/// The dead-letter queues of all regions and profiles that were read, with findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fleet {
    /// The time at which reading started, truncated to seconds.
    pub at: Timestamp,
    /// The regions that were read.
    pub regions: Vec<RegionSummary>,
    /// Sorted by account and region. Within a region, DLQs with a finding other than a remark come first. Ties are
    /// sorted by number of messages, largest first.
    pub dlqs: Vec<Dlq>,
    /// Other queues with findings, by account and region.
    pub queues: Vec<CheckedQueue>,
    /// Errors about data that could not be read.
    pub problems: Vec<String>,
}

/// A queue that is not a DLQ, with its findings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedQueue {
    pub name: String,
    pub account: String,
    pub region: String,
    pub findings: Vec<QueueFinding>,
}

/// A region read with a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionSummary {
    /// `None` if the region has no queue or function from which to derive it.
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
    /// Functions that read the queue.
    pub read_by: Vec<String>,
    /// Other readers observed; `None` if a function reads the queue, if it is empty, or if CloudWatch was not queried.
    pub readers: Option<Readers>,
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// The age of the oldest message.
    pub oldest_seconds: Option<i64>,
    /// The latest time at which SQS deletes the oldest message. It may be deleted earlier if it first waited in a
    /// source queue.
    pub first_deleted_by: Option<Timestamp>,
    pub alarms: Option<Vec<DlqAlarm>>,
    pub findings: Vec<QueueFinding>,
    /// The error, if the queue could not be read.
    pub error: Option<String>,
}

/// The state of a DLQ, as far as its account and region could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DlqState {
    There,
    /// Named by a redrive policy, function or subscriber, but not listed in its account and region.
    Missing,
    /// Listed, but SQS denied access to its attributes.
    Unreadable,
    /// In an account or region that was not read.
    NotLookedAt,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Feeder {
    pub kind: FeederKind,
    pub name: String,
}

/// The reason a queue counts as a DLQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeederKind {
    /// Named in a queue's redrive policy.
    Queue,
    /// A function's own DLQ, for asynchronous invocations.
    Function,
    /// The on-failure destination of a stream's event source mapping.
    EventSourceMapping,
    /// The queue for failures of a custom event bus subscriber.
    Subscriber,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DlqAlarm {
    pub name: String,
    /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
    pub state: String,
}

/// A fault found in a queue, or a remark about it. The sentence includes advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueFinding {
    pub code: FindingCode,
    pub sentence: String,
}

/// The kind of a finding. All except remarks affect the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCode {
    /// The DLQ does not exist.
    Missing,
    PointsToItself,
    /// One queue is FIFO and the other standard: SQS does not move messages between them.
    KindMismatch,
    /// The retention is not longer than a source queue's, and below the SQS limit of 14 days.
    ShortRetention,
    /// A queue that is not a DLQ has no redrive policy.
    NoDlq,
    /// The visibility timeout is below six times the function's timeout plus the batching window.
    ShortVisibility,
    /// A mapping without `ReportBatchItemFailures`.
    UnreportedFailures,
    /// Messages are waiting in a queue with no reader and no CloudWatch alarm.
    NoAlarm,
    /// The oldest message is in the last fifth of its retention.
    DeletedSoon,
    /// A remark: the oldest message may be older than CloudWatch reports.
    AgeUncertain,
    /// A remark: no sender to this queue is known.
    Orphan,
}

impl Fleet {
    /// Returns `Incomplete` if something could not be read, otherwise `ProblemsFound` if there is a finding other than
    /// a remark, otherwise `Done`.
    pub fn exit_code(&self) -> ExitCode {
        match (self.problems.is_empty(), self.is_healthy()) {
            (false, _) => ExitCode::Incomplete,
            (true, true) => ExitCode::Done,
            (true, false) => ExitCode::ProblemsFound,
        }
    }

    /// Returns the first problems, and a line with the number of further problems, if any.
    pub fn shortened_problems(&self) -> Vec<String> {
        let more = self.problems.len().saturating_sub(PROBLEMS_MAX) as u64;
        let more =
            (more > 0).then(|| format!("and {}: see --format json", format_count(more, "more problem")));
        self.problems.iter().take(PROBLEMS_MAX).cloned().chain(more).collect()
    }

    /// Returns true if no queue has a finding other than a remark.
    pub fn is_healthy(&self) -> bool {
        self.dlqs.iter().all(Dlq::is_healthy) && self.queues.is_empty()
    }

    /// Returns each account and region once, in the order of the DLQs.
    pub fn account_regions(&self) -> Vec<(Option<&str>, &str)> {
        let mut places: Vec<_> =
            self.regions.iter().map(|read| (read.account.as_deref(), read.region.as_str())).collect();
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

    /// Returns the summaries of this account and region, one per profile.
    pub fn regions_in(&self, account: Option<&str>, region: &str) -> impl Iterator<Item = &RegionSummary> {
        self.regions.iter().filter(move |read| read.account.as_deref() == account && read.region == region)
    }
}

impl Dlq {
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.code.is_remark())
    }
}

impl FindingCode {
    /// Returns true if the finding does not indicate a fault.
    pub const fn is_remark(self) -> bool {
        matches!(self, Self::Orphan | Self::AgeUncertain)
    }
}

/// Joins names: `a, b, c and 2 more`.
pub(super) fn join_names(names: &[&str]) -> String {
    match names.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
        None => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
    }
}

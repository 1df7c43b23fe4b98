//! Audits dead letters: each one passes from the queue through the filter to the tally, the `--save` file and the view.
//! The size of the resulting report is bounded. Commands start with an [`AuditRequest`].

mod age;
mod attempts;
mod auditor;
mod comparison;
mod copies;
#[cfg(test)]
pub(crate) mod examples;
mod known_causes;
mod over_time;
mod report;
mod request;
mod save;
mod view;

pub use age::{AGE_CLASSES, AgeDistribution};
pub use attempts::{AttemptCounts, SkippedAttempts};
pub use auditor::{AuditProgress, AuditResult, Auditor};
pub use comparison::{CauseComparison, CauseFinding, CauseTally, ComparedLetter, Share, compare_cause};
pub use copies::Duplicates;
pub use known_causes::KnownCausesFile;
pub use over_time::{ArrivalHistogram, TimeSpan};
pub use report::{AuditContext, AuditReport, AuditTally};
pub use request::{AuditRequest, OpenAudit};
pub use save::SaveFile;
pub use view::{JsonLinesView, JsonView, View};

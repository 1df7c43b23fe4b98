//! An audit of dead letters: each one goes from the queue through the filter to the tally, the file of `--save` and the
//! view. The report at the end is a value of bounded size. The command opens an [`AuditRequest`].

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

pub use age::{AGE_CLASSES, Age};
pub use attempts::{Attempts, SkippedAttempts};
pub use auditor::{Audited, Auditor, Progress};
pub use comparison::{CauseComparison, CauseTally, ComparedLetter, Finding, Share, compare_cause};
pub use copies::Duplicates;
pub use known_causes::KnownCausesFile;
pub use over_time::{OverTime, Span};
pub use report::{AuditReport, Context, Tally};
pub use request::{AuditRequest, OpenAudit};
pub use save::Save;
pub use view::{Json, JsonLines, View};

//! Redriving: dead letters are sent from the DLQ back to the source queue, and none is lost on the way.
//!
//! A [`RedriveJob`] reads each dead letter and its [`RedrivePlan`] decides on it. The [`RedriveJournal`] records each
//! step on disk, the [`RedriveReport`] counts the results, and the [`RedriveEnding`] is the exit code.

mod apply;
mod ending;
mod journal;
mod plan;
mod report;
mod run;
mod task;

pub use ending::RedriveEnding;
pub use journal::{JournalCounts, JournalEntry, JournalError, RedriveJournal, plan_id};
pub use plan::{BodyEdit, RedriveDecision, RedrivePlan, SendBack, Sources, StayReason};
pub use report::{DiedAgain, EarlyEnd, EditExample, PilotResult, RedriveReport};
pub use task::{RedriveJob, RedriveLimits, RedriveProgress};

//! Redrives dead letters: sends them from the DLQ back to the source queue without losing any.
//!
//! A [`RedriveJob`] reads the dead letters, and its [`RedrivePlan`] decides what to do with each one. The
//! [`RedriveJournal`] records each step on disk, the [`RedriveReport`] counts the results, and the [`RedriveOutcome`]
//! determines the exit code.

mod apply;
mod journal;
mod outcome;
mod plan;
mod report;
mod run;
mod task;

pub use journal::{JournalCounts, JournalEntry, JournalError, RedriveJournal, plan_id};
pub use outcome::RedriveOutcome;
pub use plan::{BodyEdit, PlannedSend, RedriveDecision, RedrivePlan, Sources, StayReason};
pub use report::{EarlyEnd, EditExample, PilotResult, RedriveReport, RepeatFailure};
pub use task::{RedriveJob, RedriveLimits, RedriveProgress};

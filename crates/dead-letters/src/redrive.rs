//! Redriving: dead letters are sent from the DLQ back to the source queue, and none is lost on the way.
//!
//! A [`Redrive`] reads each dead letter and its [`Plan`] decides on it. The [`Journal`] records each step on disk, the
//! [`RedriveReport`] counts the results, and the [`Ending`] is the exit code.

mod apply;
mod ending;
mod journal;
mod plan;
mod report;
mod run;
mod task;

pub use ending::Ending;
pub use journal::{Entry, Journal, JournalCounts, JournalError, plan_id};
pub use plan::{Edit, Plan, Reason, SendBack, Sources, Verdict};
pub use report::{DiedAgain, Early, EditExample, RedriveReport, Watched};
pub use task::{Limits, Progress, Redrive};

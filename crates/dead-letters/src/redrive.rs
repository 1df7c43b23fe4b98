//! From the DLQ back to the source queue, without losing anything on the way.
//!
//! A [`Redrive`] looks at each dead letter and its [`Plan`] decides; what it did is in the [`Journal`], what came of it
//! is counted in the [`RedriveReport`], and how it ended is an [`Ending`].

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

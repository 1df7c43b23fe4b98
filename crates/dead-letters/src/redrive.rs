//! From the DLQ back to the source queue, without losing anything on the way.

mod apply;
mod ending;
mod journal;
mod plan;
mod report;

pub use apply::{Limits, Progress, Redrive, RedriveError, Watched};
pub use ending::Ending;
pub use journal::{Entry, Journal, JournalError, plan_id};
pub use plan::{Edit, Plan, Reason, SendBack, Verdict};
pub use report::Report;

//! Every dead-letter queue of an account, with findings.
//!
//! Three steps: `gather` asks AWS, `judge` says what the answers mean, without effects, and [`table`] and [`html`]
//! print that.

mod facts;
mod gather;
pub mod html;
mod judge;
mod report;
pub mod table;

use chrono::SubsecRound as _;
use indicatif::ProgressBar;
use redeliver_aws::SystemClock;
use redeliver_core::ports::Clock as _;

pub use report::{Code, Dlq, DlqState, Finding, Fleet, Region};

use crate::queues::Connection;

/// Every dead-letter queue that these connections lead to.
pub async fn look(connections: &[Connection], progress: &ProgressBar) -> Fleet {
    gather::look(connections, SystemClock.now().trunc_subsecs(0), progress).await
}

/// The same for a page, which shows no progress.
pub async fn look_silently(connection: &Connection) -> Fleet {
    look(std::slice::from_ref(connection), &ProgressBar::hidden()).await
}

#[cfg(test)]
mod tests;

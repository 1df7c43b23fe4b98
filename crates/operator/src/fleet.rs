//! Every dead-letter queue of an account, with findings.
//!
//! Three steps: `gather` reads from AWS, `judge` turns the answers into findings, without effects, and [`table`] and
//! [`html`] print them.

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

/// Reads the regions and profiles of these connections, four at a time, and judges the dead-letter queues found there.
/// What AWS refuses is one of the report's problems, not an error.
pub async fn look(connections: &[Connection], progress: &ProgressBar) -> Fleet {
    gather::look(connections, SystemClock.now().trunc_subsecs(0), progress).await
}

/// Reads and judges one region as above, without a progress bar: for the page of the console.
pub async fn look_silently(connection: &Connection) -> Fleet {
    look(std::slice::from_ref(connection), &ProgressBar::hidden()).await
}

#[cfg(test)]
mod tests;

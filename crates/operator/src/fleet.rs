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

pub use report::{Dlq, DlqState, FindingCode, Fleet, QueueFinding, RegionSummary};

use crate::queues::AwsConnection;

/// Reads the regions and profiles of these connections, four at a time, and judges the dead-letter queues found there.
/// What AWS refuses is one of the report's problems, not an error.
pub async fn survey_fleet(connections: &[AwsConnection], progress: &ProgressBar) -> Fleet {
    gather::survey_connections(connections, SystemClock.now().trunc_subsecs(0), progress).await
}

/// Reads and judges one region as above, without a progress bar: for the page of the console.
pub async fn survey_silently(connection: &AwsConnection) -> Fleet {
    survey_fleet(std::slice::from_ref(connection), &ProgressBar::hidden()).await
}

#[cfg(test)]
mod tests;

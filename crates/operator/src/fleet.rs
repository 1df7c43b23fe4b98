//! Checks every dead-letter queue in an account.
//!
//! `gather` reads from AWS, `judge` derives findings from the responses without side effects, and [`table`] and
//! [`html`] render them.

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

/// Surveys the region and profile of each connection, four at a time, and checks the dead-letter queues found there.
/// Requests that AWS rejects are listed as problems in the report, not returned as errors.
pub async fn survey_fleet(connections: &[AwsConnection], progress: &ProgressBar) -> Fleet {
    gather::survey_connections(connections, SystemClock.now().trunc_subsecs(0), progress).await
}

/// Surveys one region without a progress bar, for the console's page.
pub async fn survey_silently(connection: &AwsConnection) -> Fleet {
    survey_fleet(std::slice::from_ref(connection), &ProgressBar::hidden()).await
}

#[cfg(test)]
mod tests;

//! The options of a process.

use std::net::SocketAddr;
use std::time::Duration;

use redeliver_aws::targets::RuntimeCommand;
use redeliver_operator::queues::AwsConnection;

use crate::functions::WorkerFunctions;
use crate::poller::PollerLimits;

/// The functions that a process runs, and its limits. The functions' settings are environment variables.
#[derive(Debug)]
pub struct WorkerOptions {
    pub functions: WorkerFunctions,
    /// The command that starts the user's own function, which the message-processor calls instead of `TARGET`.
    pub exec: Option<RuntimeCommand>,
    /// The limits of each poller.
    pub limits: PollerLimits,
    /// The address of `/healthz`, `/readyz` and `/metrics`.
    pub health: Option<SocketAddr>,
    /// The longest time from the first signal to the exit. Batches that are still in progress by then are aborted, and
    /// their messages are received again.
    pub shutdown: Duration,
    pub connection: AwsConnection,
}

//! `redeliver local`: the whole retry loop on a file of messages, with the functions' own code.
//!
//! The input is read in [`Chunks`], so that memory does not grow with it. [`run_locally`] runs the loop in virtual
//! time on an SQS in memory, or in real time on queues of its own at an SQS-compatible endpoint, and returns a
//! [`RunReport`].

mod at_endpoint;
mod in_memory;
mod input;
mod producer;
mod report;
mod run;
mod target;

use std::io::Write;

use indicatif::ProgressBar;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::strategy::RetryLoop;
use redeliver_operator::CommandFailure;

pub use input::{ChunkSize, Chunks, InputGroups};
pub use report::RunReport;
pub use target::LocalTarget;

/// The setup of a run, read and checked before it starts.
pub struct LocalSetup {
    pub chunks: Chunks,
    /// Seeds the message ids and receipt handles of the SQS in memory, and request ids.
    pub seed: u64,
    pub retry_loop: RetryLoop,
    pub policy: Policy,
    pub schema: MessageSchema,
    pub target: LocalTarget,
}

/// Starts the target and runs the loop, at this endpoint or else in memory. The final records go to `output`.
///
/// # Errors
/// The target does not start, the input cannot be read, the output cannot be written, the endpoint refuses a request,
/// or a signal came before all messages were sent.
pub async fn run_locally(
    setup: LocalSetup,
    endpoint_url: Option<&str>,
    bar: &ProgressBar,
    output: &mut dyn Write,
) -> Result<RunReport, CommandFailure> {
    setup.target.start_function().await?;
    match endpoint_url {
        None => in_memory::run_in_memory(setup, bar, output).await,
        Some(url) => at_endpoint::run_at_endpoint(setup, url, bar, output).await,
    }
}

//! `redeliver local`: runs the whole retry loop, with the code of the deployed functions, on a file of messages.
//!
//! The input is read in [`Chunks`], so that memory use does not grow with it. [`run_locally`] runs the loop in virtual
//! time on an in-memory SQS, or in real time on temporary queues at an SQS-compatible endpoint, and returns a
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
    /// Seeds the message ids and receipt handles of the in-memory SQS, and the request ids.
    pub seed: u64,
    pub retry_loop: RetryLoop,
    pub policy: Policy,
    pub schema: MessageSchema,
    pub target: LocalTarget,
}

/// Starts the target and runs the loop, at this endpoint if set, otherwise in memory. Final records are written to
/// `output`.
///
/// # Errors
/// If the target does not start, the input cannot be read, the output cannot be written, the endpoint rejects a
/// request, or a signal arrives before all messages are sent.
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

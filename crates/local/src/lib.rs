//! `redeliver local`: the whole retry loop on a file of messages, with the functions' own code.
//!
//! The input is read in [`Chunks`], so that memory does not grow with it. [`run_in_memory`] runs the loop in virtual
//! time on an SQS in memory, [`run_at_endpoint`] in real time on queues of its own at an SQS-compatible endpoint. Both
//! return a [`RunReport`].

mod at_endpoint;
mod in_memory;
mod input;
mod producer;
mod report;
mod run;
mod target;

use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::strategy::RetryLoop;

pub use at_endpoint::run_at_endpoint;
pub use in_memory::run_in_memory;
pub use input::{ChunkSize, Chunks, Groups};
pub use report::RunReport;
pub use target::Target;

/// The setup of a run. Everything is read and checked.
pub struct Setup {
    pub chunks: Chunks,
    pub seed: u64,
    pub retry_loop: RetryLoop,
    pub policy: Policy,
    pub schema: MessageSchema,
    pub target: Target,
}

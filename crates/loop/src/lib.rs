//! The whole retry loop in one process: what `redeliver local`, `simulate` and `work` run on.
//!
//! A [`Topology`] is the queues of the deployed stack. The functions are put together on it as the stack does, and an
//! [`Engine`] feeds the source queue and [`polling`] does what event source mappings do, until the [`Ledger`] says that
//! each message that went in has come out; or a [`work::Worker`] polls one queue until it is told to stop.

mod engine;
mod error;
mod failing;
mod functions;
mod lambda;
mod ledger;
pub mod polling;
mod stop;
mod tally;
mod topology;
pub mod virtual_time;
pub mod work;

pub use engine::{Engine, Functions};
pub use error::LoopError;
pub use failing::{Chances, Failing};
pub use functions::{
    MAX_CONCURRENCY, async_retry_handler, failed_message_processor, final_dlq_annotator, message_processor,
};
pub use lambda::{LocalLambda, check_payload, payload_of};
pub use ledger::Ledger;
pub use stop::Stop;
pub use tally::{Counts, Tally};
pub use topology::Topology;

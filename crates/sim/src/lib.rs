//! The model: the whole retry loop in one process, what a policy does in it, and what AWS charges for it.
//!
//! - A [`Topology`] is the queues of the deployed stack. [`functions`] puts the functions together on it as the stack
//!   does, and an [`Engine`] sends the messages and polls for the functions, until the
//!   [`Tracker`] has seen each message come out.
//! - The [`planner`] computes what can be computed from a policy alone, and measures the rest: it runs the functions in
//!   virtual time against a target that is down or fails.
//! - [`cost`] has AWS's list prices, and turns usage into dollars.

pub mod cost;
pub mod functions;
pub mod planner;
pub mod virtual_time;

mod batching;
mod built_in_target;
mod engine;
mod error;
mod event_counter;
mod lambda;
mod number;
mod topology;
mod tracker;

pub use batching::Batching;
pub use built_in_target::{BuiltInTarget, FailureChances};
pub use engine::{Engine, LoopFunctions, Pollers};
pub use error::LoopError;
pub use event_counter::{EventCounter, EventCounts};
pub use lambda::{LocalLambda, check_payload, extract_payload};
pub use topology::Topology;
pub use tracker::Tracker;

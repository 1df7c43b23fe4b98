//! A model of the retry loop: runs the complete loop in one process, predicts the effect of a policy on it, and
//! computes the AWS charges.
//!
//! - A [`Topology`] contains the queues of the deployed stack. [`functions`] wires the functions to them as in the
//!   stack, and an [`Engine`] sends the messages and polls the queues for the functions until the [`Tracker`] reports
//!   every message as settled.
//! - The [`planner`] computes the figures that follow from a policy alone and measures the rest: it runs the functions
//!   in virtual time against a target that is down or fails.
//! - [`cost`] contains AWS's list prices and converts usage into dollars.

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

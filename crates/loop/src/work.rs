//! The loop in a process that goes on until it is told to stop: each function on the queue that it polls.

mod guarded;
mod health;
mod stop;
mod worker;

pub use health::{FunctionReport, Health, Report, Vitals};
pub use stop::Stop;
pub use worker::{Limits, Worker};

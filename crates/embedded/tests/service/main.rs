//! Tests of the embedded service, in one program: separate programs would take longer to build than to run.
#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod faults;
mod fifo;
mod model;
mod semantics;
mod support;
mod under_tokio;

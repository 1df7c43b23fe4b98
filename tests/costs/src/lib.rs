//! The core's cost per message: the program `costs` is for counting instructions, the benchmark `core` for timing.

mod aws;
pub mod hostile;
pub mod published;
pub mod workload;

// The decoders refer to each other by these paths.
use aws::{lambda, received};

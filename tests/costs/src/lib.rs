//! The cost of messages in the core: the program `costs` is for counting instructions, and the benchmark `core`
//! measures time.

mod aws;
pub mod hostile;
pub mod published;
pub mod workload;

// The decoders refer to each other by these paths.
use aws::{lambda, received};

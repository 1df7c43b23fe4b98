//! The cost of messages in the core: the program `costs` is for counting instructions, the benchmark `core` measures
//! time.

mod aws;
pub mod hostile;
pub mod published;
pub mod workload;

// The decoders name each other as in their own crate.
use aws::{lambda, received};

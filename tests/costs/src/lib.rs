//! The cost of messages in the core: the program `costs` is for counting instructions, the benchmark `core` measures
//! time.

pub mod hostile;
pub mod published;
pub mod workload;

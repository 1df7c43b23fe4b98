//! What messages cost in the core, for whoever measures it: the program `costs` counts instructions, the benchmark `core`
//! measures time.

pub mod hostile;
pub mod workload;

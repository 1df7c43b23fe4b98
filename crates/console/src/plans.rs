//! Plans: a fixed set of dead letters, what is to be done with it, and the run that does it.

pub(crate) mod decide;
mod outcome;
pub(crate) mod plan;
mod run;
pub(crate) mod runner;

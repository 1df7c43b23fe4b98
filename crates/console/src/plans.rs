//! Plans: a fixed set of dead letters, an action on it, and its runs.

pub(crate) mod decide;
mod outcome;
pub(crate) mod plan;
mod run;
pub(crate) mod runner;

//! Plans: a fixed set of dead letters, an action on it, and its runs.

pub(crate) mod command;
pub(crate) mod decide;
pub(crate) mod outcome;
pub(crate) mod plan;
mod run;
pub(crate) mod runner;

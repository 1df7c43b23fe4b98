//! Plans: each is a fixed set of dead letters and the action to take on them, and can have several runs.

pub(crate) mod command;
pub(crate) mod decide;
pub(crate) mod outcome;
pub(crate) mod plan;
mod run;
pub(crate) mod runner;

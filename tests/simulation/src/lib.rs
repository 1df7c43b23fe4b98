//! Deterministic simulation: the real code of the functions and of `redeliver redrive`, on the embedded SQS in virtual
//! time, under a plan of faults that comes from a seed, watched by a ledger that has its own reading of everything.
//!
//! A run has two phases. First everything may fail: requests, answers, entries of batches, processes at any await, clocks,
//! the target, the operator. Then all is healed, and everything must settle. The ledger checks every change of every queue as
//! it happens ([`ledger::Ledger::enter`]); [`run::run`] is one run, start to end.
//!
//! `cargo xtask faults` runs as many seeds as wanted; `--seed N` replays one.

pub mod event_source;
mod forgeries;
pub mod knobs;
pub mod lambda;
pub mod ledger;
pub mod messages;
pub mod operator;
pub mod own_function;
pub mod policy;
pub mod probe;
pub mod run;
pub mod target;
pub mod world;

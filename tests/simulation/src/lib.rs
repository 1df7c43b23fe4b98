//! Deterministic simulation: the real code of the functions and of `redeliver redrive`, on the embedded SQS in virtual
//! time, with faults planned from a seed, watched by a ledger that interprets everything independently.
//!
//! A run has two phases. First everything may fail: requests, answers, entries of batches, processes at any await,
//! clocks, the target, the operator. Then everything is healed, and must settle. The ledger checks every change of
//! every queue as it happens ([`ledger::Ledger::apply_changes`]); [`run::run_simulation`] is one complete run.
//!
//! `cargo xtask faults` runs any number of seeds; `--seed N` replays one.

pub mod archive;
pub mod event_source;
mod forgeries;
pub mod knobs;
pub mod lambda;
pub mod ledger;
pub mod messages;
pub mod operator;
pub mod ordered;
pub mod own_function;
pub mod policy;
pub mod probe;
pub mod run;
pub mod target;
pub mod world;

//! Deterministic simulation: the real code of the functions and of `redeliver redrive` runs on the embedded SQS in
//! virtual time. Faults are drawn from a seed, and an independent ledger audits every effect.
//!
//! A run has two phases. In the first, anything can fail: requests, responses, batch entries, processes at any await,
//! clocks, the target, the operator. In the second, the faults are over and every message must settle. The ledger
//! checks every queue change as it happens ([`ledger::Ledger::apply_changes`]); [`run::run_simulation`] executes one
//! complete run.
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

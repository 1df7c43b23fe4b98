//! The soak: thousands of messages through the three real functions, under fire, and a ledger that must balance.
//!
//! The functions reach SQS through a proxy that loses, breaks and falsifies answers ([`proxy`]); the target fails in every way that a
//! target can ([`target`]); processes are killed in the middle of their work and event source mappings forget what they did
//! ([`poller`]). Everything is observed from outside ([`history`]), and the [`ledger`] knows nothing but what was observed.
//!
//! What happens is decided by a seed ([`dice`]), but time and the order of things are real: a seed gives a run like the one before, not the
//! same one.

pub mod dice;
pub mod history;
mod http;
pub mod ledger;
pub mod messages;
pub mod poller;
pub mod proxy;
pub mod recorder;
pub mod report;
pub mod run;
pub mod target;

//! What the tests of several crates share: queues that misbehave, programs that die, messages.
#![allow(missing_docs, reason = "for tests alone: the names say it")]

pub mod altered;
pub mod dead_letters;
mod dying;

pub use dying::Killed;

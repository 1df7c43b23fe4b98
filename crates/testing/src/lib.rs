//! Helpers for the tests of several crates: misbehaving queues, dying programs, messages.
#![expect(clippy::unwrap_used, reason = "for tests only: a failure here fails the test")]

pub mod altered;
pub mod browser;
pub mod dead_letters;
mod dying;
pub mod foreign;
pub mod functions;
pub mod hostile;
pub mod layers;
pub mod loopback;
#[cfg(unix)]
pub mod planted;

pub use dying::KilledFuture;

//! redeliver's rules as pure code: no I/O, no clock, no environment, no ambient randomness.
//!
//! A message arrives as a [`message::ReceivedMessage`], is parsed into an [`arrival::Arrival`], validated as an
//! [`accepted::AcceptedMessage`], and leaves as a [`deliver::PendingSend`]: a hand-off with its [`failure`], a re-send
//! that [`decide`] chose according to the [`policy::Policy`], a verdict, or a final record with its
//! [`failure::annotation`]. A [`deliver::Outbox`] sends it through the [`ports`].
//!
//! A policy can be checked before deployment:
//!
//! ```
//! use redeliver_core::decide::backoff::delay_bounds;
//! use redeliver_core::policy::Policy;
//!
//! let text = r#"{"max_attempts": 3, "backoff": {"kind": "fixed", "delay_seconds": 60, "jitter": "none"}}"#;
//! let policy = Policy::from_json(text)?;
//! let (earliest, latest) = delay_bounds(&policy, 1).into_inner();
//! assert_eq!((earliest.get(), latest.get()), (60, 60));
//! # Ok::<(), redeliver_core::policy::PolicyError>(())
//! ```

pub mod accepted;
pub mod archive;
pub mod arrival;
pub mod async_retry;
pub mod blocked;
pub mod decide;
pub mod deliver;
pub mod events;
pub mod failure;
pub mod fault;
pub mod function_arn;
pub mod handler;
pub mod json;
pub mod limits;
mod lock;
pub mod log_location;
pub mod message;
pub mod notices;
pub mod policy;
pub mod polling;
pub mod ports;
pub mod redelivery;
mod span_context;
pub mod strategy;
pub mod trace;
pub mod truncate;
mod yield_now;

pub use lock::lock;
pub use yield_now::yield_now;

#[cfg(test)]
mod testing;

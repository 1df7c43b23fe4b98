//! The rules of redeliver, pure: no I/O, no clock, no environment, no ambient randomness.
//!
//! A message comes in as a [`message::ReceivedMessage`], is opened as an [`arrival::Arrival`], parsed into an
//! [`envelope::Envelope`] by the [`schema::MessageSchema`], and leaves as a [`message::OutgoingMessage`]: a hand-off
//! with its [`failure`], a re-send that the [`decision`] module decided on by the [`policy::Policy`], or a final record
//! that [`annotation`] explained. [`packing`] and [`delivery`] bring it out through the [`ports`].
//!
//! What a policy allows is known before anything is deployed:
//!
//! ```
//! use redeliver_core::backoff::bounds;
//! use redeliver_core::policy::Policy;
//!
//! let text = r#"{"max_attempts": 3, "backoff": {"kind": "fixed", "delay_seconds": 60, "jitter": "none"}}"#;
//! let policy = Policy::from_json(text)?;
//! let (earliest, latest) = bounds(&policy, 1).into_inner();
//! assert_eq!((earliest.get(), latest.get()), (60, 60));
//! # Ok::<(), redeliver_core::policy::PolicyError>(())
//! ```

pub mod annotation;
pub mod arrival;
pub mod async_retry;
pub mod backoff;
pub mod breaker;
pub mod decision;
pub mod deletion;
pub mod delivery;
pub mod envelope;
pub mod events;
pub mod failure;
pub mod folding;
pub mod function_arn;
pub mod handler;
pub mod limits;
pub mod message;
pub mod metadata;
pub mod origin;
pub mod pacing;
pub mod packing;
pub mod plain;
pub mod policy;
pub mod ports;
pub mod reason;
pub mod redelivery;
mod reserved;
pub mod schema;
pub mod strategy;
pub mod text;
pub mod tolerant;
pub mod turn;
pub mod value;

#[cfg(test)]
mod testing;

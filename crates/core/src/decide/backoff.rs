//! The delay before a retry: a pure function of the policy, the message, its generation and the attempt number.
//!
//! Random values are derived from a key, so every copy of a message gets the same delay on any machine. The generator
//! is ChaCha8 (`rand_chacha`, djb's variant with a 64-bit counter and nonce 0) with this 32-byte key: the 16 bytes of
//! `message_id`, then `generation` and `attempt` as 32-bit little-endian integers, then the ASCII string `redelivr`.
//! The first 64-bit word `x` of its output (little-endian) spreads the backoff, and the second word spreads a delay
//! requested by the target. A word is mapped to a number in `low..=high` as `low + ((x * (high - low + 1)) >> 64)`.

use std::ops::RangeInclusive;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use uuid::Uuid;

use crate::limits::RetryDelay;
use crate::policy::{Backoff, Jitter, Policy};

/// The key from which the random part of a delay is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitterKey {
    /// `metadata.message_id`.
    pub message_id: Uuid,
    /// `metadata.redrive_generation`.
    pub generation: u32,
    /// Number of the retry that follows the delay: 1 for the first retry.
    pub attempt: u32,
}

/// Returns the policy's delay before retry number `key.attempt`: whole seconds within [`delay_bounds`].
#[must_use]
pub fn retry_delay(policy: &Policy, key: JitterKey) -> RetryDelay {
    let (low, high) = delay_bounds(policy, key.attempt).into_inner();
    let (low, high) = (low.get().into(), high.get().into());
    RetryDelay::saturating(draw_number(key, low, high))
}

/// Returns the shortest and the longest delay before retry number `attempt` (1 for the first retry). All whole seconds
/// in that range are equally likely. With the default policy, each delay is 0..=900 s; an exponential backoff doubles
/// up to its cap.
#[must_use]
pub fn delay_bounds(policy: &Policy, attempt: u32) -> RangeInclusive<RetryDelay> {
    let (base, cap, jitter) = match &policy.backoff {
        Backoff::Uniform { max_delay } => (*max_delay, *max_delay, Jitter::Full),
        Backoff::Exponential { initial_delay, rate, offset, max_delay, jitter } => {
            (exponential_base(*initial_delay, *rate, *offset, *max_delay, attempt), *max_delay, *jitter)
        }
        Backoff::Fixed { delay, jitter } => (*delay, policy.delay_limit(), *jitter),
        Backoff::Schedule { delays, jitter } => (delays.delay_before(attempt), policy.delay_limit(), *jitter),
    };
    let (base, cap) = (u64::from(base.get()), u64::from(cap.get()));
    let (low, high) = match jitter {
        Jitter::None => (base, base),
        Jitter::Half => (base.div_ceil(2), base),
        Jitter::Full => (0, base),
        Jitter::Additive { max } => {
            let max = u64::from(max.get());
            // At the cap, the base shrinks but the spread does not: otherwise all messages at the cap would be retried
            // together.
            let low = base.min(cap.saturating_sub(max));
            (low, low + max)
        }
    };
    RetryDelay::saturating(low)..=RetryDelay::saturating(high)
}

/// Draws a number in `low..=high` from the key's first word, which is reserved for the backoff.
pub(crate) fn draw_number(key: JitterKey, low: u64, high: u64) -> u64 {
    let [word, _] = jitter_words(key);
    scale_word(word, low, high)
}

/// Returns the delay for a `Retry-After`, which is a floor for the policy's own delay: never shorter than requested,
/// and up to 10 % longer so that messages with the same `Retry-After` date are not all retried at the same time. At
/// most `limit`: 900 s, or 12 hours with long delays ([`Policy::delay_limit`]).
#[must_use]
pub fn retry_after_delay(requested_seconds: u64, limit: RetryDelay, key: JitterKey) -> RetryDelay {
    let [_, word] = jitter_words(key);
    let extra = scale_word(word, 0, requested_seconds.min(u64::from(limit.get())) / 10);
    RetryDelay::saturating(requested_seconds.saturating_add(extra)).min(limit)
}

/// Computes `initial * rate^(n-1) + offset`, at most `max`, rounded up so that no retry is early. Uses repeated
/// multiplication, for which IEEE 754 defines an exact result; a power function may return different results on
/// different machines.
fn exponential_base(
    initial: RetryDelay,
    rate: f64,
    offset: RetryDelay,
    max: RetryDelay,
    attempt: u32,
) -> RetryDelay {
    let cap = f64::from(max.get());
    let mut base = f64::from(initial.get());
    for _ in 1..attempt {
        // The result no longer changes. Stopping here saves up to a thousand multiplications and avoids infinity.
        if base >= cap || rate <= 1.0 {
            break;
        }
        base *= rate;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 <= base <= 43,200 after the cap"
    )]
    RetryDelay::saturating((base + f64::from(offset.get())).ceil().min(cap) as u64)
}

fn jitter_words(key: JitterKey) -> [u64; 2] {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(key.message_id.as_bytes());
    seed[16..20].copy_from_slice(&key.generation.to_le_bytes());
    seed[20..24].copy_from_slice(&key.attempt.to_le_bytes());
    seed[24..].copy_from_slice(b"redelivr");
    let mut generator = ChaCha8Rng::from_seed(seed);
    [generator.next_u64(), generator.next_u64()]
}

fn scale_word(word: u64, low: u64, high: u64) -> u64 {
    let width = u128::from(high - low) + 1;
    let above = (u128::from(word) * width) >> 64;
    low + u64::try_from(above).unwrap_or(high - low)
}

#[cfg(test)]
mod tests;

//! Named policies: the retry presets of AWS's durable execution SDKs (`RetryPresets` of the one for Python has all five;
//! the others have `default` and `no retry`). Their `max_attempts` counts the first call, ours does not.

use crate::limits::RetryDelay;
use crate::policy::{Backoff, Jitter, Policy};

/// The policy of a name that the schema allows.
pub(super) fn named(name: &str) -> Policy {
    let (calls, initial, max, rate, jitter) = match name {
        "durable_transient" => (3, 5, 300, 2.0, Jitter::Half),
        "durable_resource_availability" => (5, 5, 300, 2.0, Jitter::Full),
        "durable_critical" => (10, 1, 60, 1.5, Jitter::None),
        "durable_none" => (1, 5, 60, 2.0, Jitter::Full),
        _ => (6, 5, 60, 2.0, Jitter::Full),
    };
    let backoff = Backoff::Exponential {
        initial_delay: RetryDelay::saturating(initial),
        rate,
        offset: RetryDelay::ZERO,
        max_delay: RetryDelay::saturating(max),
        jitter,
    };
    Policy { max_attempts: calls - 1, backoff, ..Policy::default() }
}

//! Paced re-sends: how far the delays of many waiting messages are stretched, so that they do not all come back at once.
//!
//! By Little's law (waiting = rate × mean delay) the messages that wait with a delay come back at `rate` a second if their
//! mean delay is `waiting / rate` seconds. The window is centred there, as wide as it can be from 0 to the longest
//! `DelaySeconds`: width is what keeps a burst from coming back as a burst, also where the count is a minute old. It never
//! starts above half of that longest delay, so the longest mean delay is 675 s: more than 675 messages waiting for each
//! message a second cannot be held.

use crate::backoff::{Key, spread};
use crate::limits::DelaySeconds;
use crate::policy::RedeliveryRate;

/// The delays that a re-send may be stretched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    low: DelaySeconds,
    high: DelaySeconds,
    holds: bool,
}

impl Window {
    /// Its lowest start is 0, its highest half of the longest delay.
    const LOW_MAX: f64 = DelaySeconds::MAX.get() as f64 / 2.0;

    /// The window in which so many messages come back at about `rate`.
    #[must_use]
    pub fn of(waiting: u64, rate: RedeliveryRate) -> Self {
        let longest = f64::from(DelaySeconds::MAX.get());
        #[expect(
            clippy::cast_precision_loss,
            reason = "what is lost of a count above 2^53 is nothing to a delay"
        )]
        let twice_mean = 2.0 * waiting as f64 / rate.per_second();
        let low = (twice_mean - longest).clamp(0.0, Self::LOW_MAX);
        Self {
            low: rounded_up(low),
            high: rounded_up(twice_mean),
            holds: twice_mean <= longest + Self::LOW_MAX,
        }
    }

    /// Whether the rate can be held with delays of 900 s at most.
    #[must_use]
    pub const fn holds(self) -> bool {
        self.holds
    }
}

/// The delay of a re-send: its own, or where the window has a longer one for this message, that one. Pure, and keyed as the
/// delay itself is: with the same word of randomness, so that a uniform delay and its window are one distribution, not the
/// longer of two.
#[must_use]
pub fn paced(delay: DelaySeconds, window: Window, key: Key) -> DelaySeconds {
    let stretched = spread(key, u64::from(window.low.get()), u64::from(window.high.get()));
    delay.max(DelaySeconds::saturating(stretched))
}

fn rounded_up(seconds: f64) -> DelaySeconds {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 <= seconds <= 900 after the cap"
    )]
    DelaySeconds::saturating(seconds.ceil().min(f64::from(DelaySeconds::MAX.get())) as u64)
}

#[cfg(test)]
mod tests;

//! Paced re-sends: stretches the delays of many waiting messages, so that they do not all come back at once.
//!
//! By Little's law (waiting = rate × mean delay) the delayed messages come back at `rate` a second if their mean delay
//! is `waiting / rate` seconds. The window is centred on that mean and as wide as the range from 0 to the longest
//! `DelaySeconds` allows: a wide window spreads a burst even if the count is a minute old. It never starts above half
//! of the longest delay, so its longest mean is 675 s: with more than 675 messages waiting for each message a second
//! the rate cannot be held. A delay whose own mean is long enough is not stretched.

use std::ops::RangeInclusive;

use crate::decide::backoff::{Key, spread};
use crate::limits::{DelaySeconds, RetryDelay};
use crate::policy::RedeliveryRate;

/// The range that delays are stretched into.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    twice_mean: f64,
    low: DelaySeconds,
    high: DelaySeconds,
}

/// The effect of pacing on a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Not stretched: its own mean delay already holds the rate.
    Own,
    Stretched,
    /// Stretched as far as possible, but too many messages still come back.
    NotHeld,
}

impl Window {
    /// The longest delay of a window.
    const LONGEST: f64 = DelaySeconds::MAX.get() as f64;
    /// The highest start of a window: half of the longest delay. The lowest is 0.
    const LOW_MAX: f64 = Self::LONGEST / 2.0;

    /// The window in which `waiting` messages come back at about `rate`.
    #[must_use]
    pub fn of(waiting: u64, rate: RedeliveryRate) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a count above 2^53 needs no exact delay")]
        let twice_mean = 2.0 * waiting as f64 / rate.per_second();
        // Centred on the mean it would be 0..=2·mean. The part above 900 s is cut off, and the start rises by as much,
        // so the mean stays. The start stops at half of 900 s: a narrow window would send a burst back as a burst.
        let low = rounded_up((twice_mean - Self::LONGEST).clamp(0.0, Self::LOW_MAX));
        Self { twice_mean, low, high: rounded_up(twice_mean) }
    }

    /// Judges a delay by the two bounds that it is drawn from, which are equal for a fixed delay.
    #[must_use]
    pub fn pace(self, bounds: &RangeInclusive<RetryDelay>) -> Pace {
        // Sums instead of means: both sides are twice their mean.
        let own = f64::from(bounds.start().get()) + f64::from(bounds.end().get());
        if own >= self.twice_mean {
            Pace::Own
        } else if self.twice_mean <= Self::LONGEST + Self::LOW_MAX {
            Pace::Stretched
        } else {
            Pace::NotHeld
        }
    }

    /// The longer of the delay and the message's place in the window. Pure, and keyed like the delay itself.
    #[must_use]
    pub fn stretched(self, delay: DelaySeconds, key: Key) -> DelaySeconds {
        let in_window = spread(key, u64::from(self.low.get()), u64::from(self.high.get()));
        // By the key's first word, like the delay: a message late in its own range is late in the window, so the order
        // stays.
        delay.max(DelaySeconds::saturating(in_window))
    }
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

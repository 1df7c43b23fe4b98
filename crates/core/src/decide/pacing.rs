//! Paced re-sends: how far the delays of many waiting messages are stretched, so that they do not all come back at
//! once.
//!
//! By Little's law (waiting = rate × mean delay) the messages that wait with a delay come back at `rate` a second if
//! their mean delay is `waiting / rate` seconds. The window is centred there, as wide as it can be from 0 to the
//! longest `DelaySeconds`: width is what keeps a burst from coming back as a burst, also if the count is a minute old.
//! It never starts above half of that longest delay, so its longest mean is 675 s: more than 675 messages waiting for
//! each message a second cannot be held. A delay whose own mean is long enough is left as it is.

use std::ops::RangeInclusive;

use crate::decide::backoff::{Key, spread};
use crate::limits::{DelaySeconds, RetryDelay};
use crate::policy::RedeliveryRate;

/// The delays that a re-send may be stretched to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    twice_mean: f64,
    low: DelaySeconds,
    high: DelaySeconds,
}

/// What pacing makes of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Its own delay is as long as the rate asks for, on average.
    Own,
    Stretched,
    /// It is stretched as far as it can be, and too many messages come back all the same.
    NotHeld,
}

impl Window {
    /// The longest delay that it can stretch to.
    const LONGEST: f64 = DelaySeconds::MAX.get() as f64;
    /// Its lowest start is 0, its highest half of the longest delay.
    const LOW_MAX: f64 = Self::LONGEST / 2.0;

    /// The window in which so many messages come back at about `rate`.
    #[must_use]
    pub fn of(waiting: u64, rate: RedeliveryRate) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "what is lost of a count above 2^53 is nothing to a delay"
        )]
        let twice_mean = 2.0 * waiting as f64 / rate.per_second();
        // Centred on the mean it would be 0..=2·mean. What would reach above 900 s is cut off there, so its start rises
        // by as much: the mean stays. Above half of 900 s it stops: a narrow window would send a burst back as a burst.
        let low = rounded_up((twice_mean - Self::LONGEST).clamp(0.0, Self::LOW_MAX));
        Self { twice_mean, low, high: rounded_up(twice_mean) }
    }

    /// What is to become of a delay that is drawn from these two bounds, or is both of them.
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

    /// The stretched delay: its own, or if the window has a longer one for this message, that one. Pure, and keyed as
    /// the delay itself is.
    #[must_use]
    pub fn stretched(self, delay: DelaySeconds, key: Key) -> DelaySeconds {
        let in_window = spread(key, u64::from(self.low.get()), u64::from(self.high.get()));
        // By the key's first word, which the delay is drawn with too: a message late in its own range is late in the
        // window, so their order stays.
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

//! The rate limit for a target that is partly up: additive increase and multiplicative decrease, in calls per second.
//!
//! Each answer adds `GROWTH·√rate`, and each refusal subtracts a share. Environments that call the same target
//! therefore converge to equal rates wherever they start, because a higher rate causes more refusals. A message beyond
//! the rate is held until the calls for the messages ahead of it have been made (Little's law: waiting ÷ rate).

use super::moment::{MOMENT_SECONDS, Moment};
use super::{HOLD_MAX, HOLD_SECONDS_MIN};

/// The increase per answer, in calls per second, divided by the square root of the rate. In equilibrium, a share of
/// `GROWTH / (0.22·√rate)` of all calls is refused: 1.4 % at 2.5 per second, 4.5 % at 0.25.
const GROWTH: f32 = 0.005;
/// The factor by which a refusal multiplies the rate.
const DECREASE: f32 = 0.78;
/// The factor if no call has been answered since the last refusal.
const DECREASE_AGAIN: f32 = 0.6;
/// The shortest time between decreases. The rate is in calls per second, so it takes a second for a decrease to show.
const DECREASE_INTERVAL_SECONDS: f32 = 1.0;
/// Seconds per call at the lowest rate. A target that accepts fewer calls counts as down.
pub const LOWEST_RATE_SECONDS: u32 = 20;
const RATE_MIN: f32 = 1.0 / LOWEST_RATE_SECONDS as f32;
/// The largest burst is the number of calls that the rate allows in this time.
const BURST_SECONDS: f32 = 0.3;
/// The rate at which a slow start ends and the limit is dropped.
const SLOW_START_RATE_MAX: f32 = 64.0;
/// The initial rate of a slow start. It doubles each second.
const SLOW_START_RATE: f32 = 2.0;
/// The rate grows only if the limit has held a message this recently: an unused rate says nothing about the target.
const IN_USE_SECONDS: f32 = 10.0;
/// The limit is dropped when it has not been needed for this long.
const NOT_NEEDED_SECONDS: f32 = 30.0;
/// The longest hold, as a share of the limit's age.
const HOLD_SHARE: f32 = 0.04;

#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    since: Moment,
    per_second: f32,
    /// Number of calls that may be made now. Negative after a refusal.
    tokens: f32,
    filled_at: Moment,
    /// Slot of the last held message: the earliest time at which its call should not be refused.
    next_slot: Moment,
    /// Remainder, in seconds, by which the slot is later than `next_slot`: less than the length of a moment.
    slot_part: f32,
    held_at: Moment,
    refused_at: Moment,
    /// Number of the change that lowered the rate. A call that started earlier does not lower the rate again.
    lowering_change: u32,
    /// True during a slow start: the rate doubles each second until the first refusal.
    is_doubling: bool,
    is_answered: bool,
}

/// The part of the rate that a call must leave unused for other keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserve {
    None,
    /// A token for one more call.
    OneToken,
}

impl RateLimit {
    /// Creates the limit after an outage that began at `since`.
    pub(super) fn after_outage(since: Moment, now: Moment, change: u32) -> Self {
        let limit = Self::with_rate(SLOW_START_RATE, now, change);
        Self { since, is_doubling: true, tokens: 1.0, ..limit }
    }

    /// Creates the limit after the first refusal by a target that answered this many calls per second.
    pub(super) fn after_refusal(answered_per_second: f32, now: Moment, change: u32) -> Self {
        Self::with_rate(answered_per_second * DECREASE, now, change)
    }

    fn with_rate(per_second: f32, now: Moment, change: u32) -> Self {
        Self {
            since: now,
            per_second: per_second.max(RATE_MIN),
            tokens: 0.0,
            filled_at: now,
            next_slot: now,
            slot_part: 0.0,
            held_at: now,
            refused_at: now,
            lowering_change: change,
            is_doubling: false,
            is_answered: false,
        }
    }

    #[cfg(test)]
    pub(super) fn per_second(&self) -> f32 {
        self.per_second
    }

    pub(super) fn since(&self) -> Moment {
        self.since
    }

    /// Returns true if a call may be made now.
    pub(super) fn has_token(&mut self, reserve: Reserve, now: Moment) -> bool {
        let reserved = match reserve {
            Reserve::None => 0.0,
            Reserve::OneToken => 1.0,
        };
        let filled = self.tokens + self.filled_at.seconds_until(now) * self.per_second;
        let tokens_max = (self.per_second * BURST_SECONDS).max(1.0) + reserved;
        self.tokens = filled.min(tokens_max.max(self.tokens));
        self.filled_at = now;
        self.tokens >= 1.0 + reserved
    }

    pub(super) fn take_token(&mut self) {
        self.tokens -= 1.0;
    }

    pub(super) fn give_back_token(&mut self) {
        self.tokens += 1.0;
    }

    /// Assigns the next slot to a message. Returns the number of seconds until that slot: at most 4 % of the limit's
    /// age, times `jitter`, because other environments may have earlier slots.
    pub(super) fn assign_slot(&mut self, now: Moment, jitter: f32) -> f32 {
        let longest = (self.since.seconds_until(now) * HOLD_SHARE * jitter).clamp(HOLD_SECONDS_MIN, HOLD_MAX);
        self.held_at = now;
        let step = self.slot_step();
        let slot = self.next_slot.max(now).plus_seconds(step);
        self.next_slot = slot.min(now.plus_seconds(longest));
        now.seconds_until(self.next_slot)
    }

    /// Returns the number of seconds between two slots. A moment is a hundredth of a second, so at a high rate, several
    /// slots share one.
    fn slot_step(&mut self) -> f32 {
        let step = 1.0 / self.per_second;
        if step >= MOMENT_SECONDS {
            return step;
        }
        self.slot_part += step;
        if self.slot_part < MOMENT_SECONDS {
            return 0.0;
        }
        self.slot_part -= MOMENT_SECONDS;
        MOMENT_SECONDS
    }

    /// Records an answer. Returns true if the limit is no longer needed.
    pub(super) fn record_answer(&mut self, now: Moment) -> bool {
        self.is_answered = true;
        if self.is_doubling {
            self.per_second += 1.0;
        } else if self.held_at.seconds_until(now) < IN_USE_SECONDS {
            self.per_second += GROWTH * self.per_second.sqrt();
        }
        let quiet = self.held_at.max(self.refused_at).seconds_until(now);
        (self.is_doubling && self.per_second >= SLOW_START_RATE_MAX) || quiet >= NOT_NEEDED_SECONDS
    }

    /// Records the refusal of a call that started after change number `start_change`. Returns true if the refusal
    /// lowers the rate; that state change gets the number `change`. The refusal of a call that started before the last
    /// decrease does not lower it.
    pub(super) fn record_refusal(&mut self, start_change: u32, change: u32, now: Moment) -> bool {
        // A clock that was set back must not keep the rate high.
        let is_soon =
            self.refused_at <= now && self.refused_at.seconds_until(now) < DECREASE_INTERVAL_SECONDS;
        if start_change < self.lowering_change || is_soon {
            return false;
        }
        let factor = if self.is_answered { DECREASE } else { DECREASE_AGAIN };
        self.per_second = (self.per_second * factor).max(RATE_MIN);
        // Many targets count calls per second, and would refuse any further call in this second.
        self.tokens = -self.per_second;
        self.lowering_change = change;
        self.refused_at = now;
        self.is_doubling = false;
        self.is_answered = false;
        true
    }
}

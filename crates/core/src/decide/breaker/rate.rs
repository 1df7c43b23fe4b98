//! The rate limit on a target that is partly up: additive increase, multiplicative decrease, in calls a second.
//!
//! Each answer adds `GROWTH·√rate`, each refusal takes away a share. Several environments that call the same target
//! thus converge to equal rates, whatever they start with: the larger rate meets more refusals. A call that finds no
//! place is held until the calls before it have been made (Little's law: waiting ÷ rate).

use super::moment::Moment;

/// Calls a second and per answer, times the root of the rate. In balance a share of `GROWTH / (0.22·√rate)` of the
/// calls is refused: 1.4 % at 2.5 a second, 4.5 % at 0.25.
const GROWTH: f32 = 0.005;
/// A refusal leaves this much of the rate; if nothing was answered since the last one, this much:
const DECREASE: f32 = 0.78;
const DECREASE_AGAIN: f32 = 0.6;
/// The rate is in calls a second, so it takes a second to see the effect of a decrease.
const DECREASE_INTERVAL_SECONDS: f32 = 1.0;
/// One call in 20 seconds. A target that takes less is as good as down.
const RATE_MIN: f32 = 0.05;
/// Calls that may be made at once, in seconds of the rate.
const BURST_SECONDS: f32 = 0.3;
/// A slow start ends here.
const RATE_MAX: f32 = 64.0;
/// After an outage: a few calls, and twice as many each second.
const RATE_AFTER_OUTAGE: f32 = 2.0;
/// The rate grows only while it holds messages back: an unused rate says nothing about the target.
const IN_USE_SECONDS: f32 = 10.0;
/// The limit is dropped if it has not been needed for this long.
const NOT_NEEDED_SECONDS: f32 = 30.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimit {
    since: Moment,
    per_second: f32,
    /// Calls that may be made now: at most those of a second, at least one.
    tokens: f32,
    filled_at: Moment,
    /// The time of the last held message's call, if all goes well.
    next_slot: Moment,
    held_at: Moment,
    refused_at: Moment,
    /// Calls that began before this change do not lower the rate again.
    lowered: u32,
    /// The target is back: the rate doubles each second until the first refusal.
    is_doubling: bool,
    is_answered: bool,
}

impl RateLimit {
    /// After an outage since this moment.
    pub(super) fn after_outage(since: Moment, now: Moment, change: u32) -> Self {
        let limit = Self::at(RATE_AFTER_OUTAGE, now, change);
        Self { since, is_doubling: true, tokens: 1.0, ..limit }
    }

    /// After the first refusal of a target that took this many calls a second.
    pub(super) fn after_refusal(answered_per_second: f32, now: Moment, change: u32) -> Self {
        Self::at(answered_per_second * DECREASE, now, change)
    }

    fn at(per_second: f32, now: Moment, change: u32) -> Self {
        Self {
            since: now,
            per_second: per_second.max(RATE_MIN),
            tokens: 0.0,
            filled_at: now,
            next_slot: now,
            held_at: now,
            refused_at: now,
            lowered: change,
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

    /// True if a call may be made now, and another one after it if this one `keeps_free` a place.
    pub(super) fn has_token(&mut self, keeps_free: bool, now: Moment) -> bool {
        let kept = if keeps_free { 1.0 } else { 0.0 };
        let filled = self.tokens + self.filled_at.seconds_until(now) * self.per_second;
        let most = (self.per_second * BURST_SECONDS).max(1.0) + kept;
        self.tokens = filled.min(most.max(self.tokens));
        self.filled_at = now;
        self.tokens >= 1.0 + kept
    }

    pub(super) fn take_token(&mut self) {
        self.tokens -= 1.0;
    }

    pub(super) fn give_back_token(&mut self) {
        self.tokens += 1.0;
    }

    /// Seconds until a call that finds no place now can be made, at most `longest`, as far as this environment knows: the
    /// others may have places earlier.
    pub(super) fn hold(&mut self, now: Moment, longest: f32) -> f32 {
        self.held_at = now;
        let slot = self.next_slot.max(now).after(1.0 / self.per_second);
        self.next_slot = slot.min(now.after(longest));
        now.seconds_until(self.next_slot)
    }

    /// A call was answered. Returns true if the limit is no longer needed.
    pub(super) fn answer(&mut self, now: Moment) -> bool {
        self.is_answered = true;
        if self.is_doubling {
            self.per_second += 1.0;
        } else if self.held_at.seconds_until(now) < IN_USE_SECONDS {
            self.per_second += GROWTH * self.per_second.sqrt();
        }
        let quiet = self.held_at.max(self.refused_at).seconds_until(now);
        (self.is_doubling && self.per_second >= RATE_MAX) || quiet >= NOT_NEEDED_SECONDS
    }

    /// A call that began after change number `began` was refused. Returns true if it lowers the rate: a call that began
    /// before the last decrease does not.
    pub(super) fn refuse(&mut self, began: u32, changes: &mut u32, now: Moment) -> bool {
        if began < self.lowered || self.refused_at.seconds_until(now) < DECREASE_INTERVAL_SECONDS {
            return false;
        }
        *changes += 1;
        let left = if self.is_answered { DECREASE } else { DECREASE_AGAIN };
        self.per_second = (self.per_second * left).max(RATE_MIN);
        // Many targets count by the second: more calls in this one are refused, too.
        self.tokens = -self.per_second;
        self.lowered = *changes;
        self.refused_at = now;
        self.is_doubling = false;
        self.is_answered = false;
        true
    }
}

//! How long a failed message waits: as long as the policy says, and at least as long as its target asks for.

use std::ops::RangeInclusive;

use chrono::TimeDelta;

use super::Due;
use super::unspent::Drawn;
use crate::decide::backoff::{Key, bounds, delay, target_delay};
use crate::failure::{Answer, Kind};
use crate::limits::RetryDelay;
use crate::message::Timestamp;
use crate::policy::Policy;

/// Left between the last call of a message and the end of its time: SQS and the pollers take a moment to deliver.
const ARRIVAL: TimeDelta = TimeDelta::seconds(5);

/// The policy's delay before a retry, and the one that the target asks for, which is a floor.
pub(super) struct Wait {
    backoff: Drawn,
    floor: RetryDelay,
}

impl Wait {
    /// The wait before the retry of this key.
    pub(super) fn before(policy: &Policy, answer: &Answer, key: Key) -> Self {
        let asked = answer.retry_after_seconds;
        let floor = asked.map_or(RetryDelay::ZERO, |asked| target_delay(asked, policy.delay_limit(), key));
        // A snooze is no failure, so there is nothing to back off from.
        let backoff = match (answer.kind(), asked) {
            (Kind::Snooze, Some(_)) => Drawn::fixed(RetryDelay::ZERO),
            _ => Drawn { delay: delay(policy, key), bounds: bounds(policy, key.attempt) },
        };
        Self { backoff, floor }
    }

    /// The same on a queue that can hide a message for so long.
    pub(super) fn at_most(self, longest: RetryDelay) -> Self {
        let Drawn { delay, bounds } = self.backoff;
        let backoff = Drawn { delay: delay.min(longest), bounds };
        Self { backoff, floor: self.floor.min(longest) }
    }

    /// The bounds that the delay is drawn from.
    pub(super) fn bounds(&self) -> RangeInclusive<RetryDelay> {
        let (low, high) = (*self.backoff.bounds.start(), *self.backoff.bounds.end());
        low.max(self.floor)..=high.max(self.floor)
    }

    /// When the retry is due, counted from this moment. A target that asks for more time than the message has left
    /// gets all of it but a moment: given up at once, the message would have been called for nothing. If its time is
    /// nearly over, that call has been made.
    pub(super) fn due(&self, from: Timestamp, limit: Option<Timestamp>, now: Timestamp) -> Due {
        let due = Due::from_now(self.backoff.delay.max(self.floor), from);
        let last_call =
            limit.filter(|limit| *limit < due.at).and_then(|limit| self.last_call(from, limit, now));
        let due = last_call.unwrap_or(due);
        Due { at: due.at.max(now), ..due }
    }

    fn last_call(&self, from: Timestamp, limit: Timestamp, now: Timestamp) -> Option<Due> {
        let backoff = Due::from_now(self.backoff.delay, from);
        let left = u64::try_from((limit - ARRIVAL - from).num_seconds()).ok()?;
        let last = Due::from_now(RetryDelay::saturating(left), from);
        let is_possible = backoff.at <= limit && last.at > now;
        is_possible.then_some(if backoff.at > last.at { backoff } else { last })
    }
}

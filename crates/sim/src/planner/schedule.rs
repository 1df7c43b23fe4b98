//! The times of a message's attempts: the exact distribution of sums of delays, based only on the policy.
//!
//! A delay is uniform over the whole seconds between two bounds (`core::decide::backoff`), and the delays of different
//! attempts are independent. The distribution of the n-th attempt's time is therefore the previous attempt's, spread
//! over the bounds of the n-th delay: no sampling is needed. The distribution ignores the duration of calls and polls,
//! and delays requested by the target.

use redeliver_core::decide::backoff::delay_bounds;
use redeliver_core::policy::Policy;
use serde::{Serialize, Serializer};

use crate::number::to_float;

/// A schedule ends before the first attempt with a lower probability than this: later attempts would not change any
/// figure.
const PROBABILITY_MIN: f64 = 1e-9;
/// Sums of delays that can exceed this many seconds are computed in larger steps.
const STEPS_MAX: u64 = 1 << 20;

/// An attempt; times are in seconds since the first failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ScheduledAttempt {
    /// 1 for the first retry.
    pub attempt: u32,
    /// The time if every delay is the shortest possible.
    pub earliest_seconds: u64,
    pub median_seconds: u64,
    /// The time if every delay is the longest possible.
    pub latest_seconds: u64,
    /// The probability that the attempt is made: below 1 if `max_age_seconds` can end the retries before it.
    pub made: f64,
}

/// The attempts of one message, if all of them fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub attempts: Vec<ScheduledAttempt>,
    /// The time of the last attempt actually made.
    pub(super) last: TimeDistribution,
    /// The longest sum of delays, limited by `max_age_seconds`.
    pub longest_seconds: u64,
}

/// The probability of each time. The sum is 1 minus the probability that no attempt is made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeDistribution {
    pub(super) step: u64,
    /// The probability of each step, from `first` on.
    pub(super) chances: Vec<f64>,
    first: u64,
}

impl Schedule {
    /// Returns the schedule of a policy. It ends before the first attempt with a probability below one in a billion.
    pub fn for_policy(policy: &Policy) -> Self {
        let delays: Vec<_> = (1..=policy.max_attempts)
            .map(|attempt| {
                let (low, high) = delay_bounds(policy, attempt).into_inner();
                (u64::from(low.get()), u64::from(high.get()))
            })
            .collect();
        let age = policy.max_age_seconds.map_or(u64::MAX, u64::from);
        let longest_seconds = delays.iter().map(|(_, high)| high).sum::<u64>().min(age);
        let step = longest_seconds.div_ceil(STEPS_MAX).max(1);
        let mut now = TimeDistribution { step, chances: vec![1.0], first: 0 };
        let mut last =
            TimeDistribution { step, chances: vec![0.0; step_index(longest_seconds / step) + 1], first: 0 };
        let mut attempts = Vec::new();
        let (mut earliest, mut latest) = (0, 0);
        for (attempt, (low, high)) in (1..).zip(delays) {
            earliest += low;
            latest += high;
            let next = now.spread_by_delay(low / step, high / step, age / step);
            // Messages that are too old for this attempt made their last attempt before it. A message without any
            // attempt survives no outage and is not included in `last`.
            if attempt > 1 {
                last.add_distribution(&now.part_beyond_limit(low / step, high / step, age / step));
            }
            now = next;
            let made = now.chances.iter().sum::<f64>().min(1.0);
            if made < PROBABILITY_MIN {
                return Self { attempts, last, longest_seconds };
            }
            let latest_seconds = latest.min(age);
            attempts.push(ScheduledAttempt {
                attempt,
                earliest_seconds: earliest,
                median_seconds: now.median().clamp(earliest, latest_seconds),
                latest_seconds,
                made,
            });
        }
        if !attempts.is_empty() {
            last.add_distribution(&now);
        }
        Self { attempts, last, longest_seconds }
    }
}

/// Serialized as its attempts.
impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.attempts.serialize(serializer)
    }
}

impl TimeDistribution {
    /// Returns the distribution after another delay of `low..=high` steps, up to step `limit`.
    fn spread_by_delay(&self, low: u64, high: u64, limit: u64) -> Self {
        let end = (self.end() + high).min(limit);
        let first = self.first + low;
        let width = to_float(high - low + 1);
        let mut chances = Vec::with_capacity(step_index((end + 1).saturating_sub(first)));
        let mut sum = 0.0;
        // Each probability is computed from a difference of cumulative sums, so that rounding never makes it negative.
        let cumulated: Vec<f64> = self
            .chances
            .iter()
            .map(|chance| {
                sum += chance;
                sum
            })
            .collect();
        let up_to = |step: Option<u64>| match step.and_then(|step| step.checked_sub(self.first)) {
            None => 0.0,
            Some(index) => cumulated.get(step_index(index)).copied().unwrap_or(sum),
        };
        for step in first..=end.max(first) {
            if step > limit {
                break;
            }
            chances.push((up_to(step.checked_sub(low)) - up_to(step.checked_sub(high + 1))) / width);
        }
        Self { step: self.step, chances, first }
    }

    /// Returns the part of the distribution for which a delay of `low..=high` steps exceeds `limit`.
    fn part_beyond_limit(&self, low: u64, high: u64, limit: u64) -> Self {
        let width = to_float(high - low + 1);
        let chance_of_end = |at: u64| match limit.checked_sub(at) {
            Some(room) if room >= high => 0.0,
            Some(room) if room >= low => to_float(high - room) / width,
            _ => 1.0,
        };
        let chances =
            (self.first..).zip(&self.chances).map(|(at, chance)| chance * chance_of_end(at)).collect();
        Self { step: self.step, chances, first: self.first }
    }

    /// Adds another distribution that does not end later.
    fn add_distribution(&mut self, other: &Self) {
        let offset = step_index(other.first - self.first);
        for (chance, more) in self.chances.iter_mut().skip(offset).zip(&other.chances) {
            *chance += more;
        }
    }

    fn median(&self) -> u64 {
        let half = self.chances.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let before = self.chances.iter().take_while(|chance| {
            sum += **chance;
            // Rounding must not shift the midpoint of two equal halves by a second.
            sum < half - 1e-12
        });
        (self.first + before.count() as u64) * self.step
    }

    fn end(&self) -> u64 {
        (self.first + self.chances.len() as u64).saturating_sub(1)
    }
}

/// Converts a number of steps, which is never far above [`STEPS_MAX`], into an index.
fn step_index(steps: u64) -> usize {
    usize::try_from(steps).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

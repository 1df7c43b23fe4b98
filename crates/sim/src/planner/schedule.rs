//! When one message's attempts come: the exact distribution of sums of delays, by the policy alone.
//!
//! A delay is each whole second between two bounds with the same chance (`core::backoff`), and delays of different
//! attempts are independent. So the distribution of the n-th attempt's time is that of the one before, spread over the
//! bounds of the n-th delay; no sampling is needed. What calls and polls take is not in it, nor what a target asks for
//! itself.

use redeliver_core::decide::backoff::bounds;
use redeliver_core::policy::Policy;
use serde::Serialize;

use crate::number::float;

/// A sum that can be longer than so many seconds is counted in wider steps.
const STEPS_MAX: u64 = 1 << 20;

/// One attempt, in seconds since the first failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Attempt {
    /// 1 for the first retry.
    pub attempt: u32,
    /// If every delay is as short as it can be.
    pub earliest_seconds: u64,
    /// As many come before as after.
    pub median_seconds: u64,
    /// If every delay is as long as it can be.
    pub latest_seconds: u64,
    /// The chance that it is made: less than 1 if `max_age_seconds` can end the retries before.
    pub made: f64,
}

/// The attempts of one message whose every attempt fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Those that can be made.
    pub attempts: Vec<Attempt>,
    /// The chances of the last attempt that is made.
    pub(super) last: Density,
    /// The longest that the delays can be together, `max_age_seconds` regarded, in seconds.
    pub longest_seconds: u64,
}

/// Chances by time. What they have less than 1 together is the chance of no attempt at all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Density {
    pub(super) step: u64,
    /// The chance of each step from `first` on.
    pub(super) chances: Vec<f64>,
    first: u64,
}

impl Schedule {
    pub fn of(policy: &Policy) -> Self {
        let delays: Vec<_> = (1..=policy.max_attempts)
            .map(|attempt| {
                let (low, high) = bounds(policy, attempt).into_inner();
                (u64::from(low.get()), u64::from(high.get()))
            })
            .collect();
        let age = policy.max_age_seconds.map_or(u64::MAX, u64::from);
        let longest_seconds = delays.iter().map(|(_, high)| high).sum::<u64>().min(age);
        let step = longest_seconds.div_ceil(STEPS_MAX).max(1);
        let mut now = Density { step, chances: vec![1.0], first: 0 };
        let mut last = Density { step, chances: vec![0.0; steps(longest_seconds / step) + 1], first: 0 };
        let mut attempts = Vec::new();
        let (mut earliest, mut latest) = (0, 0);
        for (attempt, (low, high)) in (1..).zip(delays) {
            earliest += low;
            latest += high;
            let next = now.spread(low / step, high / step, age / step);
            // Those who are too old for this attempt had their last one before. Who has had none at all survives no
            // outage, and is in no chance of `last`.
            if attempt > 1 {
                last.add(&now.where_none_follows(low / step, high / step, age / step));
            }
            now = next;
            if earliest > age {
                return Self { attempts, last, longest_seconds };
            }
            let latest_seconds = latest.min(age);
            attempts.push(Attempt {
                attempt,
                earliest_seconds: earliest,
                median_seconds: now.median().clamp(earliest, latest_seconds),
                latest_seconds,
                made: now.chances.iter().sum::<f64>().min(1.0),
            });
        }
        if !attempts.is_empty() {
            last.add(&now);
        }
        Self { attempts, last, longest_seconds }
    }
}

impl Density {
    /// The distribution after one more delay of `low..=high` steps, as far as it comes by step `limit`.
    fn spread(&self, low: u64, high: u64, limit: u64) -> Self {
        let end = (self.end() + high).min(limit);
        let first = self.first + low;
        let width = float(high - low + 1);
        let mut chances = Vec::with_capacity(steps((end + 1).saturating_sub(first)));
        let mut sum = 0.0;
        // The sum of those from which a delay leads to this step. Taken from the cumulated chances, whose rounding
        // never makes a difference negative.
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
            Some(index) => cumulated.get(steps(index)).copied().unwrap_or(sum),
        };
        for step in first..=end.max(first) {
            if step > limit {
                break;
            }
            chances.push((up_to(step.checked_sub(low)) - up_to(step.checked_sub(high + 1))) / width);
        }
        Self { step: self.step, chances, first }
    }

    /// The part of it after which a delay of `low..=high` steps would lead beyond `limit`.
    fn where_none_follows(&self, low: u64, high: u64, limit: u64) -> Self {
        let width = float(high - low + 1);
        let chance_of_end = |at: u64| match limit.checked_sub(at) {
            Some(room) if room >= high => 0.0,
            Some(room) if room >= low => float(high - room) / width,
            _ => 1.0,
        };
        let chances =
            (self.first..).zip(&self.chances).map(|(at, chance)| chance * chance_of_end(at)).collect();
        Self { step: self.step, chances, first: self.first }
    }

    /// Adds another one that reaches no further.
    fn add(&mut self, other: &Self) {
        let offset = steps(other.first - self.first);
        for (chance, more) in self.chances.iter_mut().skip(offset).zip(&other.chances) {
            *chance += more;
        }
    }

    fn median(&self) -> u64 {
        let half = self.chances.iter().sum::<f64>() / 2.0;
        let mut sum = 0.0;
        let before = self.chances.iter().take_while(|chance| {
            sum += **chance;
            // Rounding must not push the middle of two equal halves a second on.
            sum < half - 1e-12
        });
        (self.first + before.count() as u64) * self.step
    }

    fn end(&self) -> u64 {
        (self.first + self.chances.len() as u64).saturating_sub(1)
    }
}

/// A number of steps, at most [`STEPS_MAX`] and a few, as an index.
fn steps(steps: u64) -> usize {
    usize::try_from(steps).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

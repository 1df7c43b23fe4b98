//! The delays of messages, from the send until the end of the successful call.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::number::to_float;

/// Percentiles of delays in seconds, computed with the nearest-rank method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DelayPercentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// The delays of messages in groups that are affected by the fault (`down`) and in all others (`up`); `None` if no
/// message in these groups was processed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DelaysByGroup {
    pub up: Option<DelayPercentiles>,
    pub down: Option<DelayPercentiles>,
    /// Messages that were processed after a later message in their group.
    pub overtaken: u64,
    /// Messages that were not processed.
    #[serde(skip)]
    pub up_unprocessed: u64,
    #[serde(skip)]
    pub down_unprocessed: u64,
    #[serde(skip)]
    pub up_longest: LongestDelays,
    #[serde(skip)]
    pub down_longest: LongestDelays,
}

/// The longest delay, in milliseconds, of the messages sent in each second since the first message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LongestDelays(BTreeMap<u64, u64>);

/// A log that counts the messages sent, and collects the delays of the processed ones.
#[derive(Debug, Default)]
pub(super) struct DelayLog {
    up: DelaySamples,
    down: DelaySamples,
    /// The number of the latest processed message in each group.
    latest: BTreeMap<String, u64>,
    overtaken: u64,
}

#[derive(Debug, Default)]
struct DelaySamples {
    sent: u64,
    milliseconds: Vec<u64>,
    longest: LongestDelays,
}

/// A message that the target has processed.
pub(super) struct ProcessedMessage<'a> {
    pub(super) meets_fault: bool,
    pub(super) group: Option<&'a str>,
    /// The message's position in the order of sends.
    pub(super) number: u64,
    /// The second in which it was sent.
    pub(super) second: u64,
    pub(super) milliseconds: u64,
}

impl DelayLog {
    pub(super) fn record_sent(&mut self, meets_fault: bool) {
        self.samples_mut(meets_fault).sent += 1;
    }

    pub(super) fn record_processed(&mut self, message: &ProcessedMessage<'_>) {
        let ProcessedMessage { meets_fault, group, number, second, milliseconds } = *message;
        let samples = self.samples_mut(meets_fault);
        samples.milliseconds.push(milliseconds);
        let longest = samples.longest.0.entry(second).or_default();
        *longest = milliseconds.max(*longest);
        let Some(group) = group else { return };
        match self.latest.get_mut(group) {
            Some(latest) if *latest > number => self.overtaken += 1,
            Some(latest) => *latest = number,
            None => {
                self.latest.insert(group.to_owned(), number);
            }
        }
    }

    /// Returns the samples of the affected groups, or of the others.
    const fn samples_mut(&mut self, meets_fault: bool) -> &mut DelaySamples {
        if meets_fault { &mut self.down } else { &mut self.up }
    }

    pub(super) fn all_delays(&self) -> Option<DelayPercentiles> {
        DelayPercentiles::from_milliseconds([&self.up.milliseconds[..], &self.down.milliseconds].concat())
    }

    pub(super) fn delays_by_group(&self) -> DelaysByGroup {
        let unprocessed =
            |samples: &DelaySamples| samples.sent.saturating_sub(samples.milliseconds.len() as u64);
        DelaysByGroup {
            up: DelayPercentiles::from_milliseconds(self.up.milliseconds.clone()),
            down: DelayPercentiles::from_milliseconds(self.down.milliseconds.clone()),
            overtaken: self.overtaken,
            up_unprocessed: unprocessed(&self.up),
            down_unprocessed: unprocessed(&self.down),
            up_longest: self.up.longest.clone(),
            down_longest: self.down.longest.clone(),
        }
    }
}

impl LongestDelays {
    /// Returns the longest delay, in milliseconds, of messages sent in a range of seconds.
    pub fn longest_delay_within(&self, seconds: Range<u64>) -> u64 {
        self.0.range(seconds).map(|(_, milliseconds)| *milliseconds).max().unwrap_or(0)
    }

    /// Returns the last second in which a message was sent.
    pub fn last_second(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(second, _)| *second)
    }
}

impl DelayPercentiles {
    fn from_milliseconds(mut milliseconds: Vec<u64>) -> Option<Self> {
        milliseconds.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (milliseconds.len() * percent).div_ceil(100).checked_sub(1)?;
            Some(to_float(milliseconds[rank]) / 1000.0)
        };
        Some(Self { p50: percentile(50)?, p90: percentile(90)?, p99: percentile(99)?, max: percentile(100)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_nearest_rank() {
        let hundred = (1..=100).rev().map(|second| second * 1000).collect();
        assert_eq!(
            DelayPercentiles::from_milliseconds(hundred),
            Some(DelayPercentiles { p50: 50.0, p90: 90.0, p99: 99.0, max: 100.0 })
        );
        let three = vec![3, 1, 2_500];
        assert_eq!(
            DelayPercentiles::from_milliseconds(three),
            Some(DelayPercentiles { p50: 0.003, p90: 2.5, p99: 2.5, max: 2.5 })
        );
        assert_eq!(DelayPercentiles::from_milliseconds(Vec::new()), None);
    }

    #[test]
    fn delays_of_groups_that_are_down_are_separate_from_the_others() {
        let mut log = DelayLog::default();
        for number in 0..9 {
            let meets_fault = number % 2 == 0;
            log.record_sent(meets_fault);
            // The last two messages of the group that is down are not processed.
            if number < 6 || !meets_fault {
                let (group, milliseconds) = if meets_fault { ("a", 7000) } else { ("b", 1000) };
                let (group, second) = (Some(group), number / 3);
                log.record_processed(&ProcessedMessage { meets_fault, group, number, second, milliseconds });
            }
        }
        let all = |seconds| DelayPercentiles { p50: seconds, p90: seconds, p99: seconds, max: seconds };
        let by_group = DelaysByGroup {
            up: Some(all(1.0)),
            down: Some(all(7.0)),
            overtaken: 0,
            up_unprocessed: 0,
            down_unprocessed: 2,
            up_longest: LongestDelays(BTreeMap::from([(0, 1000), (1, 1000), (2, 1000)])),
            down_longest: LongestDelays(BTreeMap::from([(0, 7000), (1, 7000)])),
        };
        assert_eq!(log.delays_by_group(), by_group);
        assert_eq!(by_group.up_longest.last_second(), 2);
        let ranges = [0..1, 1..9, 2..9].map(|seconds| by_group.down_longest.longest_delay_within(seconds));
        assert_eq!(ranges, [7000, 7000, 0]);
        assert_eq!(log.all_delays(), Some(DelayPercentiles { p50: 1.0, ..all(7.0) }));
    }

    #[test]
    fn a_message_is_overtaken_only_by_a_later_one_in_its_group() {
        let mut log = DelayLog::default();
        let mut processed = |group, number| {
            let (meets_fault, second, milliseconds) = (false, 0, 0);
            log.record_processed(&ProcessedMessage { meets_fault, group, number, second, milliseconds });
        };
        for (group, number) in [("a", 0), ("b", 5), ("a", 4), ("a", 2), ("a", 3), ("b", 1), ("a", 6)] {
            processed(Some(group), number);
        }
        // Messages without a group have no order.
        processed(None, 9);
        processed(None, 8);
        assert_eq!(log.delays_by_group().overtaken, 3, "2 and 3 of a, and 1 of b");
    }
}

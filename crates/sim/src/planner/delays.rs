//! The delays of messages, from a message's send until the target has processed it.

use serde::Serialize;

use crate::number::float;

/// Percentiles of delays in seconds, by the nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delays {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// The delays of the messages whose groups meet the fault, and of the others; `None` if none was processed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByGroup {
    pub up: Option<Delays>,
    pub down: Option<Delays>,
    /// Messages that were not processed.
    #[serde(skip)]
    pub up_unprocessed: u64,
    #[serde(skip)]
    pub down_unprocessed: u64,
}

/// The messages sent, and the delays of those that were processed.
#[derive(Debug, Default)]
pub(super) struct DelayLog {
    up: Side,
    down: Side,
}

#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) sent: u64,
    pub(super) milliseconds: Vec<u64>,
}

impl DelayLog {
    /// The messages of the groups that meet the fault, or of the others.
    pub(super) const fn side(&mut self, is_down: bool) -> &mut Side {
        if is_down { &mut self.down } else { &mut self.up }
    }

    pub(super) fn all(&self) -> Option<Delays> {
        Delays::of([&self.up.milliseconds[..], &self.down.milliseconds].concat())
    }

    pub(super) fn by_group(&self) -> ByGroup {
        let unprocessed = |side: &Side| side.sent.saturating_sub(side.milliseconds.len() as u64);
        ByGroup {
            up: Delays::of(self.up.milliseconds.clone()),
            down: Delays::of(self.down.milliseconds.clone()),
            up_unprocessed: unprocessed(&self.up),
            down_unprocessed: unprocessed(&self.down),
        }
    }
}

impl Delays {
    fn of(mut milliseconds: Vec<u64>) -> Option<Self> {
        milliseconds.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (milliseconds.len() * percent).div_ceil(100).checked_sub(1)?;
            Some(float(milliseconds[rank]) / 1000.0)
        };
        Some(Self { p50: percentile(50)?, p90: percentile(90)?, p99: percentile(99)?, max: percentile(100)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let hundred = (1..=100).rev().map(|second| second * 1000).collect();
        assert_eq!(Delays::of(hundred), Some(Delays { p50: 50.0, p90: 90.0, p99: 99.0, max: 100.0 }));
        let three = vec![3, 1, 2_500];
        assert_eq!(Delays::of(three), Some(Delays { p50: 0.003, p90: 2.5, p99: 2.5, max: 2.5 }));
        assert_eq!(Delays::of(Vec::new()), None);
    }

    #[test]
    fn the_delays_of_groups_that_are_down_are_told_from_those_of_the_others() {
        let mut log = DelayLog::default();
        *log.side(true) = Side { sent: 5, milliseconds: vec![7000; 3] };
        *log.side(false) = Side { sent: 4, milliseconds: vec![1000; 4] };
        let all = |seconds| Delays { p50: seconds, p90: seconds, p99: seconds, max: seconds };
        let by_group =
            ByGroup { up: Some(all(1.0)), down: Some(all(7.0)), up_unprocessed: 0, down_unprocessed: 2 };
        assert_eq!(log.by_group(), by_group);
        assert_eq!(log.all(), Some(Delays { p50: 1.0, ..all(7.0) }));
    }
}

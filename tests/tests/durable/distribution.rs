//! Distributions of delays in whole seconds: the documented ones, and those of samples.

use std::ops::Range;

use aws_durable_execution_sdk::builders::JitterStrategy;

/// A distribution of delays.
pub(crate) struct Distribution {
    /// The shortest delay.
    first: u32,
    /// The probability of a delay of at most `first` + index seconds. The last is 1.
    at_most: Vec<f64>,
}

impl Distribution {
    /// Creates redeliver's distribution: uniform over the whole seconds from half of the base (half jitter) or 0 (full
    /// jitter) to the base, both rounded up.
    pub(crate) fn for_redeliver(base: f64, jitter: JitterStrategy) -> Self {
        let last = whole_seconds(base.ceil());
        let first = if jitter == JitterStrategy::Half { last.div_ceil(2) } else { 0 };
        let width = last - first + 1;
        Self { first, at_most: (1..=width).map(|seconds| f64::from(seconds) / f64::from(width)).collect() }
    }

    /// Creates the SDK's distribution: a real number, uniform from half of the base to the base and rounded up (half
    /// jitter), or from 0 to the base and rounded to the nearest second, but at least 1 (full jitter).
    pub(crate) fn for_durable_sdk(base: f64, jitter: JitterStrategy) -> Self {
        let (low, up, first, last) = match jitter {
            JitterStrategy::Half => (base / 2.0, 0.0, (base / 2.0).ceil(), base.ceil()),
            _ => (0.0, 0.5, 1.0, base.round()),
        };
        let at_most = |delay| ((f64::from(delay) + up - low) / (base - low)).min(1.0);
        Self {
            first: whole_seconds(first),
            at_most: (whole_seconds(first)..=whole_seconds(last)).map(at_most).collect(),
        }
    }

    /// Creates the distribution of a sample.
    pub(crate) fn from_sample(sample: &[u32]) -> Self {
        let (first, last) = (sample.iter().min().unwrap(), sample.iter().max().unwrap());
        let mut counts = vec![0; (last - first + 1) as usize];
        sample.iter().for_each(|delay| counts[(delay - first) as usize] += 1);
        let mut below = 0;
        let at_most = counts.into_iter().map(|count| {
            below += count;
            f64::from(below) / f64::from(u32::try_from(sample.len()).unwrap())
        });
        Self { first: *first, at_most: at_most.collect() }
    }

    /// Returns the range of possible delays.
    pub(crate) fn range(&self) -> Range<u32> {
        self.first..self.first + u32::try_from(self.at_most.len()).unwrap()
    }

    /// Returns the probability of a delay.
    pub(crate) fn probability(&self, delay: u32) -> f64 {
        self.at_most(delay) - delay.checked_sub(1).map_or(0.0, |shorter| self.at_most(shorter))
    }

    /// Returns the Kolmogorov–Smirnov statistic: the maximum difference between the two cumulative distributions.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        let delays = [self.range(), other.range()].into_iter().flatten();
        delays.map(|delay| (self.at_most(delay) - other.at_most(delay)).abs()).fold(0.0, f64::max)
    }

    fn at_most(&self, delay: u32) -> f64 {
        let beyond = delay.checked_sub(self.first).map(|beyond| beyond as usize);
        beyond.map_or(0.0, |beyond| *self.at_most.get(beyond).unwrap_or(&1.0))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= seconds <= 43,200")]
fn whole_seconds(seconds: f64) -> u32 {
    seconds as u32
}

//! The durations of AWS operations and target calls, and the send times of producers.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::lock;

use crate::cost::CALL_SECONDS;
use crate::engine::Pollers;

/// Stream numbers for the seeded random generator. The lower streams draw the message ids and the order of the groups.
const SENDS_STREAM: u64 = 2;
const CALLS_STREAM: u64 = 3;

/// The durations of AWS operations and target calls. The default is the model of `redeliver simulate`; tests of exact
/// figures use different durations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelTimes {
    /// The time from a receive that returns messages until the function is invoked with them. "Typical latencies for
    /// SendMessage, ReceiveMessage, and DeleteMessage API requests are in the tens or low hundreds of milliseconds"
    /// (Amazon SQS FAQs).
    pub(super) receive: Duration,
    /// The duration of a request from a function to SQS: the same latency, plus 5 ms of the function's own work at a
    /// seventh of a core (256 MB).
    pub(super) request: Duration,
    /// The start time of an environment: the function's own 7.5 ms (docs/performance.md) plus Lambda's share, for which
    /// AWS publishes no figure. Firecracker boots in about 125 ms ("Firecracker: Lightweight Virtualization for
    /// Serverless Applications"). All of it counts as billed, although Lambda bills only the init phase; this
    /// overestimates the cost by a few cents per million.
    pub(super) cold_start: Duration,
    /// The mean duration of a call that the target answers, including calls that fail at random.
    pub(super) answer: Duration,
    /// The mean duration of a call that is rejected, or for which the load balancer has no healthy target: one round
    /// trip.
    pub(super) refusal: Duration,
    /// The standard deviation of the logarithm of the durations. At 0.5, one call in a hundred takes three times the
    /// median, as is typical of a healthy web service.
    pub(super) spread: f64,
    pub(super) is_random: bool,
    pub(super) has_growing_pollers: bool,
}

impl Default for ModelTimes {
    fn default() -> Self {
        Self {
            receive: Duration::from_millis(20),
            request: Duration::from_millis(25),
            cold_start: Duration::from_millis(150),
            answer: Duration::from_secs_f64(CALL_SECONDS),
            refusal: Duration::from_millis(20),
            spread: 0.5,
            is_random: true,
            has_growing_pollers: true,
        }
    }
}

impl ModelTimes {
    /// A model in which nothing takes time, all pollers exist from the start, and sends happen at whole seconds.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        receive: Duration::ZERO,
        request: Duration::ZERO,
        cold_start: Duration::ZERO,
        answer: Duration::ZERO,
        refusal: Duration::ZERO,
        spread: 0.0,
        is_random: false,
        has_growing_pollers: false,
    };

    pub(super) fn build_pollers(&self, most: u16) -> Pollers {
        if self.has_growing_pollers {
            Pollers::for_lambda(most, self.receive)
        } else {
            Pollers::constant(most)
        }
    }

    /// Returns the send times in order. They are random and uniformly distributed over the span, in microseconds.
    pub(super) fn send_times(&self, messages: u64, over: Duration, seed: u64) -> Vec<Duration> {
        if !self.is_random {
            let second = |number| number * over.as_secs() / messages;
            return (0..messages).map(|number| Duration::from_secs(second(number))).collect();
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(SENDS_STREAM);
        let micros = over.as_micros();
        let draw = |_| Duration::from_micros(scale_random(random.next_u64(), micros));
        let mut sends: Vec<_> = (0..messages).map(draw).collect();
        sends.sort_unstable();
        sends
    }
}

/// Returns a number in `0..below`, computed from 64 random bits.
fn scale_random(random: u64, below: u128) -> u64 {
    u64::try_from((u128::from(random) * below) >> 64).unwrap_or(u64::MAX)
}

/// The durations of calls. The n-th call for a message takes the same time in every run, regardless of the policy.
#[derive(Debug)]
pub(super) struct CallTimes {
    times: ModelTimes,
    seed: u64,
    /// The number of calls made for each message so far.
    calls: Mutex<HashMap<u64, u32>>,
}

impl CallTimes {
    pub(super) fn new(times: ModelTimes, seed: u64) -> Self {
        Self { times, seed, calls: Mutex::default() }
    }

    /// Returns the duration of a message's next call, given the mean. The logarithm of the duration is nearly normal:
    /// it is the sum of four draws, so that no call takes longer than five times the mean.
    pub(super) fn next_duration(&self, message: u64, mean: Duration) -> Duration {
        if mean.is_zero() || self.times.spread == 0.0 {
            return mean;
        }
        let call = {
            let mut calls = lock(&self.calls);
            let call = calls.entry(message).or_default();
            *call += 1;
            u128::from(*call)
        };
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(CALLS_STREAM + message);
        random.set_word_pos(4 * call);
        // The variance of a draw is a twelfth of the square of its width.
        let width = self.times.spread * 3_f64.sqrt();
        let sum: f64 = (0..4).map(|_| f64::from(random.next_u32()) / f64::from(u32::MAX) - 0.5).sum();
        // The mean of the exponential of a sum is the product of the means.
        let mean_factor = ((width / 2.0).sinh() / (width / 2.0)).powi(4);
        mean.mul_f64((width * sum).exp() / mean_factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(300);

    /// Sends at whole seconds would lead to full batches, and to results that no deployment achieves.
    #[test]
    fn sends_are_at_random_times_in_order() {
        let sends = |seed| ModelTimes::default().send_times(1000, Duration::from_secs(100), seed);
        assert!(sends(0).is_sorted() && sends(0) == sends(0) && sends(0) != sends(1));
        assert_eq!(sends(0)[..3], [239_606, 264_733, 354_530].map(Duration::from_micros));
        let in_first_half = sends(0).iter().filter(|at| at.as_secs() < 50).count();
        assert_eq!(in_first_half, 472);
        let times = ModelTimes { is_random: false, ..ModelTimes::default() };
        assert_eq!(times.send_times(3, Duration::from_secs(7), 0), [0, 2, 4].map(Duration::from_secs));
    }

    #[test]
    fn call_times_have_the_given_mean_and_a_long_tail() {
        let calls = CallTimes::new(ModelTimes::default(), 0);
        let mut times: Vec<_> =
            (0..10_000).map(|message| calls.next_duration(message, MEAN).as_millis()).collect();
        times.sort_unstable();
        let mean = times.iter().sum::<u128>() / 10_000;
        let percentiles = [0, 5_000, 9_000, 9_900, 9_999].map(|rank| times[rank]);
        assert_eq!((mean, percentiles), (297, [58, 265, 499, 819, 1338]));
    }

    #[test]
    fn call_times_do_not_depend_on_earlier_calls() {
        let [one, other] = [(); 2].map(|()| CallTimes::new(ModelTimes::default(), 7));
        let first = one.next_duration(1, MEAN);
        other.next_duration(2, MEAN);
        assert_eq!(other.next_duration(1, MEAN), first);
        assert_ne!(one.next_duration(1, MEAN), first, "the second call has its own duration");
    }
}

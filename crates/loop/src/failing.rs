//! The built-in target: it fails as it is told to, the same way for the same seed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::handler::{HandlerError, Message};

/// A target that fails by chance. Each answer depends on the seed, the message, its generation, its attempt and how often
/// that has failed: a probe of the circuit breaker spends no attempt, and has a chance of its own.
#[derive(Debug)]
pub struct Failing {
    rate: f64,
    first: u32,
    permanently: f64,
    seed: u64,
    /// Of each message, by the hash of its id, the attempt that failed last, and how often.
    failed: Mutex<HashMap<u64, (Attempt, u32)>>,
}

/// Redrives, and retries since the last one.
type Attempt = (u32, u32);

impl Failing {
    /// Each call fails with the chance `rate`, 0 to 1, the `first` attempts of each message anyway, and with the chance
    /// `permanently` a message fails for good.
    #[must_use]
    pub fn new(rate: f64, first: u32, permanently: f64, seed: u64) -> Self {
        Self { rate, first, permanently, seed, failed: Mutex::default() }
    }

    /// What it answers to this call.
    ///
    /// # Errors
    /// As it is told to.
    pub fn answer(&self, message: &Message) -> Result<(), HandlerError> {
        if self.draw(message, 0, 0) < self.permanently {
            return Err(HandlerError::permanent(
                "Simulated.Permanent",
                "the built-in target fails this message for good",
            ));
        }
        let attempt = (message.redrive_generation, message.retry_attempt);
        let mut hasher = DefaultHasher::new();
        message.message_id.hash(&mut hasher);
        let id = hasher.finish();
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let last = failed.get(&id).filter(|(last, _)| *last == attempt);
        let times = last.map_or(0, |(_, times)| *times);
        let number = message.retry_attempt + 1;
        if self.draw(message, number, times) < self.rate || message.retry_attempt < self.first {
            failed.insert(id, (attempt, times + 1));
            return Err(HandlerError::transient(
                "Simulated.Transient",
                format_args!("the built-in target fails attempt {number}"),
            ));
        }
        Ok(())
    }

    /// A number in 0..1, the same for the same key; draw 0 is the message's own, the others its attempts'.
    fn draw(&self, message: &Message, draw: u32, times: u32) -> f64 {
        let mut key = [0; 32];
        for (place, byte) in key.iter_mut().zip(message.message_id.bytes().filter(|byte| *byte != b'-')) {
            *place = byte.to_ascii_lowercase();
        }
        // 32 hexadecimal digits fill the key; the rest goes into the stream number and the start.
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(self.seed);
        let attempt = u128::from(message.redrive_generation) * 2048 + u128::from(draw);
        generator.set_word_pos(2 * ((u128::from(times) << 24) + attempt));
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds exactly")]
        let draw = (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        draw
    }
}

#[cfg(test)]
mod tests {
    use redeliver_core::handler::Form;
    use redeliver_core::message::Attributes;

    use super::*;

    fn message(n: u32, (redrive_generation, retry_attempt): Attempt) -> Message {
        Message {
            body: String::new(),
            message_id: format!("00000000-0000-4000-8000-{n:012}"),
            form: Form::Envelope,
            retry_attempt,
            redrive_generation,
            attributes: Attributes::new(),
        }
    }

    /// Which of 1,000 messages fail at this attempt.
    fn failures(failing: &Failing, attempt: Attempt) -> Vec<u32> {
        (0..1000).filter(|n| failing.answer(&message(*n, attempt)).is_err()).collect()
    }

    /// Whether a count is what chance brings.
    fn is_about(count: usize, expected: usize) -> bool {
        count.abs_diff(expected) < 60
    }

    #[test]
    fn each_attempt_has_a_chance_of_its_own_and_the_same_in_each_run() {
        let [one, other] = [(); 2].map(|()| Failing::new(0.5, 0, 0.0, 7));
        let attempts = [(0, 0), (0, 1), (1, 0)];
        let [first, second, redriven] = attempts.map(|attempt| failures(&one, attempt));
        assert_eq!(
            [&first, &second, &redriven],
            attempts.map(|attempt| failures(&other, attempt)).each_ref()
        );
        for others in [second, redriven] {
            let both = first.iter().filter(|n| others.contains(n)).count();
            assert!(
                is_about(first.len(), 500) && is_about(others.len(), 500) && is_about(both, 250),
                "{both}"
            );
        }
    }

    #[test]
    fn a_probe_has_a_chance_of_its_own_and_what_came_through_comes_through_again() {
        let failing = Failing::new(0.5, 0, 0.0, 7);
        let [first, second, third] = [(); 3].map(|()| failures(&failing, (0, 0)));
        assert!(second.iter().all(|n| first.contains(n)) && third.iter().all(|n| second.contains(n)));
        let counts = [first.len(), second.len(), third.len()];
        assert!(
            counts.into_iter().zip([500, 250, 125]).all(|(count, expected)| is_about(count, expected)),
            "{counts:?}"
        );
    }
}

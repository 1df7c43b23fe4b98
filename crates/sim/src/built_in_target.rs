//! The built-in target: it fails as it is told to, the same way for the same seed.

use std::collections::HashMap;
use std::sync::Mutex;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::handler::{HandlerError, Message};

use crate::sync::lock;
use crate::tracker::hash_of;

/// A target that fails by chance. Each answer depends on the seed, the message, its generation, its attempt and how often
/// that has failed: a probe of the circuit breaker spends no attempt, and has a chance of its own.
#[derive(Debug)]
pub struct Failing {
    chances: Chances,
    /// Of each message, by a hash, the attempt that failed last, and how often: 24 bytes a message, however long its id.
    failed: Mutex<HashMap<u64, (Attempt, u32)>>,
}

/// What fails. By default nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chances {
    /// The chance that a call fails, 0 to 1.
    pub rate: f64,
    /// So many first attempts of each message fail anyway.
    pub first: u32,
    /// The chance that a message fails for good, 0 to 1.
    pub permanently: f64,
    /// The same seed fails the same calls.
    pub seed: u64,
}

/// Redrives, and retries since the last one.
type Attempt = (u32, u32);

impl Failing {
    /// A target that no message has failed at yet.
    #[must_use]
    pub fn new(chances: Chances) -> Self {
        Self { chances, failed: Mutex::default() }
    }

    /// What it answers to this call.
    ///
    /// # Errors
    /// As it is told to.
    pub fn answer(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let Chances { rate, first, permanently, .. } = self.chances;
        if self.draw(message, 0, 0) < permanently {
            return Err(HandlerError::permanent(
                "Simulated.Permanent",
                "the built-in target fails this message for good",
            ));
        }
        let attempt = (message.redrive_generation, message.retry_attempt);
        let id = hash_of(message.message_id);
        let mut failed = lock(&self.failed);
        let last = failed.get(&id).filter(|(last, _)| *last == attempt);
        let times = last.map_or(0, |(_, times)| *times);
        let number = message.retry_attempt + 1;
        if self.draw(message, number, times) < rate || message.retry_attempt < first {
            failed.insert(id, (attempt, times + 1));
            return Err(HandlerError::transient(
                "Simulated.Transient",
                format_args!("the built-in target fails attempt {number}"),
            ));
        }
        Ok(())
    }

    /// A number in 0..1, the same for the same key; draw 0 is the message's own, the others its attempts'.
    fn draw(&self, message: &Message<'_>, draw: u32, times: u32) -> f64 {
        let mut key = [0; 32];
        for (place, byte) in key.iter_mut().zip(message.message_id.bytes().filter(|byte| *byte != b'-')) {
            *place = byte.to_ascii_lowercase();
        }
        // 32 hexadecimal digits fill the key; the rest goes into the stream number and the start.
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(self.chances.seed);
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

    /// Which of 1,000 messages fail at this attempt.
    fn failures(failing: &Failing, attempt: Attempt) -> Vec<u32> {
        let (redrive_generation, retry_attempt) = attempt;
        let fails = |n: &u32| {
            let message_id = &format!("00000000-0000-4000-8000-{n:012}");
            let (form, attributes) = (&Form::Envelope, &Attributes::new());
            let message =
                Message { body: "", message_id, form, retry_attempt, redrive_generation, attributes };
            failing.answer(&message).is_err()
        };
        (0..1000).filter(fails).collect()
    }

    const HALF: Chances = Chances { rate: 0.5, first: 0, permanently: 0.0, seed: 7 };

    #[test]
    fn each_attempt_has_a_chance_of_its_own_and_the_same_in_each_run() {
        let [one, other] = [(); 2].map(|()| Failing::new(HALF));
        let attempts = [(0, 0), (0, 1), (1, 0)];
        let [first, second, redriven] = attempts.map(|attempt| failures(&one, attempt));
        assert_eq!(
            [&first, &second, &redriven],
            attempts.map(|attempt| failures(&other, attempt)).each_ref()
        );
        let in_first_too = |others: &[u32]| first.iter().filter(|n| others.contains(n)).count();
        assert_eq!([&first, &second, &redriven].map(Vec::len), [505, 501, 479]);
        assert_eq!([&second, &redriven].map(|others| in_first_too(others)), [246, 226]);
    }

    #[test]
    fn who_fails_for_good_fails_at_each_attempt() {
        let failing = Failing::new(Chances { permanently: 0.5, seed: 7, ..Chances::default() });
        let [first, second, third] = [(0, 0), (0, 1), (0, 2)].map(|attempt| failures(&failing, attempt));
        assert!(first == second && first == third);
        assert_eq!(first.len(), 499);
    }

    #[test]
    fn a_probe_has_a_chance_of_its_own_and_what_came_through_comes_through_again() {
        let failing = Failing::new(HALF);
        let [first, second, third] = [(); 3].map(|()| failures(&failing, (0, 0)));
        assert!(second.iter().all(|n| first.contains(n)) && third.iter().all(|n| second.contains(n)));
        assert_eq!([first, second, third].map(|failed| failed.len()), [505, 253, 132]);
    }
}

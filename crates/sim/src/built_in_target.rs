//! The built-in target, which fails at random but reproducibly for a given seed.

use std::collections::HashMap;
use std::sync::Mutex;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::handler::{HandlerError, Message};

use crate::tracker::hash_text;
use redeliver_core::lock;

/// A target that fails at random. A response depends on the seed, the message, its generation, its attempt, and the
/// number of failures for that attempt: a probe by the circuit breaker spends no attempt, so it needs a separate draw.
#[derive(Debug)]
pub struct BuiltInTarget {
    failures: FailureChances,
    /// The last failed attempt of each message and its number of failures, keyed by a hash of the message id: 24 bytes
    /// per message, regardless of the id's length.
    failed: Mutex<HashMap<u64, (AttemptKey, u32)>>,
}

/// The calls that fail; none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureChances {
    /// The probability that a call fails, 0 to 1.
    pub rate: f64,
    /// For each message, the number of initial attempts that fail.
    pub first: u32,
    /// The probability that a message fails permanently, 0 to 1.
    pub permanently: f64,
    pub seed: u64,
}

/// The number of redrives, and the number of retries since the last redrive.
type AttemptKey = (u32, u32);

impl BuiltInTarget {
    #[must_use]
    pub fn new(failures: FailureChances) -> Self {
        Self { failures, failed: Mutex::default() }
    }

    /// Responds to a call, with the same result for the same seed, message, attempt and number of earlier failures.
    ///
    /// # Errors
    /// `Simulated.Permanent` or `Simulated.Transient`, according to [`FailureChances`].
    pub fn respond_to_call(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let FailureChances { rate, first, permanently, .. } = self.failures;
        if self.draw_number(message, 0, 0) < permanently {
            return Err(HandlerError::permanent(
                "Simulated.Permanent",
                "the built-in target fails this message permanently",
            ));
        }
        let attempt = (message.redrive_generation, message.retry_attempt);
        let id = hash_text(message.message_id);
        let mut failed = lock(&self.failed);
        let last = failed.get(&id).filter(|(last, _)| *last == attempt);
        let times = last.map_or(0, |(_, times)| *times);
        let number = message.retry_attempt + 1;
        if self.draw_number(message, number, times) < rate || message.retry_attempt < first {
            failed.insert(id, (attempt, times + 1));
            return Err(HandlerError::transient(
                "Simulated.Transient",
                format_args!("the built-in target fails attempt {number}"),
            ));
        }
        Ok(())
    }

    /// Returns a number in 0..1, always the same for the same arguments. Draw 0 is for the message; later draws are for
    /// its attempts.
    fn draw_number(&self, message: &Message<'_>, draw: u32, times: u32) -> f64 {
        let mut key = [0; 32];
        for (place, byte) in key.iter_mut().zip(message.message_id.bytes().filter(|byte| *byte != b'-')) {
            *place = byte.to_ascii_lowercase();
        }
        // The 32 hexadecimal digits of the id fill the key; the other values select the stream and the word position.
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(self.failures.seed);
        let attempt = u128::from(message.redrive_generation) * 2048 + u128::from(draw);
        generator.set_word_pos(2 * ((u128::from(times) << 24) + attempt));
        #[expect(clippy::cast_precision_loss, reason = "an f64 holds 53 bits exactly")]
        let draw = (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        draw
    }
}

#[cfg(test)]
mod tests {
    use redeliver_core::handler::BodyForm;
    use redeliver_core::message::Attributes;

    use super::*;

    /// Returns the messages, out of 1,000, that fail on this attempt.
    fn failures(target: &BuiltInTarget, attempt: AttemptKey) -> Vec<u32> {
        let (redrive_generation, retry_attempt) = attempt;
        let fails = |n: &u32| {
            let message_id = &format!("00000000-0000-4000-8000-{n:012}");
            let (form, attributes) = (&BodyForm::Envelope, &Attributes::new());
            let message = Message {
                body: "",
                message_id,
                form,
                retry_attempt,
                redrive_generation,
                held_seconds: 0,
                attributes,
            };
            target.respond_to_call(&message).is_err()
        };
        (0..1000).filter(fails).collect()
    }

    const HALF: FailureChances = FailureChances { rate: 0.5, first: 0, permanently: 0.0, seed: 7 };

    #[test]
    fn attempts_fail_independently_but_identically_in_every_run() {
        let [one, other] = [(); 2].map(|()| BuiltInTarget::new(HALF));
        let attempts = [(0, 0), (0, 1), (1, 0)];
        let [first, second, redriven] = attempts.map(|attempt| failures(&one, attempt));
        assert_eq!(
            [&first, &second, &redriven],
            attempts.map(|attempt| failures(&other, attempt)).each_ref()
        );
        let also_in_first = |others: &[u32]| first.iter().filter(|n| others.contains(n)).count();
        assert_eq!([&first, &second, &redriven].map(Vec::len), [505, 501, 479]);
        assert_eq!([&second, &redriven].map(|others| also_in_first(others)), [246, 226]);
    }

    #[test]
    fn a_permanently_failing_message_fails_on_every_attempt() {
        let target =
            BuiltInTarget::new(FailureChances { permanently: 0.5, seed: 7, ..FailureChances::default() });
        let [first, second, third] = [(0, 0), (0, 1), (0, 2)].map(|attempt| failures(&target, attempt));
        assert!(first == second && first == third);
        assert_eq!(first.len(), 499);
    }

    #[test]
    fn repeated_calls_fail_independently_until_one_succeeds() {
        let target = BuiltInTarget::new(HALF);
        let [first, second, third] = [(); 3].map(|()| failures(&target, (0, 0)));
        assert!(second.iter().all(|n| first.contains(n)) && third.iter().all(|n| second.contains(n)));
        assert_eq!([first, second, third].map(|failed| failed.len()), [505, 253, 132]);
    }
}

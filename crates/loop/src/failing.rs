//! The built-in target: it fails as it is told to, the same way for the same seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::handler::{HandlerError, Message};

/// How the built-in target fails. Each answer depends on the seed, the message, its generation, its attempt and the number
/// of the attempt's call alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Failing {
    /// Chance of a transient failure of each attempt.
    pub rate: f64,
    /// Attempts of each message that fail at first.
    pub first: u32,
    /// Chance that a message fails for good.
    pub permanently: f64,
    /// What the chances are keyed by.
    pub seed: u64,
}

impl Failing {
    /// What it answers to an attempt that was called so many times before: a probe of the circuit breaker spends none.
    ///
    /// # Errors
    /// As it is told to.
    pub fn answer(&self, message: &Message, calls_before: u32) -> Result<(), HandlerError> {
        if self.draw(message, 0, 0) < self.permanently {
            return Err(HandlerError::permanent(
                "Simulated.Permanent",
                "the built-in target fails this message for good",
            ));
        }
        let attempt = message.retry_attempt + 1;
        let by_chance = self.draw(message, attempt, calls_before) < self.rate;
        if by_chance || message.retry_attempt < self.first {
            return Err(HandlerError::transient(
                "Simulated.Transient",
                format_args!("the built-in target fails attempt {attempt}"),
            ));
        }
        Ok(())
    }

    /// A number in 0..1, the same for the same key; draw 0 is the message's own, the others its attempts'.
    fn draw(&self, message: &Message, draw: u32, calls_before: u32) -> f64 {
        let mut key = [0; 32];
        for (place, byte) in key.iter_mut().zip(message.message_id.bytes().filter(|byte| *byte != b'-')) {
            *place = byte.to_ascii_lowercase();
        }
        // 32 hexadecimal digits fill the key; the rest goes into the stream number and the start.
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(self.seed);
        let attempt = u128::from(message.redrive_generation) * 2048 + u128::from(draw);
        generator.set_word_pos(2 * ((u128::from(calls_before) << 24) + attempt));
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

    /// Which of 1,000 messages fail by an even chance if their attempt was called so often before.
    fn failures(calls_before: u32) -> Vec<u32> {
        let failing = Failing { rate: 0.5, seed: 7, ..Failing::default() };
        let message = |n: u32| Message {
            body: String::new(),
            message_id: format!("00000000-0000-4000-8000-{n:012}"),
            form: Form::Envelope,
            retry_attempt: 0,
            redrive_generation: 0,
            attributes: Attributes::new(),
        };
        (0..1000).filter(|n| failing.answer(&message(*n), calls_before).is_err()).collect()
    }

    #[test]
    fn each_call_of_an_attempt_has_a_chance_of_its_own() {
        assert_eq!(failures(0), failures(0));
        let [first, second] = [failures(0), failures(1)];
        let both = first.iter().filter(|n| second.contains(n)).count();
        for (count, expected) in [(first.len(), 500), (second.len(), 500), (both, 250)] {
            assert!(count.abs_diff(expected) < 60, "{count} of about {expected}");
        }
    }
}

//! The built-in target: it fails as it is told to, the same way for the same seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::handler::{HandlerError, Message};

/// How the built-in target fails. Each answer depends on the seed, the message, its generation and its attempt alone.
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
    /// What it answers.
    ///
    /// # Errors
    /// As it is told to.
    pub fn answer(&self, message: &Message) -> Result<(), HandlerError> {
        if self.draw(message, 0) < self.permanently {
            return Err(HandlerError::permanent(
                "Simulated.Permanent",
                "the built-in target fails this message for good",
            ));
        }
        let attempt = message.retry_attempt + 1;
        let by_chance = self.draw(message, attempt) < self.rate;
        if by_chance || message.retry_attempt < self.first {
            return Err(HandlerError::transient(
                "Simulated.Transient",
                format_args!("the built-in target fails attempt {attempt}"),
            ));
        }
        Ok(())
    }

    /// A number in 0..1, the same for the same key; draw 0 is the message's own, the others its attempts'.
    fn draw(&self, message: &Message, draw: u32) -> f64 {
        let mut key = [0; 32];
        for (place, byte) in key.iter_mut().zip(message.message_id.bytes().filter(|byte| *byte != b'-')) {
            *place = byte.to_ascii_lowercase();
        }
        // 32 hexadecimal digits fill the key; the rest goes into the stream number and the start.
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(self.seed);
        generator.set_word_pos(2 * (u128::from(message.redrive_generation) * 2048 + u128::from(draw)));
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds exactly")]
        let draw = (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        draw
    }
}

//! Each key's share of a limited rate, by max-min fairness. A key that uses more than an equal share must leave one
//! token for the other keys. It may use any tokens that they leave unused.

use super::CircuitKey;
use super::moment::Moment;

/// Only the heaviest users are tracked: all other keys are below an equal share.
const KEYS_MAX: usize = 64;
/// Half-life of a call's weight.
const HALVED_SECONDS: f32 = 10.0;

/// Recent calls by key, while the target's rate is limited.
#[derive(Clone, Debug, Default)]
pub(super) struct RateShares {
    calls: Vec<(Option<CircuitKey>, f32)>,
    halved_at: Option<Moment>,
}

impl RateShares {
    /// Returns true if several keys share the rate and this key uses more than an equal share.
    pub(super) fn exceeds_share(&mut self, key: Option<CircuitKey>, now: Moment) -> bool {
        self.decay_weights(now);
        let mut total = 0.0;
        let mut own_calls = 0.0;
        for (other, calls) in &self.calls {
            total += calls;
            if *other == key {
                own_calls = *calls;
            }
        }
        let keys = f32::from(u8::try_from(self.calls.len()).unwrap_or(u8::MAX));
        own_calls * keys > total
    }

    /// Counts the key as a user of the rate, because one of its messages requests a call.
    pub(super) fn add_user(&mut self, key: Option<CircuitKey>) {
        if self.calls.iter().any(|(other, _)| *other == key) {
            return;
        }
        if self.calls.len() >= KEYS_MAX {
            let lightest =
                self.calls.iter().enumerate().min_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other));
            if let Some((index, _)) = lightest {
                self.calls.swap_remove(index);
            }
        }
        self.calls.push((key, 0.0));
    }

    pub(super) fn count_call(&mut self, key: Option<CircuitKey>) {
        if let Some((_, calls)) = self.calls.iter_mut().find(|(other, _)| *other == key) {
            *calls += 1.0;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    fn decay_weights(&mut self, now: Moment) {
        let halved_at = *self.halved_at.get_or_insert(now);
        let seconds = halved_at.seconds_until(now);
        if seconds >= HALVED_SECONDS {
            let factor = 0.5_f32.powf((seconds / HALVED_SECONDS).floor());
            self.calls.iter_mut().for_each(|(_, calls)| *calls *= factor);
            self.calls.retain(|(_, calls)| *calls >= 0.1);
            self.halved_at = Some(now);
        }
    }
}

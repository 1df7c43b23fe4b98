//! All chance of a soak: each decision has a generator of its own, made from the seed and from what is decided.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The dice of one seed. The order in which decisions are asked for does not matter.
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    seed: u64,
}

impl Dice {
    /// The dice of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The generator for one decision.
    #[must_use]
    pub fn roll(self, what: impl Hash) -> StdRng {
        let mut hasher = DefaultHasher::new();
        (self.seed, what).hash(&mut hasher);
        StdRng::seed_from_u64(hasher.finish())
    }

    /// Whether something happens that happens so many times in a thousand.
    #[must_use]
    pub fn per_mille(self, what: impl Hash, chance: u32) -> bool {
        self.roll(what).random_range(0..1000) < chance
    }
}

/// One of several, each as often as its weight says.
///
/// # Panics
/// If there is none with a weight.
pub fn pick<T: Copy>(dice: &mut StdRng, choices: &[(u32, T)]) -> T {
    let mut place = dice.random_range(0..choices.iter().map(|(weight, _)| weight).sum());
    for (weight, choice) in choices {
        match place.checked_sub(*weight) {
            Some(rest) => place = rest,
            None => return *choice,
        }
    }
    unreachable!("a place is below the sum of the weights")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_depends_on_the_seed_and_on_what_is_decided_alone() {
        let number = |seed, what| Dice::new(seed).roll(what).random::<u64>();
        assert_eq!(number(1, ("a", 1)), number(1, ("a", 1)));
        assert_ne!(number(1, ("a", 1)), number(2, ("a", 1)));
        assert_ne!(number(1, ("a", 1)), number(1, ("a", 2)));
    }

    #[test]
    fn weights_are_kept_and_what_has_none_is_never_picked() {
        let mut dice = Dice::new(7).roll(0);
        let mut counts = [0; 3];
        for _ in 0..3000 {
            counts[pick(&mut dice, &[(2, 0), (0, 1), (1, 2)])] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((1850..2150).contains(&counts[0]), "{counts:?}");
    }
}

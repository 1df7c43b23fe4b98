//! The circuits of keys with an outage or a refusal. Their number is limited because producers choose the keys.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;

use super::circuit::Circuit;
use super::moment::Moment;

/// Maximum number of circuits, which use less than 1 MiB in total. When it is exceeded, the least recently used
/// circuits are dropped.
const KEYS_MAX: usize = 10_000;
/// Number of circuits dropped together, so that not every message causes a search for the oldest circuits. The memory
/// for circuits grows in steps of the same size.
const KEYS_DROPPED: usize = KEYS_MAX / 10;

/// The key of a message's circuit: by default its `MessageGroupId`, which on a standard queue identifies the tenant
/// ("Amazon SQS fair queues").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CircuitKey(NonZeroU64);

impl CircuitKey {
    /// Hashes a producer's string to a 64-bit key, so that circuits do not store the string itself.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }
}

/// Circuits, sorted by key. A map would use twice the memory.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyCircuits(Vec<KeyEntry>);

#[derive(Clone, Debug)]
struct KeyEntry {
    key: Option<CircuitKey>,
    seen_at: Moment,
    circuit: Circuit,
}

impl KeyCircuits {
    pub(super) fn get(&self, key: Option<CircuitKey>) -> Option<&Circuit> {
        self.find_index(key).ok().map(|index| &self.0[index].circuit)
    }

    pub(super) fn get_mut(&mut self, key: Option<CircuitKey>, now: Moment) -> Option<&mut Circuit> {
        self.find_index(key).ok().map(|index| self.mark_seen(index, now))
    }

    /// Returns the key's circuit. A new circuit is closed.
    pub(super) fn get_or_insert(
        &mut self,
        key: Option<CircuitKey>,
        target: &Circuit,
        now: Moment,
    ) -> &mut Circuit {
        if self.0.len() >= KEYS_MAX && self.find_index(key).is_err() {
            self.drop_oldest();
        }
        let index = self.find_index(key).unwrap_or_else(|index| {
            if self.0.len() == self.0.capacity() && self.0.len() >= KEYS_DROPPED {
                self.0.reserve_exact(KEYS_DROPPED);
            }
            self.0.insert(index, KeyEntry { key, seen_at: now, circuit: Circuit::for_key(target) });
            index
        });
        self.mark_seen(index, now)
    }

    /// Closes all circuits.
    pub(super) fn close_all(&mut self, change: u32) {
        self.0.iter_mut().for_each(|entry| entry.circuit.close(change));
    }

    /// Returns the key's index, or the index at which to insert it.
    fn find_index(&self, key: Option<CircuitKey>) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |entry| entry.key)
    }

    fn mark_seen(&mut self, index: usize, now: Moment) -> &mut Circuit {
        let entry = &mut self.0[index];
        entry.seen_at = now;
        &mut entry.circuit
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.0.capacity() * size_of::<KeyEntry>()
    }

    fn drop_oldest(&mut self) {
        let mut seen: Vec<_> = self.0.iter().map(|entry| entry.seen_at).collect();
        let (_, limit, _) = seen.select_nth_unstable(KEYS_DROPPED);
        let limit = *limit;
        self.0.retain(|entry| entry.seen_at >= limit);
        // If all circuits were last used at the same moment, none has been removed yet.
        self.0.truncate(KEYS_MAX - 1);
    }
}

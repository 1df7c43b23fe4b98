//! The circuits of keys that met trouble. Bounded: a producer chooses the keys.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::circuit::Circuit;
use super::moment::Moment;

/// At most this many circuits, of a hundred bytes each; the least recently seen ones go.
const KEYS_MAX: usize = 10_000;
/// Circuits dropped at once, so that each message need not look for the oldest.
const KEYS_DROPPED: usize = KEYS_MAX / 10;

/// The key of a message's circuit: by default its `MessageGroupId`, the tenant of a standard queue ("Amazon SQS fair
/// queues").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

impl Key {
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(hasher.finish())
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Keys(BTreeMap<Option<Key>, Entry>);

#[derive(Clone, Debug)]
struct Entry {
    seen_at: Moment,
    circuit: Circuit,
}

impl Keys {
    pub(super) fn get(&self, key: Option<Key>) -> Option<&Circuit> {
        self.0.get(&key).map(|entry| &entry.circuit)
    }

    pub(super) fn get_mut(&mut self, key: Option<Key>, now: Moment) -> Option<&mut Circuit> {
        self.0.get_mut(&key).map(|entry| {
            entry.seen_at = now;
            &mut entry.circuit
        })
    }

    /// The key's circuit, closed at first.
    pub(super) fn entry(&mut self, key: Option<Key>, now: Moment) -> &mut Circuit {
        if self.0.len() >= KEYS_MAX && !self.0.contains_key(&key) {
            self.drop_oldest();
        }
        let entry = self.0.entry(key).or_insert(Entry { seen_at: now, circuit: Circuit::default() });
        entry.seen_at = now;
        &mut entry.circuit
    }

    pub(super) fn close_all(&mut self, change: u32) {
        self.0.values_mut().for_each(|entry| entry.circuit.close(change));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn drop_oldest(&mut self) {
        let mut seen: Vec<_> = self.0.values().map(|entry| entry.seen_at).collect();
        let (_, limit, _) = seen.select_nth_unstable(KEYS_DROPPED);
        let limit = *limit;
        self.0.retain(|_, entry| entry.seen_at >= limit);
        // All were seen at the same moment.
        while self.0.len() >= KEYS_MAX {
            self.0.pop_first();
        }
    }
}

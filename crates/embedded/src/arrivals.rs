//! Who waits for something to happen in a queue.

use std::collections::BTreeMap;
use std::task::Waker;

/// Long polls that wait; each is woken once per arrival, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    count: u64,
    waiting: BTreeMap<u64, Waker>,
    next_ticket: u64,
}

impl Arrivals {
    /// How many arrivals there have been.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Something arrived: who is to be woken, once no lock is held.
    #[must_use]
    pub(crate) fn announce(&mut self) -> Vec<Waker> {
        self.count += 1;
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// Waits under `ticket`, or under a new one; the ticket.
    pub(crate) fn wait(&mut self, ticket: Option<u64>, waker: &Waker) -> u64 {
        let ticket = ticket.unwrap_or_else(|| {
            self.next_ticket += 1;
            self.next_ticket
        });
        self.waiting.insert(ticket, waker.clone());
        ticket
    }

    pub(crate) fn leave(&mut self, ticket: u64) {
        self.waiting.remove(&ticket);
    }
}

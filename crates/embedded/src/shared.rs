//! What a service and its queues share: the time and the state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::clock::VirtualClock;
use crate::state::State;

#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) clock: VirtualClock,
    state: Arc<Mutex<State>>,
}

impl Shared {
    pub(crate) fn new(clock: VirtualClock, seed: u64) -> Self {
        Self { clock, state: Arc::new(Mutex::new(State::new(seed))) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code of others runs under the lock, so a panic elsewhere leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `request` on the state, then wakes whom it concerns, with the lock released.
    pub(crate) fn request<T>(&self, request: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let answer = request(&mut state);
        let woken = state.take_woken();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        answer
    }
}

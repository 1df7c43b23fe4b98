//! Writes the history down while it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::history::{Answer, Call, Content, Delivery, History, Invocation, Key, Send, Stage};
use super::messages::{Fate, Sent};

/// What the soak's parts share: the history so far, who works on what, and whether there is fire.
#[derive(Debug)]
pub struct Recorder {
    state: Mutex<State>,
    burning: AtomicBool,
    /// Requests that are on their way through the proxy or in the target.
    under_way: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    /// When each invocation began, and how long its function may take.
    invocations: Vec<(Instant, Duration)>,
    /// The last batches of each mapping, newest last.
    batches: BTreeMap<usize, Vec<(Invocation, BTreeSet<Key>)>>,
    ended: BTreeSet<Key>,
    calls: BTreeMap<Key, u32>,
    faults: BTreeMap<&'static str, usize>,
    kills: BTreeMap<&'static str, usize>,
}

/// What happened, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, usize>,
    /// Killed processes by function.
    pub kills: BTreeMap<&'static str, usize>,
    /// Batches that were given to a function.
    pub invocations: usize,
}

/// A request on its way; it has arrived when this is dropped.
pub(super) struct UnderWay<'a>(&'a Recorder);

impl Recorder {
    /// Of these messages; it burns from the beginning.
    #[must_use]
    pub fn new(sent: Vec<Sent>) -> Self {
        let history = History { sent, ..History::default() };
        let state = State { history, ..State::default() };
        Self { state: Mutex::new(state), burning: AtomicBool::new(true), under_way: AtomicUsize::new(0) }
    }

    /// Whether there are faults and kills.
    #[must_use]
    pub fn burns(&self) -> bool {
        self.burning.load(Ordering::SeqCst)
    }

    /// From now on there are none.
    pub fn heal(&self) {
        self.burning.store(false, Ordering::SeqCst);
    }

    /// Whether nothing is on its way through the proxy or in the target.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }

    /// How many messages have reached an end, of what kind ever.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.state().ended.len()
    }

    /// All, at the end.
    #[must_use]
    pub fn take(&self) -> (History, Counts) {
        let mut state = self.state();
        let invocations = state.invocations.len();
        let counts = Counts {
            faults: std::mem::take(&mut state.faults),
            kills: std::mem::take(&mut state.kills),
            invocations,
        };
        (std::mem::take(&mut state.history), counts)
    }

    /// What becomes of a message.
    pub(super) fn fate(&self, key: Key) -> Option<Fate> {
        self.state().history.sent.get(key).map(|sent| sent.fate)
    }

    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        UnderWay(self)
    }

    /// A batch of a mapping begins.
    pub(super) fn begin(&self, mapping: usize, timeout: Duration, keys: BTreeSet<Key>) -> Invocation {
        let mut state = self.state();
        let invocation = state.invocations.len() as Invocation;
        state.invocations.push((Instant::now(), timeout));
        state.batches.entry(mapping).or_default().push((invocation, keys));
        invocation
    }

    /// The mapping's newest batch that has the message; a request of a process that was killed may come late.
    pub(super) fn batch_with(&self, mapping: usize, key: Key) -> Option<Invocation> {
        let state = self.state();
        let batches = state.batches.get(&mapping)?;
        batches.iter().rev().find(|(_, keys)| keys.contains(&key)).map(|(invocation, _)| *invocation)
    }

    /// How long an invocation has lasted, and how long it may last at least: the process's start is not counted there.
    pub(super) fn clock(&self, invocation: Invocation) -> (Duration, Duration) {
        let state = self.state();
        let begun = usize::try_from(invocation).ok().and_then(|place| state.invocations.get(place).copied());
        begun.map_or_else(Default::default, |(begun, timeout)| (begun.elapsed(), timeout))
    }

    pub(super) fn delivered(&self, delivery: Delivery) {
        self.state().history.deliveries.push(delivery);
    }

    pub(super) fn sent_on(&self, send: Send) {
        let mut state = self.state();
        if send.arrived && send.to == Stage::Final {
            state.ended.insert(send.key);
        }
        state.history.sends.push(send);
    }

    pub(super) fn called(&self, call: Call) {
        let mut state = self.state();
        if call.answer == Answer::Success {
            state.ended.insert(call.key);
        }
        *state.calls.entry(call.key).or_default() += 1;
        state.history.calls.push(call);
    }

    pub(super) fn found(&self, key: Key, content: Content) {
        self.state().history.finals.push((key, content));
    }

    pub(super) fn trouble(&self, trouble: String) {
        self.state().history.troubles.push(trouble);
    }

    pub(super) fn fault(&self, name: &'static str) {
        *self.state().faults.entry(name).or_default() += 1;
    }

    pub(super) fn killed(&self, function: &'static str) {
        *self.state().kills.entry(function).or_default() += 1;
    }

    /// How often the target was called for a message.
    pub(super) fn calls_of(&self, key: Key) -> u32 {
        self.state().calls.get(&key).copied().unwrap_or(0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

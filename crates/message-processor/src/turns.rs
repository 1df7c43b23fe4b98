//! Schedules the calls in a batch: selects the next message to call the target for, and collects one outcome per
//! message.

use std::collections::BTreeSet;

use redeliver_core::accepted::AcceptedMessage;
use redeliver_core::decide::breaker::{CircuitKey, Patience};
use redeliver_core::decide::{CallOutcome, call_outcome};
use redeliver_core::deliver::time_until;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::{Clock, Observer};

use crate::MessageProcessor;
use crate::breaker::{BreakerDecision, PermittedCall};
use crate::order::GroupOrder;
use crate::outcome::{AttemptOutcome, FinishedCall, timeout_error};

/// The state of a message in the batch.
enum Slot {
    Waiting,
    /// A call in progress. If it is cut off, it might have had an effect, so it spends an attempt; a call that never
    /// started does not.
    Running {
        since: Timestamp,
        may_be_held: bool,
    },
    Ended(FinishedCall),
}

pub(super) struct Turns<'a, H, Q, C, O> {
    processor: &'a MessageProcessor<H, Q, C, O>,
    accepted: &'a [AcceptedMessage],
    keys: Vec<Option<CircuitKey>>,
    order: GroupOrder<'a>,
    /// The outcome of a call that is cut off.
    cut_off: CallOutcome,
    slots: Vec<Slot>,
    /// No message before this index is waiting.
    front: usize,
}

/// A message for which the target may be called now.
pub(super) struct Turn<'a, H, Q, C: Clock, O: Observer> {
    pub(super) index: usize,
    pub(super) permitted: PermittedCall<'a, H, Q, C, O>,
}

/// One pass through the waiting messages, in order.
pub(super) struct Pass<'a> {
    next: usize,
    /// The circuit keys whose messages the breaker keeps waiting.
    keys: BTreeSet<Option<CircuitKey>>,
    /// Groups with a call in progress, or with a message that this pass has skipped.
    groups: BTreeSet<&'a str>,
}

impl Pass<'_> {
    /// Returns true if the breaker keeps a message waiting, for the rate limit or for a call that may belong to another
    /// batch.
    pub(super) fn is_kept_waiting(&self) -> bool {
        !self.keys.is_empty()
    }
}

impl<'a, H, Q, C: Clock, O: Observer> Turns<'a, H, Q, C, O> {
    pub(super) fn new(processor: &'a MessageProcessor<H, Q, C, O>, accepted: &'a [AcceptedMessage]) -> Self {
        Self {
            processor,
            accepted,
            keys: accepted.iter().map(|message| processor.circuit_key(message)).collect(),
            order: processor.group_order(accepted),
            cut_off: call_outcome(&processor.policy, &timeout_error()),
            slots: accepted.iter().map(|_| Slot::Waiting).collect(),
            front: 0,
        }
    }

    pub(super) fn begin_pass(&mut self) -> Pass<'a> {
        while matches!(self.slots.get(self.front), Some(Slot::Running { .. } | Slot::Ended(_))) {
            self.front += 1;
        }
        Pass { next: self.front, keys: BTreeSet::new(), groups: self.order.running_groups() }
    }

    /// Returns the next message in the pass for which the target may be called now. The messages before it are held,
    /// left for a later pass, or not started because their group has stopped.
    pub(super) fn next_turn(
        &mut self,
        pass: &mut Pass<'a>,
        patience: Patience,
    ) -> Option<Turn<'a, H, Q, C, O>> {
        while pass.next < self.slots.len() {
            let index = pass.next;
            pass.next += 1;
            if !matches!(self.slots[index], Slot::Waiting) {
                continue;
            }
            if self.order.is_stopped(index) {
                self.slots[index] = Slot::Ended(FinishedCall::not_made(AttemptOutcome::NotStarted));
                continue;
            }
            // Later messages may have other keys and groups.
            let group = self.order.group_at(index);
            let is_behind = group.is_some_and(|group| pass.groups.contains(group));
            if is_behind || pass.keys.contains(&self.keys[index]) {
                pass.groups.extend(group);
                continue;
            }
            match self.processor.ask_breaker(&self.accepted[index], patience) {
                BreakerDecision::Call(permitted) => {
                    let since = self.processor.clock.now();
                    let may_be_held = permitted.may_be_held(self.cut_off);
                    self.slots[index] = Slot::Running { since, may_be_held };
                    self.order.mark_started(index);
                    pass.groups.extend(group);
                    return Some(Turn { index, permitted });
                }
                BreakerDecision::Hold(hold) => {
                    self.slots[index] =
                        Slot::Ended(FinishedCall::not_made(AttemptOutcome::Held { hold, error: None }));
                    self.order.mark_stopped(index);
                }
                BreakerDecision::Wait => {
                    pass.keys.insert(self.keys[index]);
                    pass.groups.extend(group);
                }
            }
        }
        None
    }

    pub(super) fn record_finished_call(&mut self, index: usize, call: FinishedCall) {
        self.order.mark_ended(index, &call.outcome);
        self.slots[index] = Slot::Ended(call);
    }

    pub(super) fn none_waiting(&self) -> bool {
        !self.slots[self.front..].iter().any(|slot| matches!(slot, Slot::Waiting))
    }

    /// Returns one call per message. When time is up, a running call counts as cut off, and a waiting message as held
    /// or not started.
    pub(super) fn into_calls(mut self) -> Vec<FinishedCall> {
        let now = self.processor.clock.now();
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().enumerate().map(|(index, slot)| self.finish_slot(index, slot, now)).collect()
    }

    fn finish_slot(&mut self, index: usize, slot: Slot, now: Timestamp) -> FinishedCall {
        let accepted = &self.accepted[index];
        match slot {
            Slot::Ended(FinishedCall { outcome: AttemptOutcome::Trouble(error), started, seconds }) => {
                FinishedCall { outcome: self.processor.hold_or_fail(accepted, error), started, seconds }
            }
            Slot::Ended(call) => call,
            Slot::Running { since, may_be_held } => {
                let error = timeout_error();
                let outcome = if may_be_held {
                    self.processor.hold_or_fail(accepted, error)
                } else {
                    AttemptOutcome::Failure(error)
                };
                FinishedCall { outcome, started: Some(since), seconds: time_until(since, now).as_secs_f64() }
            }
            Slot::Waiting if self.order.is_unfinished(index) => {
                FinishedCall::not_made(AttemptOutcome::NotStarted)
            }
            Slot::Waiting => {
                self.order.mark_stopped(index);
                FinishedCall::not_made(match self.processor.ask_breaker(accepted, Patience::Over) {
                    BreakerDecision::Hold(hold) => AttemptOutcome::Held { hold, error: None },
                    BreakerDecision::Wait => AttemptOutcome::NotStarted,
                    BreakerDecision::Call(permitted) => {
                        permitted.give_back();
                        AttemptOutcome::NotStarted
                    }
                })
            }
        }
    }
}

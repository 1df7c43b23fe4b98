//! The target: responds as the knobs specify, and reports to the ledger.

use std::future::pending;
use std::panic::resume_unwind;
use std::time::Duration;

use redeliver_aws::targets::OwnFunction;
use redeliver_core::handler::{Handler, HandlerError, Invocation, Message};
use redeliver_core::ports::Clock;

use crate::knobs::{OutageEffect, TargetFaults};
use crate::ledger::CallId;
use crate::messages::{Destiny, message_number};
use crate::own_function::{self, SimulatedRuntime};
use crate::policy::{ERROR_TYPES, TOO_MANY};
use crate::world::SimulationWorld;

/// The target's error details.
pub(crate) const DETAILS: &str = "the simulated target says no: é \u{0}";

/// The target as called by one process.
pub struct SimulationTarget<'a> {
    world: &'a SimulationWorld,
    own_function: Option<OwnFunction<SimulatedRuntime<'a>>>,
}

/// The target's reaction to a call.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Succeed,
    Fail(&'static str, &'static str, Option<u64>),
    /// The target reports that it is down.
    Unavailable(&'static str),
    Panic,
    Hang,
}

/// A running call.
pub(crate) struct SimulatedCall<'a> {
    world: &'a SimulationWorld,
    pub(crate) call: CallId,
    is_over: bool,
}

impl<'a> SimulatedCall<'a> {
    fn new(world: &'a SimulationWorld, message: &Message<'_>) -> Self {
        let call = world.lock_ledger().begin_call(message, world.clock.now());
        Self { world, call, is_over: false }
    }

    pub(crate) fn record_return(&mut self) {
        self.is_over = true;
        self.world.lock_ledger().record_call_return(self.call, self.world.clock.now());
    }
}

impl Drop for SimulatedCall<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.world.lock_ledger().record_call_cut_off(self.call, self.world.clock.now());
        }
    }
}

impl Handler for SimulationTarget<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let Self { world, .. } = *self;
        let mut calling = SimulatedCall::new(world, message);
        let call = calling.call;
        world.take_a_moment().await;
        world.delay_slow_call().await;
        let answered = |kind, error_type, after, unavailable| {
            world.lock_ledger().record_failure(call, kind, error_type, after, unavailable);
        };
        match self.choose_act(message) {
            Act::Succeed => {
                world.lock_ledger().record_processed(call, message.body, world.clock.now());
                // The process might die while the response is in transit.
                world.cross_network().await;
                calling.record_return();
                Ok(())
            }
            Act::Fail(kind, error_type, after) => {
                answered(kind, error_type, after, false);
                world.cross_network().await;
                calling.record_return();
                Err(handler_error(kind, error_type, after))
            }
            Act::Unavailable(error_type) => {
                answered("transient", error_type, None, true);
                world.cross_network().await;
                calling.record_return();
                Err(HandlerError::unavailable(error_type, DETAILS))
            }
            Act::Panic => {
                answered("transient", "Panic", None, false);
                calling.record_return();
                resume_unwind(Box::new("no hook, no output"))
            }
            Act::Hang => pending().await,
        }
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        self.world.lock_ledger().check_call_context(&invocation);
        let Some(function) = &self.own_function else { return self.handle(invocation.message).await };
        let calling = SimulatedCall::new(self.world, invocation.message);
        own_function::call_function(function, invocation, calling, self.choose_act(invocation.message)).await
    }
}

impl<'a> SimulationTarget<'a> {
    /// Creates the target of a new process, as the knobs specify.
    #[must_use]
    pub fn new(world: &'a SimulationWorld) -> Self {
        let own_function = world.knobs.own_function;
        let own_function =
            own_function.map(|event| OwnFunction::new(SimulatedRuntime::new(world, event), event));
        Self { world, own_function }
    }

    fn choose_act(&self, message: &Message<'_>) -> Act {
        let Self { world, .. } = *self;
        let destiny =
            message_number(message.body).and_then(|n| world.messages.get(n)).map(|message| message.destiny);
        let [unavailable, refused, busy, unknown, broken, missing] = ERROR_TYPES;
        match destiny {
            Some(Destiny::AlwaysTransient) => return Act::Fail("transient", unavailable, None),
            Some(Destiny::AlwaysFaulty) => return Act::Fail("transient", broken, None),
            Some(Destiny::AlwaysPermanent) => return Act::Fail("permanent", unknown, None),
            _ => {}
        }
        let tenant = message_number(message.body).and_then(|n| world.messages.get(n));
        let tenant = tenant.and_then(|message| message.content.message_group_id.as_deref());
        match world.current_outage(tenant) {
            Some(OutageEffect::Refuses) => return Act::Fail("transient", unavailable, None),
            Some(OutageEffect::Breaks) => return Act::Fail("transient", broken, None),
            Some(OutageEffect::ReportsOutage) => return Act::Unavailable(busy),
            Some(OutageEffect::Hangs) => return Act::Hang,
            None => {}
        }
        if let Some(after) = world.refusal_over_capacity() {
            return Act::Fail("transient", TOO_MANY, after);
        }
        let TargetFaults { transient, retry_after, permanent, snooze, panic, hang, .. } = world.knobs.target;
        if world.fault_strikes(hang) {
            Act::Hang
        } else if world.fault_strikes(panic) {
            Act::Panic
        } else if world.fault_strikes(snooze) {
            Act::Fail("snooze", busy, Some(world.draw_up_to(2000)))
        } else if world.fault_strikes(permanent) {
            Act::Fail("permanent", refused, None)
        } else if world.fault_strikes(retry_after) {
            // Includes the longest delay, no delay (a date in the past by the target's clock), and very short delays.
            let after = match world.random_fraction() {
                ..0.1 => u64::MAX / 2,
                0.1..0.2 => 0,
                0.2..0.3 => world.draw_up_to(5),
                _ => world.draw_up_to(1200),
            };
            Act::Fail("transient", unavailable, Some(after))
        } else if world.fault_strikes(transient) {
            let errors = [busy, refused, unavailable, broken, missing];
            let which = usize::try_from(world.draw_up_to(errors.len() as u64 - 1)).unwrap_or(0);
            Act::Fail("transient", errors[which], None)
        } else {
            Act::Succeed
        }
    }
}

fn handler_error(kind: &str, error_type: &'static str, after: Option<u64>) -> HandlerError {
    let after = after.map(Duration::from_secs);
    match (kind, after) {
        ("permanent", _) => HandlerError::permanent(error_type, DETAILS),
        ("snooze", Some(after)) => HandlerError::snooze(error_type, DETAILS, after),
        (_, Some(after)) => HandlerError::transient(error_type, DETAILS).retry_after(after),
        (_, None) => HandlerError::transient(error_type, DETAILS),
    }
}

//! The target: it answers by the knobs, and reports to the ledger.

use std::future::pending;
use std::panic::resume_unwind;
use std::time::Duration;

use redeliver_aws::targets::OwnFunction;
use redeliver_core::handler::{Handler, HandlerError, Invocation, Message};
use redeliver_core::ports::Clock;

use crate::knobs::{Down, TargetFaults};
use crate::ledger::CallId;
use crate::messages::{Destiny, number};
use crate::own_function::{self, Simulated};
use crate::policy::{ERROR_TYPES, TOO_MANY};
use crate::world::World;

/// Its error details.
pub(crate) const DETAILS: &str = "the simulated target says no: é \u{0}";

/// The target of a process.
pub struct Target<'a> {
    world: &'a World,
    own_function: Option<OwnFunction<Simulated<'a>>>,
}

/// Its reaction to a call.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Succeed,
    Fail(&'static str, &'static str, Option<u64>),
    /// It reports that it is down.
    Unavailable(&'static str),
    Panic,
    Hang,
}

/// A running call.
pub(crate) struct Calling<'a> {
    world: &'a World,
    pub(crate) call: CallId,
    is_over: bool,
}

impl<'a> Calling<'a> {
    fn new(world: &'a World, message: &Message<'_>) -> Self {
        let call = world.ledger().called(message, world.clock.now());
        Self { world, call, is_over: false }
    }

    pub(crate) fn returns(&mut self) {
        self.is_over = true;
        self.world.ledger().returned(self.call, self.world.clock.now());
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.world.ledger().cut_off(self.call, self.world.clock.now());
        }
    }
}

impl Handler for Target<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let Self { world, .. } = *self;
        let mut calling = Calling::new(world, message);
        let call = calling.call;
        world.take_a_moment().await;
        world.be_slow().await;
        let answered = |kind, error_type, after, unavailable| {
            world.ledger().answered(call, kind, error_type, after, unavailable);
        };
        match self.act(message) {
            Act::Succeed => {
                world.ledger().processed(call, message.body, world.clock.now());
                // The process may die while the answer is on its way.
                world.travel().await;
                calling.returns();
                Ok(())
            }
            Act::Fail(kind, error_type, after) => {
                answered(kind, error_type, after, false);
                world.travel().await;
                calling.returns();
                Err(error(kind, error_type, after))
            }
            Act::Unavailable(error_type) => {
                answered("transient", error_type, None, true);
                world.travel().await;
                calling.returns();
                Err(HandlerError::unavailable(error_type, DETAILS))
            }
            Act::Panic => {
                answered("transient", "Panic", None, false);
                calling.returns();
                resume_unwind(Box::new("no hook, no output"))
            }
            Act::Hang => pending().await,
        }
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        self.world.ledger().called_within(&invocation);
        let Some(function) = &self.own_function else { return self.handle(invocation.message).await };
        let calling = Calling::new(self.world, invocation.message);
        own_function::call(function, invocation, calling, self.act(invocation.message)).await
    }
}

impl<'a> Target<'a> {
    /// A target by the knobs, for a new process.
    #[must_use]
    pub fn new(world: &'a World) -> Self {
        let own_function = world.knobs.own_function;
        let own_function = own_function.map(|event| OwnFunction::new(Simulated::new(world, event), event));
        Self { world, own_function }
    }

    fn act(&self, message: &Message<'_>) -> Act {
        let Self { world, .. } = *self;
        let destiny = number(message.body).and_then(|n| world.messages.get(n)).map(|message| message.destiny);
        let [unavailable, refused, busy, unknown, broken, missing] = ERROR_TYPES;
        match destiny {
            Some(Destiny::AlwaysTransient) => return Act::Fail("transient", unavailable, None),
            Some(Destiny::AlwaysFaulty) => return Act::Fail("transient", broken, None),
            Some(Destiny::AlwaysPermanent) => return Act::Fail("permanent", unknown, None),
            _ => {}
        }
        let tenant = number(message.body).and_then(|n| world.messages.get(n));
        let tenant = tenant.and_then(|message| message.content.message_group_id.as_deref());
        match world.outage(tenant) {
            Some(Down::Refuses) => return Act::Fail("transient", unavailable, None),
            Some(Down::Breaks) => return Act::Fail("transient", broken, None),
            Some(Down::SaysSo) => return Act::Unavailable(busy),
            Some(Down::Hangs) => return Act::Hang,
            None => {}
        }
        if let Some(after) = world.refuses() {
            return Act::Fail("transient", TOO_MANY, after);
        }
        let TargetFaults { transient, retry_after, permanent, snooze, panic, hang, .. } = world.knobs.target;
        if world.strikes(hang) {
            Act::Hang
        } else if world.strikes(panic) {
            Act::Panic
        } else if world.strikes(snooze) {
            Act::Fail("snooze", busy, Some(world.up_to(2000)))
        } else if world.strikes(permanent) {
            Act::Fail("permanent", refused, None)
        } else if world.strikes(retry_after) {
            // Includes the longest delay, no delay (a date that is past by the target's clock), and nearly so.
            let after = match world.draw() {
                ..0.1 => u64::MAX / 2,
                0.1..0.2 => 0,
                0.2..0.3 => world.up_to(5),
                _ => world.up_to(1200),
            };
            Act::Fail("transient", unavailable, Some(after))
        } else if world.strikes(transient) {
            let errors = [busy, refused, unavailable, broken, missing];
            let which = usize::try_from(world.up_to(errors.len() as u64 - 1)).unwrap_or(0);
            Act::Fail("transient", errors[which], None)
        } else {
            Act::Succeed
        }
    }
}

fn error(kind: &str, error_type: &'static str, after: Option<u64>) -> HandlerError {
    let after = after.map(Duration::from_secs);
    match (kind, after) {
        ("permanent", _) => HandlerError::permanent(error_type, DETAILS),
        ("snooze", Some(after)) => HandlerError::snooze(error_type, DETAILS, after),
        (_, Some(after)) => HandlerError::transient(error_type, DETAILS).retry_after(after),
        (_, None) => HandlerError::transient(error_type, DETAILS),
    }
}

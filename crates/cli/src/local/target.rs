//! Where the messages of a run go.

use std::num::NonZeroUsize;
use std::sync::Mutex;

use redeliver_aws::targets::{HttpTarget, OwnFunction};
use redeliver_core::handler::{Handler, HandlerError, Invocation, Message};
use redeliver_core::ports::Clock;
use redeliver_embedded::VirtualClock;
use redeliver_sim::functions::MAX_CONCURRENCY;
use redeliver_sim::{BuiltInTarget, Tracker};

use crate::locked::locked;

/// Where the local loop's messages go.
#[derive(Debug)]
pub enum Target {
    BuiltIn(BuiltInTarget),
    Http(Box<HttpTarget>),
    OwnFunction(Box<OwnFunction>),
}

impl Target {
    /// Calls at the same time.
    pub(super) fn concurrency(&self) -> NonZeroUsize {
        match self {
            Self::BuiltIn(_) | Self::Http(_) => MAX_CONCURRENCY,
            Self::OwnFunction(function) => function.concurrency(),
        }
    }
}

/// A target whose successes are entered into the tracker as they happen, and whose last failure is kept.
#[derive(Debug)]
pub struct Recorded<'a, C> {
    pub target: &'a Target,
    pub tracker: &'a Mutex<Tracker>,
    /// A real target's: the built-in one fails as it is told to.
    pub last_failure: &'a Mutex<Option<String>>,
    pub clock: C,
    /// Held during real calls, if time is virtual.
    pub hold: Option<VirtualClock>,
}

impl<C: Clock> Recorded<'_, C> {
    async fn real(&self, call: impl Future<Output = Result<(), HandlerError>>) -> Result<(), HandlerError> {
        let _held = self.hold.as_ref().map(VirtualClock::hold);
        call.await.inspect_err(|HandlerError { error_type, details, .. }| {
            *locked(self.last_failure) = Some(format!("{}: {details}", error_type.name()));
        })
    }

    fn processed(&self, message: &Message<'_>) {
        locked(self.tracker).processed(message.body, self.clock.now());
    }
}

impl<C: Clock> Handler for Recorded<'_, C> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        match self.target {
            Target::BuiltIn(failing) => failing.answer(message)?,
            Target::Http(target) => self.real(target.handle(message)).await?,
            Target::OwnFunction(target) => self.real(target.handle(message)).await?,
        }
        self.processed(message);
        Ok(())
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        match self.target {
            Target::OwnFunction(target) => self.real(target.invoke(invocation)).await?,
            Target::BuiltIn(_) | Target::Http(_) => return self.handle(invocation.message).await,
        }
        self.processed(invocation.message);
        Ok(())
    }
}

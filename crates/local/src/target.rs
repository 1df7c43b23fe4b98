//! The target of a run.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Mutex;

use futures_util::future::{Either, select};
use redeliver_aws::Stop;
use redeliver_aws::targets::{HttpTarget, OwnFunction};
use redeliver_core::handler::{Handler, HandlerError, Invocation, Message};
use redeliver_core::lock;
use redeliver_core::ports::Clock;
use redeliver_embedded::VirtualClock;
use redeliver_operator::own_function::start_own_function;
use redeliver_operator::terminal::signals::Signals;
use redeliver_operator::{CommandFailure, InterruptedError};
use redeliver_sim::functions::MAX_CONCURRENCY;
use redeliver_sim::{BuiltInTarget, Tracker};

/// The target of a run: a built-in one that fails at random, an HTTP endpoint, or the function that `--exec` starts.
#[derive(Debug)]
pub enum LocalTarget {
    BuiltIn(BuiltInTarget),
    Http(Box<HttpTarget>),
    OwnFunction(Box<OwnFunction>),
}

impl LocalTarget {
    /// Starts the user's own function, unless a signal arrives first.
    pub(crate) async fn start_function(&self) -> Result<(), CommandFailure> {
        let Self::OwnFunction(function) = self else { return Ok(()) };
        let mut signals = Signals::listen()?;
        match select(pin!(start_own_function(function)), pin!(signals.next())).await {
            Either::Left((started, _)) => Ok(started?),
            Either::Right(_) => Err(InterruptedError("--exec had started").into()),
        }
    }

    /// Returns [`OwnFunction::shapes_taken_as_success`]; empty for other targets.
    pub(crate) fn shapes_taken_as_success(&self) -> Vec<&'static str> {
        match self {
            Self::BuiltIn(_) | Self::Http(_) => Vec::new(),
            Self::OwnFunction(function) => function.shapes_taken_as_success(),
        }
    }

    /// Returns the number of concurrent calls.
    pub(crate) fn max_concurrency(&self) -> NonZeroUsize {
        match self {
            Self::BuiltIn(_) | Self::Http(_) => MAX_CONCURRENCY,
            Self::OwnFunction(function) => function.max_concurrency(),
        }
    }
}

/// A target that tracks its successes and records its last failure.
#[derive(Clone, Debug)]
pub(crate) struct TrackedTarget<'a, C> {
    pub(crate) target: &'a LocalTarget,
    pub(crate) tracker: &'a Mutex<Tracker>,
    /// The last failure of a real target; the built-in one fails on purpose.
    pub(crate) last_failure: &'a Mutex<Option<String>>,
    pub(crate) clock: C,
    /// The clock to pause during real calls, if time is virtual.
    pub(crate) hold: Option<VirtualClock>,
    /// Cancels calls to the user's own function, which may hang. Calls to an endpoint are awaited, since they cannot be
    /// undone.
    pub(crate) stop: &'a Stop,
}

impl<C: Clock> TrackedTarget<'_, C> {
    async fn call_real_target(
        &self,
        call: impl Future<Output = Result<(), HandlerError>>,
    ) -> Result<(), HandlerError> {
        let _held = self.hold.as_ref().map(VirtualClock::hold_time);
        call.await.inspect_err(|HandlerError { error_type, details, .. }| {
            *lock(self.last_failure) = Some(format!("{}: {details}", error_type.name()));
        })
    }

    /// Makes a call until a stop is requested. Dropping the call kills the function, and its message is received again
    /// without having used an attempt.
    async fn call_until_stop(
        &self,
        call: impl Future<Output = Result<(), HandlerError>>,
    ) -> Result<(), HandlerError> {
        match select(pin!(self.stop.wait_until_requested()), pin!(self.call_real_target(call))).await {
            Either::Left(_) => Err(HandlerError::not_started()),
            Either::Right((outcome, _)) => outcome,
        }
    }

    fn record_processed(&self, message: &Message<'_>) {
        lock(self.tracker).record_processed(message.body, self.clock.now());
    }
}

impl<C: Clock> Handler for TrackedTarget<'_, C> {
    fn function_version(&self) -> Option<&str> {
        match self.target {
            LocalTarget::BuiltIn(_) | LocalTarget::Http(_) => None,
            LocalTarget::OwnFunction(target) => target.function_version(),
        }
    }

    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        match self.target {
            LocalTarget::BuiltIn(target) => target.respond_to_call(message)?,
            LocalTarget::Http(target) => self.call_real_target(target.handle(message)).await?,
            LocalTarget::OwnFunction(target) => self.call_until_stop(target.handle(message)).await?,
        }
        self.record_processed(message);
        Ok(())
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        match self.target {
            LocalTarget::Http(target) => self.call_real_target(target.invoke(invocation)).await?,
            LocalTarget::OwnFunction(target) => self.call_until_stop(target.invoke(invocation)).await?,
            LocalTarget::BuiltIn(_) => return self.handle(invocation.message).await,
        }
        self.record_processed(invocation.message);
        Ok(())
    }
}

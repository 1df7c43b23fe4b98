//! Where the messages of a run go.

use std::sync::Mutex;

use redeliver_aws::targets::HttpTarget;
use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::ports::Clock;
use redeliver_embedded::VirtualClock;
use redeliver_loop::{Failing, Ledger};

use crate::locked::locked;

/// Where the local loop's messages go.
#[derive(Debug)]
pub enum Target {
    Failing(Failing),
    Http(Box<HttpTarget>),
}

/// A target whose successes are entered into the ledger as they happen, and whose last failure is kept.
#[derive(Debug)]
pub struct Recorded<'a, C> {
    pub target: &'a Target,
    pub ledger: &'a Mutex<Ledger>,
    /// Set only by an HTTP target: the built-in one fails as it is told to.
    pub last_failure: &'a Mutex<Option<String>>,
    pub clock: C,
    /// Held during real calls, if time is virtual.
    pub hold: Option<VirtualClock>,
}

impl<C: Clock> Handler for Recorded<'_, C> {
    async fn handle(&self, message: &Message) -> Result<(), HandlerError> {
        match self.target {
            Target::Failing(failing) => failing.answer(message)?,
            Target::Http(target) => {
                let _held = self.hold.as_ref().map(VirtualClock::hold);
                target.handle(message).await.inspect_err(
                    |HandlerError { error_type, details, .. }| {
                        *locked(self.last_failure) = Some(format!("{}: {details}", error_type.name()));
                    },
                )?;
            }
        }
        locked(self.ledger).processed(&message.body, self.clock.now());
        Ok(())
    }
}

//! The target of a simulation: down for a while, or failing by chance, and with a capacity.

use std::sync::Mutex;
use std::time::Duration;

use redeliver_core::handler::{ErrorType, Handler, HandlerError, Message};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use redeliver_embedded::VirtualClock;

use super::load::{Failed, Load};
use super::scenario::{Scenario, Trouble};
use crate::built_in_target::Failing;
use crate::sync::lock;
use crate::tracker::Ledger;

/// The target. It decides when a call reaches it, and answers when the call's time has passed.
#[derive(Clone, Copy)]
pub(super) struct SimulatedTarget<'a> {
    pub(super) clock: &'a VirtualClock,
    pub(super) start: Timestamp,
    pub(super) scenario: &'a Scenario,
    pub(super) failing: &'a Failing,
    /// How long a call takes.
    pub(super) call: Duration,
    pub(super) load: &'a Mutex<Load>,
    pub(super) ledger: &'a Mutex<Ledger>,
}

impl Handler for SimulatedTarget<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let answer = self.take(message);
        if !self.call.is_zero() {
            self.clock.sleep(self.call).await;
        }
        answer.map_err(error_of)?;
        lock(self.ledger).processed(message.body, self.clock.now());
        Ok(())
    }
}

impl SimulatedTarget<'_> {
    fn take(&self, message: &Message<'_>) -> Result<(), Failed> {
        let second = (self.clock.now() - self.start).num_seconds().unsigned_abs();
        let mut load = lock(self.load);
        let is_full = self.scenario.capacity.is_some_and(|most| load.at(second).succeeded >= most.into());
        let answer = match self.scenario.trouble {
            Trouble::Outage(length) if second < length.as_secs() => Err(Failed::WhileDown),
            _ if is_full => Err(Failed::OverCapacity),
            _ => self.failing.answer(message).map_err(|_| Failed::ByChance),
        };
        load.record(second, answer);
        answer
    }
}

fn error_of(failed: Failed) -> HandlerError {
    let (status, details) = match failed {
        Failed::WhileDown => (503, "the simulated target is down"),
        Failed::OverCapacity => (429, "the simulated target takes no more in this second"),
        Failed::ByChance => (500, "the simulated target failed by chance"),
    };
    HandlerError::transient(ErrorType::HttpStatus(status), details)
}

#[cfg(test)]
mod tests {
    use redeliver_core::policy::Policy;
    use redeliver_core::strategy::Strategy;

    use super::*;
    use crate::planner::{Concurrency, run};

    #[test]
    fn a_target_that_is_full_has_no_chance_to_fail() {
        let scenario = Scenario {
            strategy: Strategy::DelayedResend,
            messages: 10,
            trouble: Trouble::FailureRate(1.0),
            capacity: Some(0),
            over: Duration::from_secs(10),
            invocations: Concurrency::Unlimited { environments: 1 },
            batching_window: Duration::ZERO,
            seed: 7,
        };
        let policy = Policy::from_json(r#"{"max_attempts":1,"circuit_breaker":false}"#).unwrap();
        let wasted = run(&policy, &scenario, &|_| {}).unwrap().wasted;
        assert_eq!((wasted.over_capacity, wasted.by_chance), (20, 0));
    }
}

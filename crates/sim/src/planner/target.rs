//! The target of a simulation: down for a while, flapping, or failing by chance, for all messages or for some groups,
//! and with a capacity.

use std::sync::Mutex;
use std::time::Duration;

use redeliver_core::deliver::until;
use redeliver_core::handler::{ErrorType, Handler, HandlerError, Invocation, Message};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use redeliver_embedded::VirtualClock;
use serde::Deserialize;

use super::delays::{DelayLog, Processed};
use super::load::{FailureCause, Load};
use super::scenario::Scenario;
use crate::built_in_target::BuiltInTarget;
use crate::cost::CALL_SECONDS;
use crate::tracker::Tracker;
use redeliver_core::lock;

/// Decides about a call at its start, and answers at its end.
#[derive(Clone, Copy)]
pub(super) struct SimulatedTarget<'a> {
    clock: &'a VirtualClock,
    start: Timestamp,
    scenario: &'a Scenario,
    built_in: &'a BuiltInTarget,
    call_duration: Duration,
    load: &'a Mutex<Load>,
    tracker: &'a Mutex<Tracker>,
    delays: &'a Mutex<DelayLog>,
}

/// The `data` of a simulated message.
#[derive(Deserialize)]
struct Data {
    number: u64,
}

impl Handler for SimulatedTarget<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.call(message, None).await
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        self.call(invocation.message, invocation.record.message_group_id.as_deref()).await
    }
}

impl<'a> SimulatedTarget<'a> {
    /// A target that is there from now on.
    pub(super) fn new(
        scenario: &'a Scenario,
        built_in: &'a BuiltInTarget,
        clock: &'a VirtualClock,
        load: &'a Mutex<Load>,
        tracker: &'a Mutex<Tracker>,
        delays: &'a Mutex<DelayLog>,
    ) -> Self {
        let limited = scenario.invocations.limit();
        let call_duration = limited.map_or(Duration::ZERO, |_| Duration::from_secs_f64(CALL_SECONDS));
        Self { clock, start: clock.now(), scenario, built_in, call_duration, load, tracker, delays }
    }

    async fn call(&self, message: &Message<'_>, group: Option<&str>) -> Result<(), HandlerError> {
        let meets_fault = self.scenario.meets_fault(group);
        let answer = self.take(message, meets_fault);
        if !self.call_duration.is_zero() {
            self.clock.sleep(self.call_duration).await;
        }
        answer.map_err(error_of)?;
        let now = self.clock.now();
        lock(self.tracker).processed(message.body, now);
        let Data { number } = message.data()?;
        let second = self.scenario.second_of(number);
        let sent_at = self.start + Duration::from_secs(second);
        let milliseconds = (now - sent_at).num_milliseconds().unsigned_abs();
        lock(self.delays).processed(&Processed { meets_fault, group, number, second, milliseconds });
        Ok(())
    }

    fn take(&self, message: &Message<'_>, meets_fault: bool) -> Result<(), FailureCause> {
        let second = until(self.start, self.clock.now()).as_secs();
        let mut load = lock(self.load);
        let is_full = self.scenario.capacity.is_some_and(|most| load.at(second).succeeded >= most.into());
        let answer = if meets_fault && self.scenario.is_down(second) {
            Err(FailureCause::WhileDown)
        } else if is_full {
            Err(FailureCause::OverCapacity)
        } else if meets_fault {
            self.built_in.answer(message).map_err(|_| FailureCause::ByChance)
        } else {
            Ok(())
        };
        load.record(second, answer);
        answer
    }
}

fn error_of(cause: FailureCause) -> HandlerError {
    let (status, details) = match cause {
        FailureCause::WhileDown => (503, "the simulated target is down"),
        FailureCause::OverCapacity => (429, "the simulated target takes no more in this second"),
        FailureCause::ByChance => (500, "the simulated target failed by chance"),
    };
    HandlerError::transient(ErrorType::HttpStatus(status), details)
}

#[cfg(test)]
mod tests {
    use redeliver_core::policy::Policy;
    use redeliver_core::strategy::Strategy;

    use super::*;
    use crate::batching::Batching;
    use crate::planner::{Concurrency, TargetFault, run};

    fn ten_messages(failure_rate: f64, capacity: Option<u32>) -> Scenario {
        Scenario {
            strategy: Strategy::DelayedResend,
            messages: 10,
            fault: TargetFault::FailureRate(failure_rate),
            groups: None,
            capacity,
            over: Duration::from_secs(10),
            invocations: Concurrency::Unlimited { environments: 1 },
            inner_concurrency: 10,
            batching: Batching::default(),
            seed: 7,
        }
    }

    #[test]
    fn a_delay_counts_from_the_messages_own_send() {
        let delays =
            run(&Policy::default(), &ten_messages(0.0, None), &|_| {}).unwrap().delay_seconds.unwrap();
        assert_eq!((delays.p50, delays.max), (0.0, 0.0));
    }

    #[test]
    fn a_target_at_its_capacity_does_not_fail_by_chance() {
        let scenario = ten_messages(1.0, Some(0));
        let policy = Policy::from_json(r#"{"max_attempts":1,"circuit_breaker":false}"#).unwrap();
        let wasted = run(&policy, &scenario, &|_| {}).unwrap().wasted;
        assert_eq!((wasted.over_capacity, wasted.by_chance), (20, 0));
    }
}

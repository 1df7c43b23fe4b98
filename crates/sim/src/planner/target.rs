//! The target of a simulation: down for a while, flapping, or failing at random, for all messages or for some groups,
//! with an optional capacity.

use std::sync::Mutex;
use std::time::Duration;

use redeliver_core::deliver::time_until;
use redeliver_core::handler::{ErrorType, Handler, HandlerError, Invocation, Message};
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Clock;
use redeliver_embedded::VirtualClock;
use serde::Deserialize;

use super::delays::{DelayLog, ProcessedMessage};
use super::load::{FailureCause, LoadBySecond};
use super::scenario::{FailedCall, Scenario, TARGET_TIMEOUT};
use super::times::CallTimes;
use crate::built_in_target::BuiltInTarget;
use crate::tracker::Tracker;
use redeliver_core::lock;

/// The simulated target. It decides the outcome of a call at its start and responds at its end.
#[derive(Clone, Copy)]
pub(super) struct SimulatedTarget<'a> {
    pub(super) clock: &'a VirtualClock,
    pub(super) start: Timestamp,
    pub(super) scenario: &'a Scenario,
    /// The send times, by message number.
    pub(super) sends: &'a [Duration],
    pub(super) built_in: &'a BuiltInTarget,
    pub(super) call_times: &'a CallTimes,
    pub(super) load: &'a Mutex<LoadBySecond>,
    pub(super) tracker: &'a Mutex<Tracker>,
    pub(super) delays: &'a Mutex<DelayLog>,
}

/// The `data` of a simulated message.
#[derive(Deserialize)]
struct SimulatedData {
    number: u64,
}

impl Handler for SimulatedTarget<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        self.call_target(message, None).await
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        self.call_target(invocation.message, invocation.record.message_group_id.as_deref()).await
    }
}

impl SimulatedTarget<'_> {
    pub(super) async fn call_target(
        &self,
        message: &Message<'_>,
        group: Option<&str>,
    ) -> Result<(), HandlerError> {
        let Self { scenario, sends, .. } = *self;
        let SimulatedData { number } = message.data()?;
        let meets_fault = scenario.is_affected(group);
        let answer = self.decide_outcome(message, meets_fault);
        self.clock.sleep(self.call_duration(number, answer)).await;
        answer.map_err(|cause| handler_error(cause, scenario.failed_call))?;
        let now = self.clock.now();
        lock(self.tracker).record_processed(message.body, now);
        let sent = usize::try_from(number).ok().and_then(|number| sends.get(number)).copied();
        let sent = sent.unwrap_or_default();
        let milliseconds = (now - (self.start + sent)).num_milliseconds().unsigned_abs();
        let second = sent.as_secs();
        lock(self.delays).record_processed(&ProcessedMessage {
            meets_fault,
            group,
            number,
            second,
            milliseconds,
        });
        Ok(())
    }

    /// Returns the duration of a call. A target that is down or rejects a call responds quickly, a hanging target never
    /// does, and any other status takes as long as a success.
    fn call_duration(&self, number: u64, answer: Result<(), FailureCause>) -> Duration {
        let Scenario { times, failed_call, .. } = *self.scenario;
        let mean = match (answer, failed_call) {
            (Err(FailureCause::OverCapacity), _) => times.refusal,
            (Err(_), FailedCall::Hang) => return TARGET_TIMEOUT,
            (Err(_), FailedCall::Status(429 | 502 | 503)) => times.refusal,
            _ => times.answer,
        };
        self.call_times.next_duration(number, mean)
    }

    fn decide_outcome(&self, message: &Message<'_>, meets_fault: bool) -> Result<(), FailureCause> {
        let second = time_until(self.start, self.clock.now()).as_secs();
        let mut load = lock(self.load);
        let is_full =
            self.scenario.capacity.is_some_and(|most| load.calls_at_second(second).succeeded >= most.into());
        let answer = if meets_fault && self.scenario.is_down(second) {
            Err(FailureCause::WhileDown)
        } else if is_full {
            Err(FailureCause::OverCapacity)
        } else if meets_fault {
            self.built_in.respond_to_call(message).map_err(|_| FailureCause::ByChance)
        } else {
            Ok(())
        };
        load.record_call(second, answer);
        answer
    }
}

fn handler_error(cause: FailureCause, failed_call: FailedCall) -> HandlerError {
    let (error_type, details) = match cause {
        FailureCause::WhileDown => (failed_call.error_type(), "the simulated target is down"),
        FailureCause::ByChance => (failed_call.error_type(), "the simulated target failed by chance"),
        FailureCause::OverCapacity => {
            (ErrorType::HttpStatus(429), "the simulated target is at its capacity in this second")
        }
    };
    HandlerError::transient(error_type, details)
}

#[cfg(test)]
mod tests {
    use redeliver_core::policy::Policy;

    use super::*;
    use crate::batching::Batching;
    use crate::planner::{ModelTimes, TargetFault, run_policy};

    fn ten_messages(failure_rate: f64, capacity: Option<u32>) -> Scenario {
        Scenario {
            messages: 10,
            fault: TargetFault::FailureRate(failure_rate),
            capacity,
            over: Duration::from_secs(10),
            max_concurrency: 1,
            batching: Batching::default(),
            seed: 7,
            times: ModelTimes::NONE,
            ..Scenario::default()
        }
    }

    #[test]
    fn a_delay_is_measured_from_when_its_message_was_sent() {
        let delays =
            run_policy(&Policy::default(), &ten_messages(0.0, None), &|_| {}).unwrap().delay_seconds.unwrap();
        assert_eq!((delays.p50, delays.max), (0.0, 0.0));
    }

    #[test]
    fn a_target_at_its_capacity_does_not_fail_at_random() {
        let scenario = ten_messages(1.0, Some(0));
        let policy = Policy::from_json(r#"{"max_attempts":1,"circuit_breaker":false}"#).unwrap();
        let wasted = run_policy(&policy, &scenario, &|_| {}).unwrap().wasted;
        assert_eq!((wasted.over_capacity, wasted.by_chance), (20, 0));
    }

    #[test]
    fn a_call_to_a_hanging_target_is_billed_for_its_timeout() {
        let scenario = Scenario {
            messages: 1,
            fault: TargetFault::Outage(Duration::from_secs(10)),
            failed_call: FailedCall::Hang,
            ..ten_messages(0.0, None)
        };
        let policy = r#"{"circuit_breaker":false,"non_retryable":["Http.Timeout"]}"#;
        let measured = run_policy(&Policy::from_json(policy).unwrap(), &scenario, &|_| {}).unwrap();
        assert_eq!(
            measured.dead_lettered.into_iter().collect::<Vec<_>>(),
            [("NON_RETRYABLE_ERROR".to_owned(), 1)]
        );
        assert_eq!(measured.usage.invocations.seconds, 30.0);
    }

    #[test]
    fn a_failed_call_has_the_configured_status() {
        let dead_lettered = |status| {
            let scenario = Scenario { failed_call: FailedCall::Status(status), ..ten_messages(1.0, None) };
            let policy = r#"{"max_attempts":1,"circuit_breaker":false,"non_retryable":["HttpStatus.500"]}"#;
            run_policy(&Policy::from_json(policy).unwrap(), &scenario, &|_| {}).unwrap().dead_lettered
        };
        let [failed, exhausted] =
            [500, 503].map(|status| dead_lettered(status).into_keys().collect::<Vec<_>>());
        assert_eq!(
            (failed, exhausted),
            (vec!["NON_RETRYABLE_ERROR".to_owned()], vec!["RETRY_ATTEMPT_EXCEEDED".to_owned()])
        );
    }
}

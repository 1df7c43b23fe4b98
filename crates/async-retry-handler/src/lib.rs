//! The async-retry-handler: open → parse → decide → invoke again, wait on the queue, or give up → confirm.

mod invocations;
mod on_aws;

use std::time::Duration;

use futures_util::join;
use redeliver_core::arrival::Arrival;
use redeliver_core::async_retry::{FailedInvocation, InvocationDecision, RetryInvocation, decide_invocation};
use redeliver_core::deliver::{Outbox, PendingSend, stop_time, time_until};
use redeliver_core::events::Event;
use redeliver_core::failure::reason::{DeadLetterReason, GiveUp};
use redeliver_core::failure::{Delivery, Failure, HandOff, Stage};
use redeliver_core::function_arn::FunctionArns;
use redeliver_core::message::origin::Origin;
use redeliver_core::message::{Confirmed, ReceivedMessage, Timestamp};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{AsyncInvoker, Clock, FlushOnDrop, Function, Observer, QueueSender};

use invocations::{Reinvocation, ReinvocationOutcomes};

pub use on_aws::{NAME, run};

/// Time reserved at the end of an invocation for verdicts on events that Lambda rejected, and for the response.
const VERDICT_RESERVE: Duration = Duration::from_secs(5);

/// The async-retry-handler with its dependencies.
#[derive(Debug)]
pub struct AsyncRetryHandler<I, Q, C, O> {
    pub invoker: I,
    /// The queue that the handler consumes, on which records wait out their backoff.
    pub retry_queue: Q,
    pub annotation_queue: Q,
    pub clock: C,
    pub observer: O,
    /// The policy for retries and for giving up.
    pub policy: Policy,
    /// The functions that the handler may invoke.
    pub functions: FunctionArns,
}

impl<I: AsyncInvoker, Q: QueueSender, C: Clock, O: Observer> Function for AsyncRetryHandler<I, Q, C, O> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> Vec<Confirmed> {
        let _flush_guard = FlushOnDrop(&self.observer);
        let now = self.clock.now();
        let outbox = Outbox::new(&self.clock, &self.observer, deadline);
        let mut reinvocations = Vec::new();
        let mut hops = Vec::new();
        let mut verdicts = Vec::new();
        for record in records {
            match self.next_step(record, now) {
                NextStep::Invoke(reinvocation) => reinvocations.push(*reinvocation),
                NextStep::Hop(outgoing) => hops.push(*outgoing),
                NextStep::Verdict(outgoing) => verdicts.push(*outgoing),
            }
        }
        let invocations_end = stop_time(VERDICT_RESERVE, now, deadline);
        let (ReinvocationOutcomes { mut done, refused }, hops, verdicts) = join!(
            self.invoke_all(invocations_end, reinvocations),
            outbox.send_hops(&self.retry_queue, hops),
            outbox.send(&self.annotation_queue, "verdict", verdicts),
        );
        // Sent after the invocations, since only their responses show which events Lambda rejects.
        let refused = outbox.send(&self.annotation_queue, "verdict", refused).await;
        done.extend(hops.into_iter().chain(verdicts).chain(refused));
        done
    }
}

/// The next step for a record.
enum NextStep {
    Invoke(Box<Reinvocation>),
    Hop(Box<PendingSend>),
    Verdict(Box<PendingSend>),
}

impl<I, Q, C, O> AsyncRetryHandler<I, Q, C, O> {
    /// Decides the next step for a record. Lambda's records have no attributes, but a relay may add some.
    fn next_step(&self, record: ReceivedMessage, now: Timestamp) -> NextStep {
        // A `Failure` here is as untrusted as a relay's other attributes.
        let arrival = Arrival::from_record(record, now);
        let failed = match FailedInvocation::parse(&arrival.record.body) {
            Ok(failed) => failed,
            Err(problem) => {
                let reason = DeadLetterReason::InvalidMessageFormat;
                let failure = Failure::for_invalid_message(
                    reason,
                    &problem,
                    Delivery::from_record(&arrival.record, None, arrival.origin, now),
                );
                return NextStep::Verdict(build_verdict(arrival, None, failure, reason.into()));
            }
        };
        let request_id = failed.request_id.to_string();
        let failure = last_failure(&arrival.record, &failed);
        match decide_invocation(&self.policy, &self.functions, &failed, arrival.came_back.is_some(), now) {
            InvocationDecision::Invoke(RetryInvocation { payload, retry, total_delay }) => {
                let scheduled = Event::RetryScheduled {
                    message_id: request_id.clone(),
                    retry_attempt: retry.attempt,
                    spends_attempt: true,
                    delay_seconds: total_delay,
                    age_seconds: time_until(failed.first_failed_at, now).as_secs_f64(),
                    error_type: Some(failed.error.error_type.loggable_name().into_owned()),
                    // `message_id` is already the request id.
                    request_id: None,
                };
                let function_arn = failed.function_arn;
                NextStep::Invoke(Box::new(Reinvocation {
                    arrival,
                    request_id,
                    function_arn,
                    payload,
                    failure,
                    scheduled,
                }))
            }
            // The record is passed on unchanged, since its due time is computed from its content alone.
            InvocationDecision::Hop(delay) => NextStep::Hop(Box::new(arrival.pass_on(delay, None))),
            InvocationDecision::GiveUp(give_up) => {
                NextStep::Verdict(build_verdict(arrival, Some(request_id), failure, give_up))
            }
        }
    }
}

/// Returns the last error of the failed invocation and the number of retries made, for a verdict.
fn last_failure(record: &ReceivedMessage, failed: &FailedInvocation<'_>) -> Failure {
    let delivery = Delivery {
        sent_at: failed.first_failed_at,
        ..Delivery::from_record(record, None, Origin::Unknown, failed.failed_at)
    };
    Failure {
        attempts: Some(failed.retries_made),
        ..HandOff::from_handler_error(&failed.error, delivery).into()
    }
}

/// Builds a verdict on the record. The record remains the message's body.
fn build_verdict(
    arrival: Arrival,
    request_id: Option<String>,
    failure: Failure,
    give_up: GiveUp,
) -> Box<PendingSend> {
    Box::new(arrival.give_up(request_id, Stage::AsyncRetryHandler, failure, give_up))
}

#[cfg(test)]
mod tests;

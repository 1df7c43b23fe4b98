//! The async-retry handler: parse → decide → invoke again, wait on the queue, or give up → report.

mod arrival;
mod invocations;

use std::time::Duration;

use futures_util::join;
use redeliver_core::async_retry::{Decision, FailedInvocation, Invocation, decide};
use redeliver_core::attributes::{Arrived, arrived};
use redeliver_core::delivery::{Outgoing, Reporter, keep_free, until};
use redeliver_core::events::RetryScheduled;
use redeliver_core::function_arn::FunctionArns;
use redeliver_core::message::{ReceivedMessage, Timestamp};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{AsyncInvoker, BatchResponse, Clock, Function, Observer, QueueSender};

use arrival::Arrival;
use invocations::{Job, Outcomes};

/// Kept free at the end of an invocation, for the verdicts on what Lambda refused and for the answer.
const VERDICT_RESERVE: Duration = Duration::from_secs(5);

/// The async-retry handler and all that it needs of the world.
#[derive(Debug)]
pub struct AsyncRetryHandler<I, Q, C, O> {
    /// Invokes functions.
    pub invoker: I,
    /// Its own queue, where a record waits for the end of its backoff.
    pub retry_queue: Q,
    /// Where verdicts go.
    pub annotation_queue: Q,
    /// The clock.
    pub clock: C,
    /// Logs and metrics.
    pub observer: O,
    /// When a function is invoked again, and when its event is given up.
    pub policy: Policy,
    /// The functions that it may invoke.
    pub functions: FunctionArns,
}

impl<I: AsyncInvoker, Q: QueueSender, C: Clock, O: Observer> Function for AsyncRetryHandler<I, Q, C, O> {
    async fn process(&self, records: Vec<ReceivedMessage>, deadline: Timestamp) -> BatchResponse {
        let now = self.clock.now();
        let reporter = Reporter::new(&self.clock, &self.observer, deadline);
        let mut jobs = Vec::new();
        let mut hops = Vec::new();
        let mut verdicts = Vec::new();
        for record in records {
            match self.settle(record, now) {
                Settled::Invoke(job) => jobs.push(*job),
                Settled::Hop(outgoing) => hops.push(*outgoing),
                Settled::Verdict(outgoing) => verdicts.push(*outgoing),
            }
        }
        let invocations_end = keep_free(VERDICT_RESERVE, now, deadline);
        let (Outcomes { not_done, refused }, hops, verdicts) = join!(
            self.invoke_all(invocations_end, jobs),
            reporter.hop(&self.retry_queue, hops),
            reporter.send(&self.annotation_queue, "verdict", verdicts),
        );
        let refused = reporter.send(&self.annotation_queue, "verdict", refused).await;
        BatchResponse { failed: [not_done, hops, verdicts, refused].concat() }
    }
}

/// What is to be done with a record.
enum Settled {
    Invoke(Box<Job>),
    Hop(Box<Outgoing>),
    Verdict(Box<Outgoing>),
}

impl<I, Q, C, O> AsyncRetryHandler<I, Q, C, O> {
    fn settle(&self, mut record: ReceivedMessage, now: Timestamp) -> Settled {
        let Arrived { producer, came_back, .. } = arrived(std::mem::take(&mut record.attributes));
        let arrival = Arrival { record, producer };
        let failed = match FailedInvocation::parse(&arrival.record.body) {
            Ok(failed) => failed,
            Err(wrong) => return Settled::Verdict(arrival.not_a_record(&wrong, now)),
        };
        let request_id = failed.request_id.to_string();
        let failure = arrival.failure(&failed);
        match decide(&self.policy, &self.functions, &failed, came_back, now) {
            Decision::Invoke(Invocation { payload, retry, waited }) => {
                let scheduled = RetryScheduled {
                    message_id: request_id,
                    retry_attempt: retry.attempt,
                    spends_attempt: true,
                    delay_seconds: waited,
                    age_seconds: until(failed.first_failed_at, now).as_secs_f64(),
                    error_type: Some(failed.error.error_type.loggable().into_owned()),
                };
                let function_arn = failed.function_arn;
                Settled::Invoke(Box::new(Job { arrival, function_arn, payload, failure, scheduled }))
            }
            Decision::Hop(hop) => Settled::Hop(arrival.hop(hop.delay)),
            Decision::GiveUp(give_up) => {
                Settled::Verdict(arrival.verdict(Some(request_id), failure, give_up))
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Invocations, with bounded concurrency, one outcome each, and a cutoff before the deadline.

use futures_util::stream::{self, StreamExt};
use futures_util::{FutureExt, pin_mut, select_biased};
use redeliver_core::arrival::Arrival;
use redeliver_core::deliver::{PendingSend, time_until};
use redeliver_core::events::Event;
use redeliver_core::failure::Failure;
use redeliver_core::failure::reason::{DeadLetterReason, GiveUp};
use redeliver_core::message::{Confirmed, Timestamp};
use redeliver_core::ports::{AsyncInvokeError, AsyncInvoker, Clock, Observer};

use super::{AsyncRetryHandler, build_verdict};

/// The maximum number of concurrent requests to Lambda: the largest batch that an event source mapping delivers without
/// a batching window.
const CONCURRENCY: usize = 10;

/// A function to invoke again.
#[derive(Debug)]
pub(super) struct Reinvocation {
    pub(super) arrival: Arrival,
    pub(super) request_id: String,
    pub(super) function_arn: String,
    pub(super) payload: String,
    /// The failure to report if Lambda rejects the payload.
    pub(super) failure: Failure,
    /// Reported once Lambda has accepted the event.
    pub(super) scheduled: Event,
}

/// The results of the invocations.
#[derive(Debug, Default)]
pub(super) struct ReinvocationOutcomes {
    /// Records whose events Lambda has accepted.
    pub(super) done: Vec<Confirmed>,
    /// Verdicts on events that Lambda will never accept.
    pub(super) refused: Vec<PendingSend>,
}

impl<I: AsyncInvoker, Q, C: Clock, O: Observer> AsyncRetryHandler<I, Q, C, O> {
    /// Invokes each function. An event without a response by `end` may already be queued. It is sent again later, which
    /// may create a copy.
    pub(super) async fn invoke_all(
        &self,
        end: Timestamp,
        reinvocations: Vec<Reinvocation>,
    ) -> ReinvocationOutcomes {
        let answers = self.collect_responses(end, &reinvocations).await;
        let mut outcomes = ReinvocationOutcomes::default();
        for (reinvocation, answer) in reinvocations.into_iter().zip(answers) {
            match answer {
                Ok(()) => {
                    self.observer.observe(&reinvocation.scheduled);
                    outcomes.done.push(reinvocation.arrival.record.into_receipt().confirm());
                }
                Err(AsyncInvokeError::TooLarge) => {
                    let bytes = reinvocation.payload.len();
                    let explanation = format!(
                        "With its retry metadata the payload has {bytes} bytes, more than Lambda accepts"
                    );
                    outcomes
                        .refused
                        .push(reinvocation.into_verdict(DeadLetterReason::MessageTooLarge, explanation));
                }
                Err(AsyncInvokeError::Invalid) => {
                    let explanation = "Lambda rejected the payload as invalid JSON".to_owned();
                    outcomes
                        .refused
                        .push(reinvocation.into_verdict(DeadLetterReason::InvalidMessageFormat, explanation));
                }
                Err(AsyncInvokeError::NotNow { code }) => {
                    let sqs_message_id = reinvocation.arrival.record.sqs_message_id;
                    let send = "invocation";
                    self.observer.observe(&Event::NotConfirmed { sqs_message_id, send, code });
                }
            }
        }
        outcomes
    }

    /// Collects one response per invocation, in order.
    async fn collect_responses(
        &self,
        end: Timestamp,
        reinvocations: &[Reinvocation],
    ) -> Vec<Result<(), AsyncInvokeError>> {
        let no_answer = || Err(AsyncInvokeError::NotNow { code: "NoAnswerBeforeDeadline".to_owned() });
        let requests = reinvocations.iter().enumerate().map(|(index, reinvocation)| async move {
            // An event queued after `end` would be queued a second time on the next receive.
            let in_time = self.clock.now() < end;
            let answer = if in_time {
                self.invoker.invoke_async(&reinvocation.function_arn, &reinvocation.payload).await
            } else {
                no_answer()
            };
            (index, answer)
        });
        let requests: Vec<_> = requests.collect();
        // Invocations that were not started and invocations without a response are treated alike: their records are
        // received again either way.
        let mut answers: Vec<_> = reinvocations.iter().map(|_| no_answer()).collect();
        let answering = stream::iter(requests).buffer_unordered(CONCURRENCY).fuse();
        let time_is_up = self.clock.sleep(time_until(self.clock.now(), end)).fuse();
        pin_mut!(answering, time_is_up);
        loop {
            select_biased! {
                answered = answering.next() => match answered {
                    Some((index, answer)) => answers[index] = answer,
                    None => return answers,
                },
                () = time_is_up => return answers,
            }
        }
    }
}

impl Reinvocation {
    fn into_verdict(self, reason: DeadLetterReason, explanation: String) -> PendingSend {
        let Self { arrival, request_id, failure, .. } = self;
        *build_verdict(arrival, Some(request_id), failure, GiveUp { reason, explanation })
    }
}

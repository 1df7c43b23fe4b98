//! The functions, wired to the queues of a [`Topology`].

use std::num::NonZeroUsize;

use redeliver_async_retry_handler::AsyncRetryHandler;
use redeliver_core::function_arn::FunctionArns;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::redelivery::Redelivery;
use redeliver_core::strategy::OnFailure;
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::{MessageProcessor, SharedBreaker};

use crate::lambda::FUNCTION_ARN;
use crate::topology::Topology;

/// The maximum number of concurrent calls to the target: the default for the `MAX_CONCURRENCY` setting.
pub const MAX_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("ten is not zero");

/// Creates the message-processor, for retry loops that have one.
pub fn message_processor<H, Q: Clone, C, O>(
    topology: &Topology<Q>,
    handler: H,
    clock: C,
    observer: O,
    schema: MessageSchema,
    policy: Policy,
) -> MessageProcessor<H, Q, C, O> {
    let strategy = topology.retry_loop.strategy();
    let on_failure = strategy
        .and_then(|strategy| OnFailure::from_wiring(strategy, topology))
        .expect("async-retry has its own handler, and the topology has every strategy's queues")
        .map_queues(Q::clone);
    MessageProcessor {
        handler,
        on_failure,
        breaker: SharedBreaker::from_policy(&policy),
        policy,
        annotation_queue: topology.annotation.clone(),
        clock,
        observer,
        schema,
        resenders: topology.resenders.clone(),
        max_concurrency: MAX_CONCURRENCY,
    }
}

/// Creates the failed-message-processor, if the strategy has an intermediate DLQ.
pub fn failed_message_processor<Q: Clone, C, O>(
    topology: &Topology<Q>,
    clock: C,
    observer: O,
    schema: MessageSchema,
    policy: Policy,
) -> Option<FailedMessageProcessor<Q, C, O>> {
    topology.intermediate.clone().map(|intermediate_dlq| FailedMessageProcessor {
        redelivery: Redelivery { source_queue: topology.source.clone(), intermediate_dlq },
        annotation_queue: topology.annotation.clone(),
        clock,
        observer,
        schema,
        policy,
        resenders: topology.resenders.clone(),
    })
}

/// Creates the async-retry-handler, which polls the source queue and may invoke [`LocalLambda`](crate::LocalLambda).
pub fn async_retry_handler<I, Q: Clone, C, O>(
    topology: &Topology<Q>,
    invoker: I,
    clock: C,
    observer: O,
    policy: Policy,
) -> AsyncRetryHandler<I, Q, C, O> {
    AsyncRetryHandler {
        invoker,
        retry_queue: topology.source.clone(),
        annotation_queue: topology.annotation.clone(),
        clock,
        observer,
        policy,
        functions: FunctionArns::parse(FUNCTION_ARN).expect("a test parses this ARN"),
    }
}

/// Creates the final-dlq-annotator, without an archive or notices.
pub fn final_dlq_annotator<Q: Clone, C, O>(
    topology: &Topology<Q>,
    clock: C,
    observer: O,
) -> FinalDlqAnnotator<Q, C, O> {
    FinalDlqAnnotator::new(topology.final_dlq.clone(), clock, observer)
}

#[cfg(test)]
mod tests {
    use redeliver_core::message::Timestamp;
    use redeliver_core::message::origin::{Origin, Resenders};
    use redeliver_core::strategy::Strategy;
    use redeliver_embedded::{EmbeddedSqs, VirtualClock};

    use super::*;
    use crate::batching::Batching;

    /// If the functions did not recognize messages that they re-sent, each environment would have to detect an outage
    /// separately, and a local run would overstate the cost of the outage.
    #[test]
    fn the_functions_recognize_their_own_messages() {
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        let sqs = EmbeddedSqs::new(clock.clone(), 1);
        let topology = Topology::create_queues(&sqs, "loop", Strategy::DelayedResend, 5, Batching::default());
        let topology = clock.block_on(topology).unwrap().for_functions();
        let (policy, schema) = (Policy::default, MessageSchema::default);
        let on_source = message_processor(&topology, (), (), (), schema(), policy());
        let on_intermediate = failed_message_processor(&topology, (), (), schema(), policy()).unwrap();
        let is_own = |resenders: &Resenders| resenders.sender_origin(Some("AROAREDELIVER00000000:functions"));
        assert_eq!(is_own(&on_source.resenders), Origin::Resent);
        assert_eq!(is_own(&on_intermediate.resenders), Origin::Resent);
    }
}

//! One run, in virtual or in real time: create the queues → produce and run the functions → delete the queues → report.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{FutureExt as _, try_join};
use indicatif::ProgressBar;
use redeliver_aws::Stop;
use redeliver_core::message::Timestamp;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Function, Queue, QueueService};
use redeliver_core::strategy::RetryLoop;
use redeliver_embedded::VirtualClock;
use redeliver_message_processor::MessageProcessor;
use redeliver_sim::Batching;
use redeliver_sim::functions::{
    async_retry_handler, failed_message_processor, final_dlq_annotator, message_processor,
};
use redeliver_sim::{
    Engine, EventCounter, LocalLambda, LoopError, LoopFunctions, Pollers, Topology, Tracker, extract_payload,
};

use crate::LocalSetup;
use crate::producer::{Producer, wait_until_drained};
use crate::report::RunReport;
use crate::target::TrackedTarget;
use redeliver_operator::CommandFailure;

/// The backend of a run: an in-memory SQS in virtual time, or an endpoint in real time.
pub(crate) struct Backend<'a, S: QueueService, C> {
    pub(crate) service: &'a S,
    /// Returns the queues as the functions use them.
    pub(crate) for_functions: fn(&Topology<S::Queue>) -> Topology<S::Queue>,
    pub(crate) clock: &'a C,
    /// True if the clock is virtual.
    pub(crate) is_virtual: bool,
    /// The clock to pause during real calls, if time is virtual.
    pub(crate) hold: Option<VirtualClock>,
    /// The prefix of the queues' names.
    pub(crate) prefix: String,
    /// The wait time of a long poll.
    pub(crate) wait: Duration,
    /// Returns the exact number of messages that are visible in the queue with this ARN.
    pub(crate) visible: &'a dyn Fn(&str) -> u64,
    /// Returns the number of requests so far, by action.
    pub(crate) requests: &'a dyn Fn() -> BTreeMap<String, u64>,
}

/// Runs the loop, and deletes its queues even on failure.
pub(crate) async fn run_loop<S: QueueService, C: Clock>(
    setup: LocalSetup,
    backend: Backend<'_, S, C>,
    bar: &ProgressBar,
    output: &mut dyn Write,
    stop: &Stop,
) -> Result<RunReport, CommandFailure> {
    let LocalSetup { retry_loop, policy, .. } = &setup;
    let topology = Topology::create_queues(
        backend.service,
        &backend.prefix,
        *retry_loop,
        policy.max_attempts,
        Batching::default(),
    )
    .await
    .map_err(LoopError::while_doing("creating the queues"))?;
    let outcome = run_on_topology(&topology, setup, &backend, bar, output, stop).await;
    let deleted =
        topology.delete_queues(backend.service).await.map_err(LoopError::while_doing("deleting the queues"));
    outcome.and_then(|report| Ok(deleted.map(|()| report)?))
}

async fn run_on_topology<S: QueueService, C: Clock>(
    topology: &Topology<S::Queue>,
    setup: LocalSetup,
    backend: &Backend<'_, S, C>,
    bar: &ProgressBar,
    output: &mut dyn Write,
    requested: &Stop,
) -> Result<RunReport, CommandFailure> {
    let clock = backend.clock;
    let started = clock.now();
    let interrupted_at = requested.wait_until_requested().map(|()| clock.now()).shared();
    let stop = || interrupted_at.clone().map(drop);
    let observed = RunObservations::default();
    let RunObservations { tracker, events, last_failure } = &observed;
    let mut producer = Producer::new(setup.chunks, tracker, bar);
    let run = LocalRun {
        engine: Engine {
            topology,
            clock,
            is_virtual: backend.is_virtual,
            tracker,
            progress: &|settled| bar.set_position(settled),
            wait: backend.wait,
            pollers: Pollers::constant(1),
            inner_pollers: Pollers::constant(1),
            original_body: if setup.retry_loop == RetryLoop::AsyncRetry {
                extract_payload
            } else {
                |body| body
            },
        },
        queues: &(backend.for_functions)(topology),
        target: TrackedTarget {
            target: &setup.target,
            tracker,
            last_failure,
            clock,
            hold: backend.hold.clone(),
            stop: requested,
        },
        events,
        policy: &setup.policy,
        schema: &setup.schema,
    };
    if setup.retry_loop == RetryLoop::AsyncRetry {
        run.retry_invocations(&mut producer, setup.seed, output, stop).await?;
    } else {
        let visible = || (backend.visible)(topology.source.arn());
        run.retry_messages(&mut producer, &visible, output, stop).await?;
    }
    bar.finish_and_clear();
    let refused = producer.refused;
    let report = build_report(observed, topology, backend, started, interrupted_at.peek().copied()).await?;
    Ok(RunReport { refused, taken_as_success: setup.target.shapes_taken_as_success(), ..report })
}

/// The events of a run.
#[derive(Default)]
struct RunObservations {
    tracker: Mutex<Tracker>,
    events: EventCounter,
    /// The last failure of a real target.
    last_failure: Mutex<Option<String>>,
}

async fn build_report<S: QueueService, C: Clock>(
    RunObservations { tracker, events, last_failure }: RunObservations,
    topology: &Topology<S::Queue>,
    backend: &Backend<'_, S, C>,
    started: Timestamp,
    interrupted_at: Option<Timestamp>,
) -> Result<RunReport, CommandFailure> {
    let tracker = tracker.into_inner().unwrap_or_else(PoisonError::into_inner);
    // A finished message is not waiting, even if a copy of it is in a queue or SQS's count lags behind.
    let waiting = match tracker.missing_count() {
        0 => 0,
        missing => topology
            .count_messages()
            .await
            .map_err(LoopError::while_doing("counting the waiting messages"))?
            .min(missing),
    };
    let interrupted_at = interrupted_at.filter(|_| !tracker.is_settled());
    let end = interrupted_at.or_else(|| tracker.last_settled_at());
    let mut requests = (backend.requests)();
    // Omits the requests that create and delete the queues or count their messages.
    requests.retain(|action, _| action.contains("Message"));
    Ok(RunReport {
        interrupted: interrupted_at.is_some(),
        last_failure: last_failure.into_inner().unwrap_or_else(PoisonError::into_inner),
        seconds: (end.unwrap_or(started) - started).as_seconds_f64(),
        is_virtual: backend.is_virtual,
        requests,
        ..RunReport::new(&tracker, &events.counts(), waiting)
    })
}

/// The functions of a run, and the engine that polls for them.
struct LocalRun<'a, Q, C> {
    engine: Engine<'a, Q, C>,
    /// The queues as the functions use them.
    queues: &'a Topology<Q>,
    target: TrackedTarget<'a, &'a C>,
    events: &'a EventCounter,
    policy: &'a Policy,
    schema: &'a MessageSchema,
}

impl<Q: Queue + Clone, C: Clock> LocalRun<'_, Q, C> {
    fn build_functions<F: Function>(
        &self,
        source_function: F,
    ) -> LoopFunctions<F, impl Function, impl Function> {
        let Self { engine: Engine { clock, .. }, queues, events, policy, schema, .. } = *self;
        let (schema, policy) = (schema.clone(), policy.clone());
        LoopFunctions {
            source_function,
            failed_message_processor: failed_message_processor(queues, clock, events, schema, policy),
            final_dlq_annotator: final_dlq_annotator(queues, clock, events),
        }
    }

    /// Runs `async-retry`: invokes the function with each message, then retries the failed invocations.
    async fn retry_invocations<F: Future<Output = ()>>(
        &self,
        producer: &mut Producer<'_>,
        seed: u64,
        output: &mut dyn Write,
        stop: impl Fn() -> F,
    ) -> Result<(), CommandFailure> {
        let Self { ref engine, queues, ref target, events, policy, .. } = *self;
        let lambda = LocalLambda::new(target.clone(), &engine.topology.source, engine.clock, seed);
        while let Some(chunk) = producer.next_chunk()? {
            engine.invoke_with_messages(chunk.messages, &lambda, stop()).await?;
        }
        let functions =
            self.build_functions(async_retry_handler(queues, &lambda, engine.clock, events, policy.clone()));
        Ok(engine.run_functions(&functions, output, stop()).await?)
    }

    /// Runs the loop of a strategy: sends messages while the functions run.
    async fn retry_messages<F: Future<Output = ()>>(
        &self,
        producer: &mut Producer<'_>,
        visible: &dyn Fn() -> u64,
        output: &mut dyn Write,
        stop: impl Fn() -> F,
    ) -> Result<(), CommandFailure> {
        let Self { ref engine, queues, ref target, events, policy, schema } = *self;
        let functions = self.build_functions(MessageProcessor {
            max_concurrency: target.target.max_concurrency(),
            ..message_processor(queues, target.clone(), engine.clock, events, schema.clone(), policy.clone())
        });
        if let Some(chunk) = producer.next_chunk()? {
            engine.send_messages(chunk.messages, stop()).await?;
        }
        let sending = async {
            // The next chunk is sent once the source queue is empty, so that memory use does not grow with the input.
            while let Some(chunk) = producer.next_chunk()? {
                let drained = wait_until_drained(visible, engine.clock);
                if let Either::Left(_) = select(pin!(stop()), pin!(drained)).await {
                    break;
                }
                engine.send_messages(chunk.messages, std::future::pending()).await?;
            }
            Ok::<_, CommandFailure>(())
        };
        let running = async { Ok(engine.run_functions(&functions, output, stop()).await?) };
        try_join!(sending, running)?;
        Ok(())
    }
}

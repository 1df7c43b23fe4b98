//! One run of the functions in virtual time: create the queues → wire the functions → produce and poll → measure.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::try_join;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Content, OutgoingMessage, Timestamp};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Function};
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, Stuck, VirtualClock};
use serde::Serialize;
use thiserror::Error;
use uuid::Builder;

use super::environments::{Environments, Reuse};
use super::load::{AfterReturn, Load, Wasted};
use super::request_counter::{CountedFunction, CountedQueue, Counter, HeldMessages, QueueRequests};
use super::scenario::{Concurrency, Scenario};
use super::target::SimulatedTarget;
use super::telemetry::Telemetry;
use crate::built_in_target::{BuiltInTarget, Failures};
use crate::cost::{Invocations, Usage};
use crate::engine::{Engine, Functions};
use crate::error::LoopError;
use crate::functions::{failed_message_processor, final_dlq_annotator, message_processor};
use crate::number::float;
use crate::sync::lock;
use crate::topology::Topology;
use crate::tracker::Tracker;
use crate::virtual_time::{self, COUNTS_LAG};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurements {
    pub sent: u64,
    /// Successful calls of the target.
    pub processed: u64,
    /// Final records by `ErrorType`.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Messages that did not come out and are in a queue.
    pub waiting: u64,
    /// Messages that did not come out and are in no queue: a queue's retention ended.
    pub unaccounted: u64,
    /// Re-sends with a delay.
    pub retries: u64,
    /// Hops of messages whose delay is above 900 s.
    pub hops: u64,
    pub calls: u64,
    pub wasted: Wasted,
    /// `None` if the policy has no circuit breaker.
    pub circuit_breaker: Option<CircuitBreaker>,
    pub after_return: AfterReturn,
    /// From the target's return, or from the last send if that is later, until the last message came out.
    pub drain_seconds: u64,
    #[serde(skip)]
    pub load: Load,
    /// The usage that AWS charges for. SQS requests are sends, receives that bring messages, and deletes; without idle
    /// long polls and the reading of the final DLQ.
    #[serde(skip)]
    pub usage: Usage,
}

/// The circuit breakers of all environments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CircuitBreaker {
    /// Messages that were held at least once.
    pub held_messages: u64,
    /// Holds; a message counts each time.
    pub holds: u64,
    /// Times that one opened.
    pub openings: u64,
    /// Calls that tested whether the target was back.
    pub probes: u64,
    /// Environments that were started, each with a circuit breaker of its own.
    pub environments: u64,
}

/// The error that ended a simulation.
#[derive(Debug, Error)]
pub enum SimulationError {
    #[error(transparent)]
    Loop(#[from] LoopError),
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

type EmbeddedTopology = Topology<EmbeddedQueue>;

/// Runs a scenario with a policy. Calls `progress` with the number of messages that have come out.
///
/// # Errors
/// If the scenario cannot run to its end.
pub fn run(
    policy: &Policy,
    scenario: &Scenario,
    progress: &dyn Fn(u64),
) -> Result<Measurements, SimulationError> {
    let clock = virtual_time::clock();
    let sqs = EmbeddedSqs::new(clock.clone(), scenario.seed);
    sqs.set_counts_lag(COUNTS_LAG);
    let simulated = futures_executor::block_on(clock.run(simulate(policy, scenario, &sqs, progress)))?;
    Ok(simulated?)
}

async fn simulate(
    policy: &Policy,
    scenario: &Scenario,
    sqs: &EmbeddedSqs,
    progress: &dyn Fn(u64),
) -> Result<Measurements, LoopError> {
    let clock = sqs.clock();
    let start = clock.now();
    let topology = create_queues(sqs, policy, scenario).await?;
    let counters = Counters::new(scenario, clock);
    let built_in = built_in_target(scenario);
    let target = SimulatedTarget::new(scenario, &built_in, clock, &counters.load, &counters.tracker);
    let functions = wire_functions(&topology, target, clock, policy, scenario, &counters);
    let engine = Engine {
        topology: &counters.polled_queues(&topology),
        clock,
        tracker: &counters.tracker,
        progress,
        wait: Duration::from_secs(20),
        batching_window: scenario.batching_window,
        concurrency: scenario.invocations.limit().unwrap_or(1).into(),
        original_body: |body| body,
    };
    let mut no_output = std::io::sink();
    try_join!(produce(&engine, scenario, start), engine.run(&functions, &mut no_output, pending()))?;
    let waiting = topology.waiting().await.map_err(LoopError::sqs("counting what waits"))?;
    let sends = sqs.requests().get("SendMessageBatch").copied().unwrap_or_default();
    Ok(measurements(policy, scenario, start, &counters, waiting, sends))
}

async fn create_queues(
    sqs: &EmbeddedSqs,
    policy: &Policy,
    scenario: &Scenario,
) -> Result<EmbeddedTopology, LoopError> {
    let Scenario { strategy, batching_window, .. } = *scenario;
    Topology::create_with_window(sqs, "simulated", strategy, policy.max_attempts, batching_window)
        .await
        .map_err(LoopError::sqs("creating the queues"))
}

/// Everything that is counted during a run.
struct Counters {
    tracker: Mutex<Tracker>,
    load: Mutex<Load>,
    telemetry: Telemetry,
    held: HeldMessages,
    /// Invocations of the message-processor, and of the other functions.
    calling: Counter,
    deciding: Counter,
    environments: Counter,
    /// The functions' own requests.
    of_functions: QueueRequests,
    /// The polls of the source queue by Lambda.
    of_source_polls: QueueRequests,
    /// The engine's requests, which no deployment makes.
    of_engine: QueueRequests,
}

impl Counters {
    fn new(scenario: &Scenario, clock: &VirtualClock) -> Self {
        let mut tracker = Tracker::default();
        tracker.expect(scenario.messages);
        Self {
            tracker: Mutex::new(tracker),
            load: Mutex::default(),
            telemetry: Telemetry::new(clock.clone()),
            held: HeldMessages::default(),
            calling: Counter::default(),
            deciding: Counter::default(),
            environments: Counter::default(),
            of_functions: QueueRequests::default(),
            of_source_polls: QueueRequests::default(),
            of_engine: QueueRequests::default(),
        }
    }

    /// The queues as the functions use them.
    fn functions_queues(&self, topology: &EmbeddedTopology) -> Topology<CountedQueue<'_>> {
        topology
            .of_functions()
            .map(|queue| CountedQueue { queue: queue.clone(), requests: &self.of_functions })
    }

    /// The queues as the engine polls them.
    fn polled_queues(&self, topology: &EmbeddedTopology) -> Topology<CountedQueue<'_>> {
        let source = CountedQueue { queue: topology.source.clone(), requests: &self.of_source_polls };
        let counted =
            |queue: &EmbeddedQueue| CountedQueue { queue: queue.clone(), requests: &self.of_engine };
        Topology { source, ..topology.map(counted) }
    }

    fn deciding<F>(&self, function: F) -> CountedFunction<'_, F> {
        CountedFunction { function, invocations: &self.deciding, held: &self.held }
    }
}

fn built_in_target(scenario: &Scenario) -> BuiltInTarget {
    let rate = scenario.fault.failure_rate().unwrap_or(0.0);
    BuiltInTarget::new(Failures { rate, seed: scenario.seed, ..Failures::default() })
}

fn wire_functions<'a>(
    topology: &EmbeddedTopology,
    target: SimulatedTarget<'a>,
    clock: &'a VirtualClock,
    policy: &'a Policy,
    scenario: &Scenario,
    counters: &'a Counters,
) -> Functions<impl Function, impl Function, impl Function> {
    let queues = counters.functions_queues(topology);
    let observer = || counters.telemetry.environment_observer();
    let schema = MessageSchema::default;
    let reuse = match scenario.invocations {
        Concurrency::Limited(_) => Reuse::MostRecent,
        Concurrency::Unlimited { environments } => Reuse::InTurn(environments.into()),
    };
    let failed_message_processor =
        failed_message_processor(&queues, clock, observer(), schema(), policy.clone());
    let final_dlq_annotator = final_dlq_annotator(&queues, clock, observer());
    let message_processors = Environments::new(reuse, clock, &counters.environments, move || {
        message_processor(&queues, target, clock, observer(), schema(), policy.clone())
    });
    Functions {
        on_source: CountedFunction {
            function: message_processors,
            invocations: &counters.calling,
            held: &counters.held,
        },
        failed_message_processor: failed_message_processor.map(|function| counters.deciding(function)),
        final_dlq_annotator: counters.deciding(final_dlq_annotator),
    }
}

/// Sends each message at its second.
async fn produce(
    engine: &Engine<'_, CountedQueue<'_>, VirtualClock>,
    scenario: &Scenario,
    start: Timestamp,
) -> Result<(), LoopError> {
    let mut ids = ChaCha8Rng::seed_from_u64(scenario.seed);
    let mut numbers = (0..scenario.messages).peekable();
    while let Some(second) = numbers.peek().map(|number| scenario.second_of(*number)) {
        engine.clock.sleep_until(start + Duration::from_secs(second)).await;
        let mut messages = Vec::new();
        while let Some(number) = numbers.next_if(|number| scenario.second_of(*number) == second) {
            messages.push(message(number, &mut ids));
        }
        engine.send(messages, pending()).await?;
    }
    Ok(())
}

fn message(number: u64, ids: &mut ChaCha8Rng) -> OutgoingMessage {
    let mut bytes = [0; 16];
    ids.fill_bytes(&mut bytes);
    let id = Builder::from_random_bytes(bytes).into_uuid();
    let body = format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{"number":{number}}}}}"#);
    OutgoingMessage::new(Content { body, ..Content::default() }).expect("a hundred legal bytes are a message")
}

fn measurements(
    policy: &Policy,
    scenario: &Scenario,
    start: Timestamp,
    counters: &Counters,
    waiting: u64,
    sends: u64,
) -> Measurements {
    let tracker = lock(&counters.tracker);
    // Copies of messages that have come out may be waiting, too: they do not count.
    let waiting = waiting.min(tracker.missing());
    // A target that was never down has been back since the first message.
    let return_second = scenario.fault.outage_seconds().unwrap_or(0);
    let drain_start = return_second.max(scenario.second_of(scenario.messages - 1));
    let last_settled = tracker.last_settled_at().map_or(0, |at| (at - start).num_seconds().unsigned_abs());
    let events = counters.telemetry.events.counts();
    let load = std::mem::take(&mut *lock(&counters.load));
    Measurements {
        sent: tracker.total_sent(),
        processed: tracker.total_processed(),
        dead_lettered: tracker.dead_letters().clone(),
        waiting,
        unaccounted: tracker.missing() - waiting,
        retries: events.delays.iter().sum(),
        hops: events.hops,
        calls: load.calls(),
        wasted: load.wasted,
        circuit_breaker: policy.circuit_breaker.as_ref().map(|_| CircuitBreaker {
            held_messages: counters.held.count(),
            holds: events.holds,
            openings: events.openings,
            probes: events.probes,
            environments: counters.environments.get(),
        }),
        after_return: load.after(return_second),
        drain_seconds: last_settled.saturating_sub(drain_start),
        load,
        usage: usage(counters, sends),
    }
}

fn usage(counters: &Counters, sends: u64) -> Usage {
    let invocations =
        Invocations { calling: float(counters.calling.get()), deciding: float(counters.deciding.get()) };
    let depths = counters.of_functions.depths.get();
    // Each batch takes a receive and a delete. A batching window takes several receives on the source queue.
    let source_receives = counters.of_source_polls.receives.get();
    Usage {
        sqs_requests: float(sends + depths + source_receives)
            + invocations.calling
            + 2.0 * invocations.deciding,
        invocations,
        log_bytes: float(counters.telemetry.log_bytes.get()),
    }
}

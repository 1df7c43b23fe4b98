//! One run of the real functions in virtual time.

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
use redeliver_core::ports::Clock;
use redeliver_embedded::{EmbeddedSqs, Stuck, VirtualClock};
use serde::Serialize;
use thiserror::Error;
use uuid::Builder;

use super::environments::{Environments, Taken};
use super::load::{AfterReturn, Load, Wasted};
use super::log_bytes::Events;
use super::request_counter::{Counted, Counts, Watched};
use super::scenario::{Concurrency, Scenario};
use super::target::SimulatedTarget;
use crate::built_in_target::{Chances, Failing};
use crate::cost::{CALL_SECONDS, Invocations, Usage};
use crate::engine::{Engine, Functions};
use crate::error::LoopError;
use crate::functions::{failed_message_processor, final_dlq_annotator, message_processor};
use crate::number::float;
use crate::sync::lock;
use crate::topology::Topology;
use crate::tracker::Ledger;
use crate::virtual_time::{self, COUNTS_LAG};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub sent: u64,
    /// Successes of the target.
    pub processed: u64,
    /// Final records by `ErrorType`.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Messages that did not come out and are in a queue.
    pub waiting: u64,
    /// Messages that did not come out and are in no queue: its retention ended.
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
    /// From the target's return, or from the last message's sending if that is later, to the last message's end.
    pub drain_seconds: u64,
    #[serde(skip)]
    pub load: Load,
    /// What is paid for by use. SQS requests: sends, receives that bring messages, and deletes; without idle long polls
    /// and the reading of the final DLQ.
    #[serde(skip)]
    pub usage: Usage,
}

/// What the circuit breakers of all environments did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CircuitBreaker {
    /// Messages that were held at least once.
    pub held_messages: u64,
    /// How often messages were held.
    pub holds: u64,
    /// How often one opened.
    pub openings: u64,
    /// Calls that asked whether the target was back.
    pub probes: u64,
    /// Environments that were started, each with a circuit breaker of its own.
    pub environments: u64,
}

/// Why a simulation has no result.
#[derive(Debug, Error)]
pub enum SimulationError {
    #[error(transparent)]
    Loop(#[from] LoopError),
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// Runs a scenario with a policy. `progress` gets how many messages have come out.
pub fn run(
    policy: &Policy,
    scenario: &Scenario,
    progress: &dyn Fn(u64),
) -> Result<Measured, SimulationError> {
    let clock = virtual_time::clock();
    let sqs = EmbeddedSqs::new(clock.clone(), scenario.seed);
    sqs.set_counts_lag(COUNTS_LAG);
    let measured = futures_executor::block_on(clock.run(measure(policy, scenario, &sqs, progress)))?;
    Ok(measured?)
}

async fn measure(
    policy: &Policy,
    scenario: &Scenario,
    sqs: &EmbeddedSqs,
    progress: &dyn Fn(u64),
) -> Result<Measured, LoopError> {
    let clock = sqs.clock();
    let start = clock.now();
    let (strategy, attempts) = (scenario.strategy, policy.max_attempts);
    let topology = Topology::create_for(sqs, "simulated", strategy, attempts, scenario.batching_window)
        .await
        .map_err(LoopError::sqs("creating the queues"))?;
    let mut expected = Ledger::default();
    expected.expect(scenario.messages);
    let (load, ledger, events) = (Mutex::default(), Mutex::new(expected), Events::new(clock.clone()));
    let rate = scenario.trouble.failure_rate().unwrap_or(0.0);
    let failing = Failing::new(Chances { rate, seed: scenario.seed, ..Chances::default() });
    let target = SimulatedTarget {
        clock,
        start,
        scenario,
        failing: &failing,
        call: scenario.invocations.limit().map_or(Duration::ZERO, |_| Duration::from_secs_f64(CALL_SECONDS)),
        load: &load,
        ledger: &ledger,
    };
    let schema = MessageSchema::default;
    // Three books: what the functions ask for, what Lambda's pollers get from the source queue, and what the engine does
    // for itself, which no deployment does and nobody pays for.
    let (asked, polled, of_engine) = (Counts::default(), Counts::default(), Counts::default());
    let queues = topology.of_functions().map(|queue| Watched { queue: queue.clone(), counts: &asked });
    let polled_queues = topology.map(|queue| Watched { queue: queue.clone(), counts: &of_engine });
    let source = Watched { queue: topology.source.clone(), counts: &polled };
    let polled_queues = Topology { source, ..polled_queues };
    let retrying =
        failed_message_processor(&queues, clock, events.of_environment(), schema(), policy.clone());
    let taken = match scenario.invocations {
        Concurrency::Limited(_) => Taken::MostRecent,
        Concurrency::Unlimited { environments } => Taken::InTurn(environments.into()),
    };
    let environments = Environments::new(taken, clock, || {
        message_processor(&queues, target, clock, events.of_environment(), schema(), policy.clone())
    });
    let functions = Functions {
        on_source: Counted::new(environments, &asked),
        failed_message_processor: retrying.map(|function| Counted::new(function, &asked)),
        final_dlq_annotator: Counted::new(
            final_dlq_annotator(&queues, clock, events.of_environment()),
            &asked,
        ),
    };
    let engine = Engine {
        topology: &polled_queues,
        clock,
        ledger: &ledger,
        progress,
        wait: Duration::from_secs(20),
        batching_window: scenario.batching_window,
        pollers: scenario.invocations.limit().unwrap_or(1).into(),
        what_went_in: |body| body,
    };
    let mut output = std::io::sink();
    try_join!(feed(&engine, scenario, start), engine.run(&functions, &mut output, pending()))?;
    let waiting = topology.waiting().await.map_err(LoopError::sqs("counting what waits"))?;
    let ledger = lock(&ledger);
    let missing = ledger.total_sent() - ledger.settled();
    // A copy of what has come out may wait, too; only what has not come out is of interest.
    let waiting = waiting.min(missing);
    // A target that was never away has been there from the first message on.
    let return_second = scenario.trouble.outage_seconds().unwrap_or(0);
    let quiet_from = return_second.max(scenario.second_of(scenario.messages - 1));
    let ended = ledger.last_settled_at().map_or(0, |at| (at - start).num_seconds().unsigned_abs());
    let retrying = functions.failed_message_processor.as_ref();
    let invocations = Invocations {
        calling: float(functions.on_source.invocations()),
        deciding: float(
            retrying.map_or(0, Counted::invocations) + functions.final_dlq_annotator.invocations(),
        ),
    };
    let sends = sqs.requests().get("SendMessageBatch").copied().unwrap_or_default();
    let counts = events.tally.counts();
    let load = std::mem::take(&mut *lock(&load));
    Ok(Measured {
        sent: ledger.total_sent(),
        processed: ledger.total_processed(),
        dead_lettered: ledger.dead_letters().clone(),
        waiting,
        unaccounted: missing - waiting,
        retries: counts.delays.iter().sum(),
        hops: counts.hops,
        calls: load.calls(),
        wasted: load.wasted,
        circuit_breaker: policy.circuit_breaker.as_ref().map(|_| CircuitBreaker {
            held_messages: asked.held_messages(),
            holds: counts.holds,
            openings: counts.openings,
            probes: counts.probes,
            environments: functions.on_source.function.started(),
        }),
        after_return: load.after(return_second),
        drain_seconds: ended.saturating_sub(quiet_from),
        load,
        usage: Usage {
            // For each batch a receive and a delete, and on the source queue more receives if a window waits for them.
            sqs_requests: float(sends + asked.looks() + polled.receives())
                + invocations.calling
                + 2.0 * invocations.deciding,
            invocations,
            log_bytes: float(events.log_bytes()),
        },
    })
}

/// Sends the messages, each in its second.
async fn feed(
    engine: &Engine<'_, Watched<'_>, VirtualClock>,
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
        engine.feed(messages, pending()).await?;
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

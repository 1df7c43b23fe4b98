//! A run of the functions in virtual time: create the queues → wire the functions → produce and poll → measure.

use std::collections::BTreeMap;
use std::future::pending;
use std::iter::repeat_with;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::try_join;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Content, OutgoingMessage, Timestamp};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{Clock, Function, Queue as _, is_fifo};
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, VirtualClock};
use serde::Serialize;
use uuid::Builder;

use super::delays::{DelayLog, DelayPercentiles, DelaysByGroup};
use super::environments::Environments;
use super::inner_function::{Bottleneck, INNER_CONCURRENCY_MAX, InnerFunction, InnerLoads};
use super::invocation_counter::{CountedFunction, Counter, HeldMessageIds, InvocationCounter};
use super::load::{LoadBySecond, RecoveryLoad, WastedCalls};
use super::plain_sqs::{PlainFunction, PlainSqs};
use super::scenario::{Scenario, ScenarioGroups};
use super::target::SimulatedTarget;
use super::telemetry::Telemetry;
use super::timed_queue::TimedQueue;
use super::times::CallTimes;
use crate::built_in_target::{BuiltInTarget, FailureChances};
use crate::cost::{Invocations, Usage};
use crate::engine::{Engine, LoopFunctions};
use crate::error::LoopError;
use crate::functions::{failed_message_processor, final_dlq_annotator, message_processor};
use crate::number::to_float;
use crate::topology::Topology;
use crate::tracker::Tracker;
use crate::virtual_time;
use redeliver_core::lock;

/// The measurements of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurements {
    pub sent: u64,
    /// Successful calls to the target.
    pub processed: u64,
    /// Final records by `ErrorType`.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Unsettled messages that are still in a queue.
    pub waiting: u64,
    /// Unsettled messages that are not in any queue, because they have exceeded a queue's retention.
    pub unaccounted: u64,
    /// Re-sends with a delay.
    pub retries: u64,
    /// Hops of messages with delays above 900 s.
    pub hops: u64,
    pub calls: u64,
    pub wasted: WastedCalls,
    /// `None` if the policy has no circuit breaker.
    pub circuit_breaker: Option<BreakerCounts>,
    pub after_return: RecoveryLoad,
    /// The inner function that could not keep up, if any.
    pub bottleneck: Option<Bottleneck>,
    /// Seconds from the target's last recovery or the last send, whichever is later, until the last message was
    /// settled.
    pub drain_seconds: u64,
    /// The delay from the send of a message until the target had processed it; `None` if it processed no message.
    pub delay_seconds: Option<DelayPercentiles>,
    /// The delays by group; `None` without groups.
    pub by_group: Option<DelaysByGroup>,
    #[serde(skip)]
    pub load: LoadBySecond,
    /// The usage that AWS charges for. SQS requests are sends, visibility changes, deletes, and receives that return
    /// messages. Idle long polls and reads of the final DLQ are excluded.
    #[serde(skip)]
    pub usage: Usage,
}

impl Measurements {
    /// Returns the number of messages that the target has not processed: dead letters and unsettled messages.
    pub fn unprocessed_count(&self) -> u64 {
        self.sent.saturating_sub(self.processed)
    }
}

/// Totals for the circuit breakers of all environments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BreakerCounts {
    /// Messages that were held at least once.
    pub held_messages: u64,
    /// The number of holds; a message can be held several times.
    pub holds: u64,
    /// The number of times a circuit breaker opened.
    pub openings: u64,
    /// Calls that probed whether the target had recovered.
    pub probes: u64,
    /// Environments started, each with its own circuit breaker.
    pub environments: u64,
}

/// Runs a scenario with a policy. Calls `progress` with the number of settled messages. If an inner function cannot
/// keep up, the scenario is run a second time with the maximum inner concurrency to measure the load on a function that
/// can.
///
/// # Errors
/// If the scenario cannot run to completion.
pub fn run_policy(
    policy: &Policy,
    scenario: &Scenario,
    progress: &dyn Fn(u64),
) -> Result<Measurements, LoopError> {
    let handling = FailureHandling::Redeliver(policy);
    let (mut measurements, loads) = run_once(handling, scenario, progress)?;
    if loads.has_backlog(scenario.inner_concurrency, &scenario.times) {
        let unlimited = Scenario { inner_concurrency: INNER_CONCURRENCY_MAX, ..*scenario };
        let (Measurements { drain_seconds, .. }, kept_up) = run_once(handling, &unlimited, &|_| {})?;
        measurements.bottleneck =
            loads.find_bottleneck(scenario.inner_concurrency, &scenario.times, &kept_up, drain_seconds);
    }
    Ok(measurements)
}

/// Runs a scenario with plain SQS instead of redeliver. Calls `progress` with the number of settled messages.
///
/// # Errors
/// If the scenario cannot run to completion.
pub fn run_plain(
    plain: PlainSqs,
    scenario: &Scenario,
    progress: &dyn Fn(u64),
) -> Result<Measurements, LoopError> {
    run_once(FailureHandling::Plain(plain), scenario, progress).map(|(measurements, _)| measurements)
}

/// The system that handles failed messages.
#[derive(Clone, Copy)]
enum FailureHandling<'a> {
    Redeliver(&'a Policy),
    Plain(PlainSqs),
}

fn run_once(
    handling: FailureHandling<'_>,
    scenario: &Scenario,
    progress: &dyn Fn(u64),
) -> Result<(Measurements, InnerLoads), LoopError> {
    let clock = virtual_time::clock_at_start();
    let sqs = EmbeddedSqs::new(clock.clone(), scenario.seed);
    let (counters, sends) = (RunCounters::default(), scenario.send_times());
    let (start, run_counters) = (clock.now(), &counters);
    let simulation =
        Simulation { handling, scenario, sends: &sends, clock: &clock, start, counters: run_counters };
    let measurements = futures_executor::block_on(clock.run(simulation.run_simulation(&sqs, progress)))??;
    Ok((measurements, counters.inner))
}

#[derive(Clone, Copy)]
struct Simulation<'a> {
    handling: FailureHandling<'a>,
    scenario: &'a Scenario,
    /// The send times.
    sends: &'a [Duration],
    clock: &'a VirtualClock,
    start: Timestamp,
    counters: &'a RunCounters,
}

/// All counters of a run.
#[derive(Default)]
struct RunCounters {
    tracker: Mutex<Tracker>,
    load: Mutex<LoadBySecond>,
    delays: Mutex<DelayLog>,
    telemetry: Telemetry,
    held: HeldMessageIds,
    invocations: InvocationCounter,
    inner: InnerLoads,
    environments: Counter,
    /// The number of environments started for the other functions.
    inner_environments: Counter,
}

impl<'a> Simulation<'a> {
    async fn run_simulation(
        self,
        sqs: &EmbeddedSqs,
        progress: &dyn Fn(u64),
    ) -> Result<Measurements, LoopError> {
        let Self { handling, scenario, sends, clock, start, counters } = self;
        let Scenario { strategy, batching, seed, times, .. } = *scenario;
        let topology = match handling {
            FailureHandling::Redeliver(policy) => {
                Topology::create_queues(sqs, "simulated", strategy, policy.max_attempts, batching).await
            }
            FailureHandling::Plain(plain) => plain.create_topology(sqs, scenario).await,
        };
        let topology = topology.map_err(LoopError::while_doing("creating the queues"))?;
        lock(&counters.tracker).expect_messages(scenario.messages);
        let rate = scenario.fault.failure_rate().unwrap_or(0.0);
        let built_in = BuiltInTarget::new(FailureChances { rate, seed, ..FailureChances::default() });
        let RunCounters { load, tracker, delays, .. } = counters;
        let (built_in, call_times) = (&built_in, &CallTimes::new(times, seed));
        let target =
            SimulatedTarget { clock, start, scenario, sends, built_in, call_times, load, tracker, delays };
        let engine = Engine {
            topology: &topology,
            clock,
            is_virtual: true,
            tracker: &counters.tracker,
            progress,
            wait: Duration::from_secs(20),
            pollers: times.build_pollers(scenario.max_concurrency),
            inner_pollers: times.build_pollers(scenario.inner_concurrency),
            original_body: |body| body,
        };
        let queues = topology.for_functions();
        let mut no_output = std::io::sink();
        let running = async {
            match handling {
                FailureHandling::Redeliver(policy) => {
                    let timed = queues.map_queues(|queue| TimedQueue {
                        queue: queue.clone(),
                        clock: clock.clone(),
                        request: times.request,
                    });
                    let functions = self.build_functions(policy, sqs, &timed, target);
                    engine.run_functions(&functions, &mut no_output, pending()).await
                }
                FailureHandling::Plain(_) => {
                    engine.run_functions(&self.build_plain_functions(target), &mut no_output, pending()).await
                }
            }
        };
        try_join!(self.send_messages(&engine), running)?;
        let waiting = topology
            .count_messages()
            .await
            .map_err(LoopError::while_doing("counting the queued messages"))?;
        let usage = counters.billed_usage(&topology, &queues, scenario.groups.is_some());
        Ok(self.collect_measurements(waiting, usage))
    }

    fn build_plain_functions(
        self,
        target: SimulatedTarget<'a>,
    ) -> LoopFunctions<impl Function, PlainFunction<'a>, PlainFunction<'a>> {
        let Self { scenario, clock, counters, .. } = self;
        let environments =
            Environments::new(scenario.times.cold_start, clock, &counters.environments, move || {
                PlainFunction(target)
            });
        LoopFunctions {
            source_function: self.count_invocations(environments),
            failed_message_processor: None,
            final_dlq_annotator: PlainFunction(target),
        }
    }

    fn build_functions(
        self,
        policy: &'a Policy,
        sqs: &'a EmbeddedSqs,
        queues: &Topology<TimedQueue>,
        target: SimulatedTarget<'a>,
    ) -> LoopFunctions<impl Function, impl Function, impl Function> {
        let Self { scenario, clock, counters, start, .. } = self;
        let observer =
            move || counters.telemetry.environment_observer(clock, start, &counters.load, &counters.held);
        let schema = MessageSchema::default;
        let cold_start = scenario.times.cold_start;
        let InnerLoads { failed_message_processor: load, final_dlq_annotator: annotator_load } =
            &counters.inner;
        let started = &counters.inner_environments;
        let failed_message_processor = queues.intermediate.as_ref().map(|queue| {
            let function = Environments::new(cold_start, clock, started, move || {
                failed_message_processor(queues, clock, observer(), schema(), policy.clone())
                    .expect("the queues include an intermediate DLQ")
            });
            InnerFunction { function, queue: queue.queue.arn().to_owned(), sqs, clock, start, load }
        });
        let final_dlq_annotator = InnerFunction {
            function: Environments::new(cold_start, clock, started, move || {
                final_dlq_annotator(queues, clock, observer())
            }),
            queue: queues.annotation.queue.arn().to_owned(),
            sqs,
            clock,
            start,
            load: annotator_load,
        };
        let message_processors = Environments::new(cold_start, clock, &counters.environments, move || {
            message_processor(queues, target, clock, observer(), schema(), policy.clone())
        });
        LoopFunctions {
            source_function: self.count_invocations(message_processors),
            failed_message_processor: failed_message_processor
                .map(|function| self.count_invocations(function)),
            final_dlq_annotator: self.count_invocations(final_dlq_annotator),
        }
    }

    fn count_invocations<F>(self, function: F) -> CountedFunction<'a, F> {
        let RunCounters { invocations, held, .. } = self.counters;
        CountedFunction { function, clock: self.clock, invocations, held }
    }

    /// Sends each message at its send time. Messages with equal send times are sent together.
    async fn send_messages(self, engine: &Engine<'_, EmbeddedQueue, VirtualClock>) -> Result<(), LoopError> {
        let Self { scenario, sends, start, counters, .. } = self;
        let mut ids = ChaCha8Rng::seed_from_u64(scenario.seed);
        let is_fifo = scenario.strategy.definition().is_fifo;
        let mut groups = scenario.groups.map(|groups| shuffled_groups(groups.count, scenario.seed));
        let mut number = 0;
        for at_once in sends.chunk_by(PartialEq::eq) {
            engine.clock.sleep_until(start + at_once[0]).await;
            let mut messages = Vec::with_capacity(at_once.len());
            for _ in at_once {
                let group = groups.as_mut().and_then(Iterator::next).map(ScenarioGroups::group_id);
                lock(&counters.delays).record_sent(scenario.is_affected(group.as_deref()));
                messages.push(build_message(number, group, is_fifo, &mut ids));
                number += 1;
            }
            engine.send_messages(messages, pending()).await?;
        }
        Ok(())
    }

    fn collect_measurements(self, waiting: u64, usage: Usage) -> Measurements {
        let Self { handling, scenario, sends, counters, start, .. } = self;
        let tracker = lock(&counters.tracker);
        // The queues may also contain copies of settled messages, which do not count.
        let waiting = waiting.min(tracker.missing_count());
        // A target that was never down counts as recovered from the first message on.
        let recovery_second = scenario.recovery_second().unwrap_or(0);
        let drain_start = recovery_second.max(sends.last().map_or(0, Duration::as_secs));
        let last_settled =
            tracker.last_settled_at().map_or(0, |at| (at - start).num_seconds().unsigned_abs());
        let events = counters.telemetry.events.counts();
        let load = std::mem::take(&mut *lock(&counters.load));
        let delays = lock(&counters.delays);
        let has_breaker =
            matches!(handling, FailureHandling::Redeliver(policy) if policy.circuit_breaker.is_some());
        Measurements {
            sent: tracker.total_sent(),
            processed: tracker.total_processed(),
            dead_lettered: tracker.dead_letters().clone(),
            waiting,
            unaccounted: tracker.missing_count() - waiting,
            retries: counters.telemetry.retries.get(),
            hops: events.hops,
            calls: load.total_calls(),
            wasted: load.wasted,
            circuit_breaker: has_breaker.then(|| BreakerCounts {
                held_messages: counters.held.count(),
                holds: events.holds,
                openings: events.openings,
                probes: events.probes,
                environments: counters.environments.get(),
            }),
            after_return: load.load_after(recovery_second),
            bottleneck: None,
            drain_seconds: last_settled.saturating_sub(drain_start),
            delay_seconds: delays.all_delays(),
            by_group: scenario.groups.map(|_| delays.delays_by_group()),
            load,
            usage,
        }
    }
}

impl RunCounters {
    /// Returns the usage that AWS bills. `polled` contains the queues as used by producers and event source mappings;
    /// `used` contains the same queues as used by the functions.
    fn billed_usage(
        &self,
        polled: &Topology<EmbeddedQueue>,
        used: &Topology<EmbeddedQueue>,
        has_groups: bool,
    ) -> Usage {
        // The engine reads the final DLQ and counts the messages in the queues; a deployment does neither.
        let mapping_requests = polled.all_queues().filter(|queue| queue.arn() != polled.final_dlq.arn());
        let mapping_requests = mapping_requests.map(|queue| (queue.arn(), queue.message_requests()));
        let of_functions = used.all_queues().map(|queue| (queue.arn(), queue.message_requests()));
        let (fifo, standard): (Vec<_>, Vec<_>) =
            mapping_requests.chain(of_functions).partition(|(arn, _)| is_fifo(arn));
        let [sqs_requests, sqs_fifo_requests] =
            [standard, fifo].map(|requests| to_float(requests.iter().map(|(_, count)| count).sum()));
        Usage {
            sqs_requests,
            // All requests count: re-sends, hand-offs and verdicts keep the group.
            sqs_fair_requests: if has_groups { sqs_requests } else { 0.0 },
            sqs_fifo_requests,
            invocations: Invocations {
                count: to_float(self.invocations.count.get()),
                seconds: to_float(self.invocations.milliseconds.get()) / 1000.0,
            },
            log_bytes: to_float(self.telemetry.log_bytes.get()),
        }
    }
}

/// Returns each message's group, in send order. Each round contains every group once, so the groups get equal numbers
/// of messages. The order differs from round to round, so no group always hits the same environment.
fn shuffled_groups(count: u32, seed: u64) -> impl Iterator<Item = u32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Stream 0 generates the message ids.
    random.set_stream(1);
    let mut round: Vec<_> = (0..count).collect();
    let shuffled = move || {
        for last in (1..count).rev() {
            round.swap(last as usize, (random.next_u32() % (last + 1)) as usize);
        }
        round.clone()
    };
    repeat_with(shuffled).flatten()
}

fn build_message(
    number: u64,
    message_group_id: Option<String>,
    is_fifo: bool,
    ids: &mut ChaCha8Rng,
) -> OutgoingMessage {
    let mut bytes = [0; 16];
    ids.fill_bytes(&mut bytes);
    let id = Builder::from_random_bytes(bytes).into_uuid();
    let body = format!(r#"{{"metadata":{{"message_id":"{id}"}},"data":{{"number":{number}}}}}"#);
    let deduplication_id = is_fifo.then(|| id.to_string());
    OutgoingMessage::new(Content { body, message_group_id, deduplication_id, ..Content::default() })
        .expect("a hundred legal bytes are a valid message")
}

#[cfg(test)]
mod ordered;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_contains_every_group_in_a_new_order() {
        let groups: Vec<_> = shuffled_groups(5, 0).take(15).collect();
        assert_eq!(groups, [2, 0, 1, 3, 4, 3, 0, 1, 4, 2, 2, 3, 0, 4, 1]);
    }
}

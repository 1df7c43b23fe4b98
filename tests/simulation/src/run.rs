//! Executes a run: faults, recovery, and the final balance.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{BoxFuture, FutureExt as _, join_all, join4};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use redeliver_async_retry_handler::AsyncRetryHandler;
use redeliver_core::decide::QueueTimes;
use redeliver_core::function_arn::FunctionArns;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::plain::{IdAttribute, IdSources, PlainMessages};
use redeliver_core::message::schema::{DataSchema, MessageSchema};
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{
    Clock as _, Queue, QueueDepth as _, QueueSender as _, QueueService as _, QueueSettings, RedriveSettings,
};
use redeliver_core::redelivery::Redelivery;
use redeliver_core::strategy::{OnFailure, RetryLoop, Role, Wiring};
use redeliver_embedded::{EmbeddedQueue, EmbeddedSqs, VirtualClock};
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_message_processor::{MessageProcessor, SharedBreaker};

use crate::archive::new_annotator;
use crate::event_source::EventSource;
use crate::knobs::{DATA_SCHEMA, SimulationKnobs};
use crate::lambda::{EventQueue, FUNCTION_ARN, SimulatedLambda, execute_events};
use crate::ledger::{Actor, Balance, BrokenInvariant, Ledger, SpanCounts};
use crate::messages::{Destiny, ID_ATTRIBUTE, ProducedMessage, message_number, produce_message, with_trace};
use crate::operator::run_operator;
use crate::probe::Probe;
use crate::target::SimulationTarget;
use crate::world::{LedgerObserver, SimulationWorld};

/// The id of the functions' role.
const FUNCTIONS_ROLE: &str = "AROAFUNCTIONS00000000";

/// A run that passed.
#[derive(Clone, Debug)]
pub struct PassedRun {
    /// A hash that is equal for equal runs.
    pub digest: u64,
    /// The final count of the messages.
    pub balance: Balance,
    /// Number of queue changes checked.
    pub changes: u64,
    /// Duration in virtual seconds.
    pub seconds: f64,
    pub spans: SpanCounts,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct FailedRun {
    pub knobs: SimulationKnobs,
    pub violation: BrokenInvariant,
    /// The queue changes before the violation, oldest first.
    pub trace: Vec<String>,
}

impl fmt::Display for FailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knobs, violation, trace } = self;
        writeln!(f, "the last queue changes, oldest first:")?;
        for line in trace {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{knobs:#?}")?;
        writeln!(f, "RETRY_POLICY={}", knobs.policy.to_json())?;
        write!(f, "seed {}: {violation}", knobs.seed)
    }
}

/// The compiled message schemas. Compiling them takes longer than many runs, so it is done only once.
pub struct Schemas {
    default: MessageSchema,
    with_data: MessageSchema,
}

impl Default for Schemas {
    fn default() -> Self {
        let data = DataSchema::new(DATA_SCHEMA).expect("a valid schema");
        Self { default: MessageSchema::default(), with_data: MessageSchema::new(Some(data)) }
    }
}

struct SimulatedQueues {
    source: EmbeddedQueue,
    /// The source queue with the functions' role as the sender.
    resent: EmbeddedQueue,
    intermediate: EmbeddedQueue,
    annotation: EmbeddedQueue,
    final_dlq: EmbeddedQueue,
    /// The visibility timeout and the retention of the source queue.
    times: QueueTimes,
}

impl<'a> Wiring for &'a SimulatedQueues {
    type Queue = &'a EmbeddedQueue;

    fn queue(&mut self, role: Role) -> Option<&'a EmbeddedQueue> {
        Some(match role {
            Role::Source => &self.resent,
            Role::IntermediateDlq => &self.intermediate,
            Role::SourceDlq | Role::Blocked => return None,
            Role::Annotation => &self.annotation,
            Role::FinalDlq => &self.final_dlq,
        })
    }

    fn queue_times(&mut self) -> Option<QueueTimes> {
        Some(self.times)
    }

    fn batch_size(&mut self) -> Option<u16> {
        None
    }
}

/// Executes a run until it ends or breaks a rule.
///
/// # Errors
/// The first broken rule, with everything needed to understand it.
pub fn run_simulation(knobs: SimulationKnobs, schemas: &Schemas) -> Result<PassedRun, Box<FailedRun>> {
    let knobs_of_failure = knobs.clone();
    let died = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        Box::new(FailedRun {
            knobs: knobs_of_failure,
            violation: format!("a panic: {text}"),
            trace: Vec::new(),
        })
    };
    catch_unwind(AssertUnwindSafe(|| run_to_end(knobs, schemas))).unwrap_or_else(|panic| Err(died(panic)))
}

fn run_to_end(knobs: SimulationKnobs, schemas: &Schemas) -> Result<PassedRun, Box<FailedRun>> {
    let schema = if knobs.content.data_schema { &schemas.with_data } else { &schemas.default };
    let attribute = IdAttribute::new(ID_ATTRIBUTE.to_owned()).expect("a valid name");
    let plain = PlainMessages { id: IdSources { attribute: Some(attribute), pointer: None }, body: None };
    let schema = &if knobs.content.plain > 0.0 { schema.clone().with_plain(plain) } else { schema.clone() };
    let seed = knobs.seed;
    let start = DateTime::from_timestamp(1_785_000_000, 123_456_000).expect("a moment in 2026");
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1));
    let asynchronous = knobs.uses_async_retry();
    let destinies = (knobs.target.always_transient, knobs.target.always_permanent);
    let messages =
        (0..knobs.messages).map(|n| produce_message(n, &knobs.content, destinies, start, &mut rng));
    // An asynchronous event consists of its payload alone.
    let bare = |message: ProducedMessage| {
        let content = Content { body: message.content.body, ..Content::default() };
        ProducedMessage { content, max_attempts: None, expires_after_seconds: None, ..message }
    };
    let ungrouped_fail = knobs.target.ungrouped_fail;
    let with_destiny = |message: ProducedMessage| match message.content.message_group_id {
        None if ungrouped_fail && seed.is_multiple_of(2) => {
            ProducedMessage { destiny: Destiny::AlwaysTransient, ..message }
        }
        None if ungrouped_fail => ProducedMessage { destiny: Destiny::AlwaysFaulty, ..message },
        _ => message,
    };
    let messages =
        messages.map(|message| if asynchronous { bare(message) } else { with_destiny(message) }).enumerate();
    let is_traced = knobs.tracing.is_some() && !asynchronous;
    let messages: Vec<_> =
        messages.map(|(n, message)| if is_traced { with_trace(message, n, seed) } else { message }).collect();
    let clock = VirtualClock::new(start);
    let sqs = EmbeddedSqs::new(clock.clone(), seed);
    let queues = clock.block_on(create_queues(&sqs, &knobs));
    let arns = [&queues.source, &queues.intermediate, &queues.annotation, &queues.final_dlq].map(Queue::arn);
    let ledger = Ledger::new(&knobs, &messages, arns, start);
    // The first call starts the log of changes.
    let _empty = sqs.take_changes();
    sqs.set_faults(knobs.fault_plan());
    sqs.set_counts_lag(Duration::from_secs(60));
    let world = SimulationWorld::new(knobs, messages, sqs, ledger);
    clock.block_on(run_actors(&world, &queues, schema));
    let seconds = (clock.now() - start).as_seconds_f64();
    let ledger = world.lock_ledger();
    let outcome = match ledger.violation() {
        Some(violation) => Err(violation.clone()),
        None => ledger.check_balance(),
    };
    match outcome {
        Ok(balance) => {
            let (digest, changes, spans) =
                (ledger.history_digest(), ledger.change_count(), ledger.span_counts());
            Ok(PassedRun { digest, balance, changes, seconds, spans })
        }
        Err(violation) => {
            Err(Box::new(FailedRun { knobs: world.knobs.clone(), violation, trace: ledger.recent_changes() }))
        }
    }
}

/// Creates the queues with the stack's receive counts and retention periods.
async fn create_queues(sqs: &EmbeddedSqs, knobs: &SimulationKnobs) -> SimulatedQueues {
    let visibility = VisibilitySeconds::new(knobs.visibility_seconds()).expect("a few minutes");
    let create = async |name: &str, days: u64, redrive: Option<(&EmbeddedQueue, u16)>| {
        let settings = QueueSettings {
            visibility,
            retention: Duration::from_secs(days * 24 * 3600),
            redrive: redrive.map(|(queue, max_receive_count)| RedriveSettings {
                target_arn: queue.arn().to_owned(),
                max_receive_count,
            }),
            ..QueueSettings::default()
        };
        sqs.create_queue(name, &settings).await.expect("a new queue, and no faults yet")
    };
    let final_dlq = create("final-dlq", 14, None).await;
    let annotation = create("annotation", 14, Some((&final_dlq, knobs.annotation_max_receive_count()))).await;
    let intermediate = create("intermediate-dlq", 14, Some((&annotation, 100))).await;
    let receives = u16::try_from(knobs.source_max_receive_count()).expect("a few retries");
    let source = if knobs.uses_async_retry() {
        create("retry", 14, Some((&annotation, receives))).await
    } else if knobs.uses_visibility() {
        create("source", 7, Some((&annotation, receives))).await
    } else {
        create("source", 7, Some((&intermediate, receives))).await
    };
    let times = QueueTimes { visibility_timeout: visibility, retention: Duration::from_secs(7 * 24 * 3600) };
    let resent = source.with_sender(&format!("{FUNCTIONS_ROLE}:functions"));
    SimulatedQueues { source, resent, intermediate, annotation, final_dlq, times }
}

async fn run_actors(world: &SimulationWorld, queues: &SimulatedQueues, schema: &MessageSchema) {
    let SimulatedQueues { source, final_dlq, .. } = queues;
    let events = EventQueue::default();
    let produce = produce_all(world, source, &events);
    let functions = join_all(spawn_functions(world, queues, schema, &events));
    let operator = run_operator(world, schema, source, final_dlq);
    join4(produce, functions, operator, heal_and_settle(world, queues)).await;
}

/// Returns all processes with their event source mappings, ready to be polled.
fn spawn_functions<'a>(
    world: &'a SimulationWorld,
    queues: &'a SimulatedQueues,
    schema: &MessageSchema,
    events: &'a EventQueue,
) -> Vec<BoxFuture<'a, ()>> {
    let SimulatedQueues { source, resent, intermediate, annotation, final_dlq, .. } = queues;
    let [processors, retriers, annotators] = world.knobs.pollers;
    let policy = build_policy(&world.knobs);
    let observer = LedgerObserver(world);
    let resenders = match world.knobs.senders_known {
        true => Resenders::parse(FUNCTIONS_ROLE).expect("a valid role id"),
        false => Resenders::default(),
    };
    let mut all = Vec::new();
    let asynchronous = world.knobs.uses_async_retry();
    for _ in 0..if asynchronous { processors } else { 0 } {
        let probe = |queue| Probe { world, queue, actor: Actor::AsyncRetryHandler };
        let clock = world.skewed_clock();
        let policy = policy.clone();
        let process = move |clock| AsyncRetryHandler {
            invoker: SimulatedLambda { world, events },
            retry_queue: probe(source),
            annotation_queue: probe(annotation),
            clock,
            observer,
            policy: policy.clone(),
            functions: FunctionArns::parse(FUNCTION_ARN).expect("a valid ARN"),
        };
        let source_mapping = EventSource { queue: probe(source), process, clock };
        all.push(async move { source_mapping.poll_until_end().await }.boxed());
        all.push(execute_events(world, events, source).boxed());
    }
    for _ in 0..processors {
        let Some(strategy) = world.knobs.retry_loop.strategy() else { break };
        let probe = |queue| Probe { world, queue, actor: Actor::MessageProcessor };
        let clock = world.skewed_clock();
        let (policy, schema, resenders) = (policy.clone(), schema.clone(), resenders.clone());
        let process = move |clock| MessageProcessor {
            handler: SimulationTarget::new(world),
            on_failure: OnFailure::from_wiring(strategy, queues).expect("all queues exist").map_queues(probe),
            breaker: SharedBreaker::from_policy(&policy),
            policy: policy.clone(),
            annotation_queue: probe(annotation),
            clock,
            observer,
            schema: schema.clone(),
            resenders: resenders.clone(),
            max_concurrency: world.knobs.max_concurrency(),
        };
        let source = EventSource { queue: probe(source), process, clock };
        all.push(async move { source.poll_until_end().await }.boxed());
    }
    for _ in 0..if asynchronous || world.knobs.uses_visibility() { 0 } else { retriers } {
        let probe = |queue| Probe { world, queue, actor: Actor::FailedMessageProcessor };
        let clock = world.skewed_clock();
        let (policy, schema, resenders) = (policy.clone(), schema.clone(), resenders.clone());
        let process = move |clock| FailedMessageProcessor {
            redelivery: Redelivery { source_queue: probe(resent), intermediate_dlq: probe(intermediate) },
            annotation_queue: probe(annotation),
            clock,
            observer,
            schema: schema.clone(),
            policy: policy.clone(),
            resenders: resenders.clone(),
        };
        let source = EventSource { queue: probe(intermediate), process, clock };
        all.push(async move { source.poll_until_end().await }.boxed());
    }
    for _ in 0..annotators {
        let queue = Probe { world, queue: annotation, actor: Actor::Annotator };
        let clock = world.skewed_clock();
        let process = move |clock| new_annotator(world, final_dlq, clock);
        let source = EventSource { queue, process, clock };
        all.push(async move { source.poll_until_end().await }.boxed());
    }
    all
}

fn build_policy(SimulationKnobs { policy, retry_loop, .. }: &SimulationKnobs) -> Policy {
    let policy = policy.to_json();
    let read = match retry_loop {
        // The model does not include the defaults of the async-retry-handler.
        RetryLoop::AsyncRetry => Policy::from_json(&policy),
        RetryLoop::MessageProcessor(strategy) => strategy.definition().parse_policy(&policy),
    };
    read.expect("the policy model writes valid policies")
}

/// Sends all messages, spread over the duration of the faults. Repeats each send until it is confirmed.
async fn produce_all(world: &SimulationWorld, source: &EmbeddedQueue, events: &EventQueue) {
    let probe = Probe { world, queue: source, actor: Actor::Producer };
    let together = if world.knobs.thin.is_some() { 1 } else { 10 };
    let pause_ms = 1000 * world.knobs.fault_seconds / (world.messages.len() as u64 / together + 1);
    for some in world.messages.chunks(usize::try_from(together).unwrap_or(1)) {
        let contents = some.iter().flat_map(|message| {
            let times = if message.twice { 2 } else { 1 };
            std::iter::repeat_n(message.content.clone(), times)
        });
        for content in contents {
            if world.knobs.uses_async_retry() {
                world.lock_ledger().record_upcoming_send(&content);
                world.lock_ledger().record_queued_event(
                    message_number(&content.body).expect("the producer marks each body"),
                );
                events.push_event(content.body.trim());
            } else {
                send_until_confirmed(world, &probe, content).await;
            }
        }
        if world.has_ended() {
            return;
        }
        world.clock.sleep(Duration::from_millis(world.draw_up_to(2 * pause_ms))).await;
    }
}

async fn send_until_confirmed(world: &SimulationWorld, probe: &Probe<'_>, content: Content) {
    world.lock_ledger().record_upcoming_send(&content);
    let message = OutgoingMessage::new(content).expect("a test checks that SQS accepts the message");
    for batch in pack_batches(std::slice::from_ref(&message)) {
        while !probe.send_batch(batch).await.iter().all(Result::is_ok) {
            world.clock.sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Waits until the faults are due to end, ends them, and checks that every message settles within the time that the
/// policy allows.
async fn heal_and_settle(world: &SimulationWorld, queues: &SimulatedQueues) {
    let end =
        world.clock.now() + TimeDelta::seconds(i64::try_from(world.knobs.fault_seconds).unwrap_or(i64::MAX));
    // Copies create further copies, so the faults end early if there are too many.
    while world.clock.now() < end && !world.should_wind_down() {
        world.clock.sleep(Duration::from_secs(10)).await;
    }
    world.end_faults();
    // Operations that started during the faults can still fail: a long poll, a call, a response in transit.
    world.clock.sleep(Duration::from_secs(30 + 3 * world.knobs.invocation_seconds)).await;
    world.lock_ledger().end_faults(world.clock.now());
    let SimulationKnobs { policy, fault_seconds, .. } = &world.knobs;
    // Each retry and each remaining snooze needs a delay and a visibility timeout; the producer might still be sending.
    let rounds = u64::from(policy.max_attempts) + 100 + 15;
    let moves = 5 * u64::from(policy.redrives_max()) * (900 + world.knobs.visibility_seconds() + 600);
    // Messages whose target is always down are held until their hold limit.
    let held = policy.hold_seconds_max() + 900;
    let patience = 4 * fault_seconds
        + held
        + moves
        + rounds * (policy.longest_delay() + world.knobs.visibility_seconds() + 600);
    let give_up: DateTime<Utc> =
        world.clock.now() + TimeDelta::seconds(i64::try_from(patience).unwrap_or(i64::MAX));
    let mut quiet = 0;
    while !world.has_ended() && quiet < 2 {
        world.clock.sleep(Duration::from_secs(60)).await;
        let empty = queued_messages(queues).await == 0 && world.lock_ledger().is_lambda_idle();
        quiet = if empty && world.lock_ledger().is_everything_sent() { quiet + 1 } else { 0 };
        if world.clock.now() > give_up {
            let unsettled = world.lock_ledger().unsettled_messages();
            world
                .lock_ledger()
                .report_violation(format!("not settled {patience} s after the faults: {unsettled:?}"));
        }
    }
    world.end_run();
}

async fn queued_messages(queues: &SimulatedQueues) -> u64 {
    let mut depth = 0;
    for queue in [&queues.source, &queues.intermediate, &queues.annotation] {
        depth += queue.depth().await.map_or(1, |depth| depth.total());
    }
    depth
}

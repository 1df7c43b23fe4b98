//! The simulation of the strategy `ordered`. Several environments of the message-processor share a FIFO queue, a fault
//! plan is drawn from a seed, and a judge checks the order of each group's calls.
//!
//! At first, anything can fail: requests, responses, entries, processes at any await, the target. Then the faults end,
//! and every message must be processed or in the final DLQ within the time that the policy allows.

mod actors;
mod judge;
mod knobs;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use futures_util::future::{join_all, join3};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::lock;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Content, OutgoingMessage, Timestamp};
use redeliver_core::ports::{Clock as _, Queue as _, QueueDepth as _, QueueSender as _, QueueService as _};
use redeliver_core::ports::{QueueSettings, RedriveSettings};
use redeliver_core::strategy::{Role, Strategy};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};

use judge::Judge;
pub use judge::OrderedCounts;
pub use knobs::OrderedKnobs;
use knobs::{Fate, OrderedFaults, PlannedMessage};

/// The pause between the end of the faults and the late messages.
const CALM_PERIOD: Duration = Duration::from_secs(3600);

/// The retention of notices: the longest time for which SQS can hide a message.
const NOTICE_RETENTION: Duration = Duration::from_secs(12 * 3600);

/// A run that passed.
#[derive(Clone, Copy, Debug)]
pub struct OrderedPassedRun {
    /// A hash that is equal for equal runs.
    pub digest: u64,
    pub counts: OrderedCounts,
    /// Duration in virtual seconds.
    pub seconds: f64,
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct OrderedFailedRun {
    pub knobs: OrderedKnobs,
    pub violation: String,
    /// The changes and calls before the violation, oldest first.
    pub trace: Vec<String>,
}

impl fmt::Display for OrderedFailedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knobs, violation, trace } = self;
        writeln!(f, "the last queue changes and calls, oldest first:")?;
        for line in trace {
            writeln!(f, "{line}")?;
        }
        let failing = |(_, planned): &(usize, &PlannedMessage)| planned.fate != Fate::Succeeds;
        for (n, planned) in knobs.messages.iter().enumerate().filter(failing) {
            writeln!(f, "message {n}: {planned:?}")?;
        }
        writeln!(f, "{:#?}", OrderedKnobs { messages: Vec::new(), ..knobs.clone() })?;
        write!(f, "seed {}: ordered: {violation}", knobs.seed)
    }
}

/// The shared state of a run: queues, clock, random generator and judge.
struct OrderedWorld {
    knobs: OrderedKnobs,
    clock: VirtualClock,
    start: Timestamp,
    sqs: EmbeddedSqs,
    queues: BTreeMap<Role, EmbeddedQueue>,
    /// Number of failed calls per message.
    failed: Mutex<Vec<u32>>,
    rng: Mutex<StdRng>,
    judge: Mutex<Judge>,
    environments: AtomicU64,
    healed: AtomicBool,
    over: AtomicBool,
}

/// Executes a run until it ends or breaks a rule.
///
/// # Errors
/// The first broken rule, with everything needed to understand it.
pub fn run_ordered(knobs: OrderedKnobs) -> Result<OrderedPassedRun, Box<OrderedFailedRun>> {
    let knobs_of_failure = knobs.clone();
    let died = |panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        Box::new(OrderedFailedRun {
            knobs: knobs_of_failure,
            violation: format!("a panic: {text}"),
            trace: Vec::new(),
        })
    };
    catch_unwind(AssertUnwindSafe(|| run_world(knobs))).unwrap_or_else(|panic| Err(died(panic)))
}

fn run_world(knobs: OrderedKnobs) -> Result<OrderedPassedRun, Box<OrderedFailedRun>> {
    let world = OrderedWorld::new(knobs);
    let OrderedWorld { clock, .. } = &world;
    let operator = async {
        if world.knobs.rules.blocks {
            actors::decide_on_blocked_groups(&world).await;
        }
    };
    clock.block_on(join3(join_all(actors::spawn_functions(&world)), operator, produce_and_settle(&world)));
    let seconds = (clock.now() - world.start).as_seconds_f64();
    let judge = world.judge();
    match judge.violation() {
        None => Ok(OrderedPassedRun { digest: judge.history_digest(), counts: judge.counts, seconds }),
        Some(violation) => {
            let (knobs, violation, trace) = (world.knobs.clone(), violation.clone(), judge.recent_events());
            Err(Box::new(OrderedFailedRun { knobs, violation, trace }))
        }
    }
}

/// Sends the early messages, ends the faults, sends the late messages, and waits until all messages are done.
async fn produce_and_settle(world: &OrderedWorld) {
    let OrderedWorld { knobs, clock, .. } = world;
    let (late, early): (Vec<_>, Vec<_>) =
        knobs.messages.iter().copied().enumerate().partition(|(_, message)| message.is_late);
    let pause_ms = 2 * 1000 * knobs.fault_seconds / (early.len() as u64 + 1);
    for (n, message) in early {
        send_until_confirmed(world, n, message).await;
        clock.sleep(Duration::from_millis(world.draw_up_to(pause_ms))).await;
    }
    clock
        .sleep_until(
            clock.now().max(world.start + TimeDelta::seconds(timestamp_seconds(knobs.fault_seconds))),
        )
        .await;
    world.healed.store(true, Ordering::Relaxed);
    world.sqs.set_faults(FaultPlan::default());
    world.judge().add_trace_line(clock.now(), "the faults are over");
    clock.sleep(CALM_PERIOD).await;
    for (n, message) in late {
        send_until_confirmed(world, n, message).await;
        clock.sleep(Duration::from_millis(world.draw_up_to(2000))).await;
    }
    let end = clock.now() + TimeDelta::seconds(timestamp_seconds(knobs.settling_seconds_max()));
    while !world.has_ended() {
        let left = unsettled_count(world).await;
        if left == 0 && world.judge().are_all_done() || clock.now() > end {
            world.judge().check_end(clock.now(), left);
            world.over.store(true, Ordering::Relaxed);
        }
        clock.sleep(Duration::from_secs(60)).await;
    }
}

/// Sends a message until SQS confirms it. The deduplication id prevents duplicates.
async fn send_until_confirmed(
    world: &OrderedWorld,
    n: usize,
    PlannedMessage { group, fate, .. }: PlannedMessage,
) {
    let message_id = if fate == Fate::Invalid { "none".to_owned() } else { judge::message_id(n) };
    let content = Content {
        body: format!(r#"{{"metadata":{{"message_id":"{message_id}"}},"data":{{"n":{n}}}}}"#),
        message_group_id: Some(format!("group-{group}")),
        deduplication_id: Some(n.to_string()),
        ..Content::default()
    };
    let message = [OutgoingMessage::new(content).expect("within the limits")];
    while !world.has_ended() {
        let outcomes = world.queue(Role::Source).send_batch(pack_batches(&message)[0]).await;
        world.apply_changes();
        if outcomes.iter().all(Result::is_ok) {
            return;
        }
        world.clock.sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the number of unsettled messages.
async fn unsettled_count(world: &OrderedWorld) -> u64 {
    let mut left = 0;
    for role in [Role::Source, Role::SourceDlq, Role::Annotation] {
        left += world.queue(role).depth().await.expect("the faults are over").total();
    }
    left
}

impl OrderedWorld {
    fn new(knobs: OrderedKnobs) -> Self {
        let start = DateTime::from_timestamp(1_785_000_000, 123_456_000).expect("a moment in 2026");
        let clock = VirtualClock::new(start);
        let sqs = EmbeddedSqs::new(clock.clone(), knobs.seed);
        let queues = clock.block_on(create_queues(&sqs, &knobs));
        let roles = queues.iter().map(|(role, queue)| (queue.arn().to_owned(), *role)).collect();
        // The first call starts the log of changes.
        let _empty = sqs.take_changes();
        sqs.set_faults(fault_plan(&knobs, &queues));
        Self {
            judge: Mutex::new(Judge::new(&knobs, roles, start)),
            failed: Mutex::new(vec![0; knobs.messages.len()]),
            rng: Mutex::new(StdRng::seed_from_u64(knobs.seed.wrapping_add(1))),
            environments: AtomicU64::new(0),
            healed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            knobs,
            clock,
            start,
            sqs,
            queues,
        }
    }

    fn queue(&self, role: Role) -> &EmbeddedQueue {
        &self.queues[&role]
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        lock(&self.judge)
    }

    /// Passes the latest queue changes to the judge.
    fn apply_changes(&self) {
        let changes = self.sqs.take_changes();
        let mut judge = self.judge();
        changes.iter().for_each(|change| judge.apply_change(change));
    }

    fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.judge().violation().is_some()
    }

    /// Returns true with this probability during the faults, and never afterwards.
    fn fault_strikes(&self, chance: f64) -> bool {
        !self.is_healed() && chance > 0.0 && lock(&self.rng).random_bool(chance)
    }

    /// Draws a number in `0..=most`.
    fn draw_up_to(&self, most: u64) -> u64 {
        lock(&self.rng).random_range(0..=most)
    }

    /// Waits for one trip over the network.
    async fn cross_network(&self) {
        let latency = Duration::from_millis(self.draw_up_to(self.knobs.latency_ms));
        if !latency.is_zero() {
            self.clock.sleep(latency).await;
        }
    }
}

/// Creates the strategy's queues with the stack's settings.
async fn create_queues(sqs: &EmbeddedSqs, knobs: &OrderedKnobs) -> BTreeMap<Role, EmbeddedQueue> {
    let visibility = VisibilitySeconds::saturating(6 * knobs.function_seconds);
    let mut queues = BTreeMap::<Role, EmbeddedQueue>::new();
    for needed in Strategy::Ordered.definition().queues(knobs.rules.max_attempts) {
        let redrive = needed.redrive.map(|redrive| RedriveSettings {
            target_arn: queues[&redrive.to].arn().to_owned(),
            max_receive_count: match needed.role {
                Role::Source => knobs.receives_max.min(redrive.receives),
                _ => redrive.receives,
            },
        });
        let (retention, tags) = (needed.retention, BTreeMap::new());
        let settings = QueueSettings { visibility, retention, redrive, tags };
        let queue = sqs.create_queue(needed.name, &settings).await.expect("a new queue, and no faults yet");
        queues.insert(needed.role, queue);
    }
    let settings = QueueSettings { retention: NOTICE_RETENTION, ..QueueSettings::default() };
    let blocked = sqs.create_queue("blocked", &settings).await.expect("a new queue, and no faults yet");
    queues.insert(Role::Blocked, blocked);
    queues
}

fn fault_plan(knobs: &OrderedKnobs, queues: &BTreeMap<Role, EmbeddedQueue>) -> FaultPlan {
    let OrderedFaults { refused, unanswered, .. } = knobs.faults;
    let mut plan = FaultPlan::new(knobs.seed);
    let actions = [
        (Role::Source, SqsAction::ChangeMessageVisibilityBatch),
        (Role::Source, SqsAction::DeleteMessageBatch),
        (Role::Source, SqsAction::ReceiveMessage),
        (Role::Source, SqsAction::SendMessageBatch),
        (Role::Annotation, SqsAction::SendMessageBatch),
        (Role::Annotation, SqsAction::DeleteMessageBatch),
        (Role::SourceDlq, SqsAction::DeleteMessageBatch),
        (Role::FinalDlq, SqsAction::SendMessageBatch),
        (Role::Blocked, SqsAction::SendMessageBatch),
        (Role::Blocked, SqsAction::DeleteMessageBatch),
    ];
    for (role, action) in actions {
        let mut rule = |scope, chance, injection| {
            let queue = Some(queues[&role].arn().to_owned());
            let rule = FaultRule { action, queue, scope, when: FaultTrigger::Chance(chance), injection };
            plan = std::mem::take(&mut plan).with_rule(rule);
        };
        rule(FaultScope::Request, refused / 3.0, Injection::Throttled);
        rule(FaultScope::Request, refused / 3.0, Injection::LostRequest);
        rule(FaultScope::Request, unanswered, Injection::LostResponse);
        rule(FaultScope::Entry, refused / 3.0, Injection::Throttled);
        rule(FaultScope::Entry, refused / 6.0, Injection::Service);
        rule(FaultScope::Entry, refused / 6.0, Injection::Sender);
    }
    plan
}

fn timestamp_seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

//! The functions with their event source mappings, and the target.

use std::collections::BTreeSet;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use redeliver_core::decide::QueueTimes;
use redeliver_core::events::Event;
use redeliver_core::handler::{ErrorType, Handler, HandlerError, Message};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::lock;
use redeliver_core::message::ReceivedMessage;
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::packing::Batch;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::polling::take_waiting_records;
use redeliver_core::ports::{
    Clock as _, Depth, EntryError, EntryOutcome, Function, Observer, Queue as _, QueueDepth, QueueSender,
    ReceiveOptions, UnreadableMessage, VisibilityControl,
};
use redeliver_core::strategy::{MissingSetting, OnFailure, Role, Strategy, Wiring};
use redeliver_dead_letters::blocked::{GroupOutcome, UnblockDecision, UnblockReport, unblock_groups};
use redeliver_dead_letters::purge::BackupWriter;
use redeliver_dead_letters::{DeadLetterError, DeadLetterRecord};
use redeliver_embedded::EmbeddedQueue;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::{MessageProcessor, SharedBreaker};

use super::judge::{CallResult, message_number_in_body};
use super::knobs::{Fate, REVIEW_SECONDS_MAX};
use super::{OrderedWorld, timestamp_seconds};
use crate::event_source::run_until_death;

/// A function's access to one queue: requests and responses take time.
#[derive(Clone, Copy)]
struct RemoteQueue<'a> {
    world: &'a OrderedWorld,
    queue: &'a EmbeddedQueue,
}

/// The queues of the message-processor.
#[derive(Clone, Copy)]
struct OrderedQueues<'a>(&'a OrderedWorld);

/// An observer that passes the events of one environment to the judge.
#[derive(Clone, Copy)]
struct JudgeObserver<'a> {
    world: &'a OrderedWorld,
    environment: u64,
}

/// The target as called by one environment.
struct OrderedTarget<'a> {
    world: &'a OrderedWorld,
    environment: u64,
}

/// A poller with the environment that it invokes, one batch at a time.
struct OrderedMapping<'a, P> {
    world: &'a OrderedWorld,
    role: Role,
    batch_size: u8,
    /// Creates the function for the environment with this number.
    start: P,
}

/// Returns the pollers of the message-processor's environments, and one poller for each queue of the
/// final-dlq-annotator.
pub(super) fn spawn_functions(world: &OrderedWorld) -> Vec<BoxFuture<'_, ()>> {
    let batch_size = if world.knobs.batch_size == 1 { 1 } else { 10 };
    let mut all = Vec::new();
    for _ in 0..world.knobs.environments {
        let start = move |environment| message_processor(world, environment);
        let mapping = OrderedMapping { world, role: Role::Source, batch_size, start };
        all.push(async move { mapping.poll_until_end().await }.boxed());
    }
    for role in [Role::Annotation, Role::SourceDlq] {
        let final_dlq = RemoteQueue { world, queue: world.queue(Role::FinalDlq) };
        let start = move |environment| {
            FinalDlqAnnotator::new(final_dlq, world.clock.clone(), JudgeObserver { world, environment })
        };
        let mapping = OrderedMapping { world, role, batch_size: 10, start };
        all.push(async move { mapping.poll_until_end().await }.boxed());
    }
    all
}

/// Plays a person who reviews blocked groups from time to time, and retries or takes out their first messages. After
/// the faults, the person only takes messages out.
pub(super) async fn decide_on_blocked_groups(world: &OrderedWorld) {
    while !world.has_ended() {
        world.clock.sleep(Duration::from_secs(1 + world.draw_up_to(REVIEW_SECONDS_MAX - 1))).await;
        let mut backup = JudgeBackup(world);
        let retries = !world.is_healed() && world.draw_up_to(1) == 0;
        let decision = if retries { UnblockDecision::Retry } else { UnblockDecision::TakeOut(&mut backup) };
        let (blocked, source) = (world.queue(Role::Blocked), world.queue(Role::Source));
        let decided = unblock_groups(blocked, source, &world.clock, &[], decision).await;
        world.apply_changes();
        if let Ok(UnblockReport { groups, .. }) = decided {
            for GroupOutcome { group, unblocked, error } in groups {
                world
                    .judge()
                    .add_trace_line(world.clock.now(), &format!("{}: {unblocked}, {error:?}", group.group));
            }
        }
    }
}

/// A backup writer that reports backed-up messages to the judge.
struct JudgeBackup<'a>(&'a OrderedWorld);

impl BackupWriter for JudgeBackup<'_> {
    async fn store_records(&mut self, records: &[DeadLetterRecord]) -> Result<(), DeadLetterError> {
        let numbers = records.iter().filter_map(|record| message_number_in_body(&record.message.body));
        numbers.for_each(|n| self.0.judge().record_backup(n));
        Ok(())
    }
}

fn message_processor(world: &OrderedWorld, environment: u64) -> impl Function {
    let policy = world.knobs.rules.to_policy();
    let on_failure =
        OnFailure::from_wiring(Strategy::Ordered, OrderedQueues(world)).expect("the world has all queues");
    MessageProcessor {
        handler: OrderedTarget { world, environment },
        on_failure,
        breaker: SharedBreaker::from_policy(&policy),
        policy,
        annotation_queue: RemoteQueue { world, queue: world.queue(Role::Annotation) },
        clock: world.clock.clone(),
        observer: JudgeObserver { world, environment },
        schema: MessageSchema::default(),
        resenders: Resenders::default(),
        max_concurrency: world.knobs.max_concurrency.try_into().expect("at least one"),
    }
}

impl<F: Function, P: Fn(u64) -> F> OrderedMapping<'_, P> {
    /// Polls until the end of the run.
    async fn poll_until_end(&self) {
        let OrderedWorld { knobs, .. } = self.world;
        let mut function = self.begin_environment();
        while !self.world.has_ended() {
            let records = self.receive_batch().await;
            if records.is_empty() {
                self.sleep_while_empty().await;
                continue;
            }
            let (mut readable, unreadable) = self.make_some_unreadable(records);
            take_waiting_records(&function, &mut readable, &unreadable);
            let lives = self.invoke_batch(&function, readable).await;
            self.world.judge().counts.crashes += u64::from(!lives);
            if !lives || self.world.fault_strikes(knobs.faults.replaced) {
                function = self.begin_environment();
            }
        }
    }

    fn begin_environment(&self) -> F {
        (self.start)(self.world.environments.fetch_add(1, Ordering::Relaxed))
    }

    async fn receive_batch(&self) -> Vec<ReceivedMessage> {
        let wait = Duration::from_secs(20);
        let request = ReceiveOptions { max_messages: self.batch_size, wait, visibility: None };
        let records = self.world.queue(self.role).receive(request).await;
        self.world.apply_changes();
        // If the response is lost, its messages stay hidden in the queue.
        records.unwrap_or_default()
    }

    /// Makes some records of the source queue unreadable, half of them including their group.
    fn make_some_unreadable(
        &self,
        records: Vec<ReceivedMessage>,
    ) -> (Vec<ReceivedMessage>, Vec<UnreadableMessage>) {
        let OrderedWorld { knobs, clock, .. } = self.world;
        let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
        for record in records {
            if self.role != Role::Source || !self.world.fault_strikes(knobs.faults.unreadable) {
                readable.push(record);
                continue;
            }
            let ReceivedMessage { sqs_message_id, receipt_handle, message_group_id, .. } = record;
            self.world.judge().record_unreadable(&sqs_message_id, clock.now());
            unreadable.push(UnreadableMessage {
                sqs_message_id,
                receipt_handle,
                message_group_id: message_group_id.filter(|_| self.world.fault_strikes(0.5)),
                readable_before: readable.len(),
            });
        }
        (readable, unreadable)
    }

    /// Sleeps while the queues are empty, because a long poll every 20 seconds would find nothing for many virtual
    /// hours.
    async fn sleep_while_empty(&self) {
        let OrderedWorld { clock, sqs, .. } = self.world;
        let (soonest, latest) = (clock.now() + TimeDelta::seconds(1), clock.now() + TimeDelta::seconds(60));
        clock.sleep_until(sqs.next_due_at().map_or(latest, |due| due.clamp(soonest, latest))).await;
    }

    /// Invokes the function and deletes the records that it confirms. Returns false if the process died.
    async fn invoke_batch(&self, function: &F, records: Vec<ReceivedMessage>) -> bool {
        let OrderedWorld { knobs, clock, .. } = self.world;
        let of = |record: &ReceivedMessage| (record.sqs_message_id.clone(), record.receipt_handle.clone());
        let received: Vec<_> = records.iter().map(of).collect();
        let is_short = self.world.fault_strikes(knobs.faults.short);
        let timeout = if is_short { 1 + self.world.draw_up_to(10) } else { knobs.function_seconds };
        // The process dies at a random await or at a random time.
        let (polls, moment) = match self.world.fault_strikes(knobs.faults.dies) {
            true if self.world.fault_strikes(0.5) => (Some(self.world.draw_up_to(40)), None),
            true => (None, Some(self.world.draw_up_to(1000 * timeout))),
            false => (None, None),
        };
        let deadline = clock.now() + TimeDelta::seconds(timestamp_seconds(timeout));
        let process = run_until_death(function.batch_item_failures(records, deadline), polls);
        let end = pin!(clock.sleep(Duration::from_millis(moment.unwrap_or(1000 * timeout))));
        let Either::Left((Some(failed), _)) = select(pin!(process), end).await else {
            return false;
        };
        let failed: BTreeSet<_> = failed.into_iter().collect();
        let done = received.into_iter().filter(|(id, _)| !failed.contains(id));
        let handles: Vec<_> = done.map(|(_, handle)| handle).collect();
        if !handles.is_empty() && !self.world.fault_strikes(knobs.faults.response_lost) {
            self.world.queue(self.role).delete_batch(&handles).await;
            self.world.apply_changes();
        }
        true
    }
}

impl Handler for OrderedTarget<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let OrderedWorld { knobs, clock, .. } = self.world;
        let n = message_number_in_body(message.body).expect("the producer numbers each body");
        self.world.judge().begin_call(n, self.environment, clock.now());
        let mut calling = OrderedCall { world: self.world, n, answer: CallResult::CutOff };
        clock.sleep(Duration::from_millis(1 + self.world.draw_up_to(20))).await;
        if self.world.fault_strikes(knobs.faults.slow) {
            clock.sleep(Duration::from_millis(self.world.draw_up_to(500 * knobs.function_seconds))).await;
        }
        let outcome = self.call_outcome(n).await;
        if outcome.is_ok() {
            self.world.judge().record_processed(n);
        }
        // The process might die while the response is in transit.
        self.world.cross_network().await;
        calling.answer = if outcome.is_ok() { CallResult::Success } else { CallResult::Failure };
        outcome
    }
}

impl OrderedTarget<'_> {
    async fn call_outcome(&self, n: usize) -> Result<(), HandlerError> {
        let OrderedWorld { knobs, .. } = self.world;
        if self.is_down(knobs.messages[n].group) {
            return Err(HandlerError::transient(ErrorType::HttpStatus(503), "down"));
        }
        let fails_again = |times: u32| {
            let mut failed = lock(&self.world.failed);
            failed[n] += 1;
            failed[n] <= times
        };
        let busy = || Err(HandlerError::transient("Busy", "later"));
        match knobs.messages[n].fate {
            Fate::Fails(times) if fails_again(times) => busy(),
            Fate::FailsForEver => busy(),
            Fate::Permanent => Err(HandlerError::permanent("Gone", "for good")),
            Fate::Hangs(times) if fails_again(times) && !self.world.is_healed() => pending().await,
            _ => Ok(()),
        }
    }

    fn is_down(&self, group: usize) -> bool {
        let since = (self.world.clock.now() - self.world.start).num_seconds().unsigned_abs();
        self.world.knobs.outage.is_some_and(|outage| {
            outage.group.is_none_or(|down| down == group)
                && (outage.from_seconds..outage.from_seconds + outage.seconds).contains(&since)
                && !self.world.is_healed()
        })
    }
}

/// A running call. Its process can die or cut it off.
struct OrderedCall<'a> {
    world: &'a OrderedWorld,
    n: usize,
    answer: CallResult,
}

impl Drop for OrderedCall<'_> {
    fn drop(&mut self) {
        self.world.judge().end_call(self.n, self.answer, self.world.clock.now());
    }
}

impl Observer for JudgeObserver<'_> {
    fn observe(&self, event: &Event) {
        self.world.judge().check_event(self.environment, event, self.world.clock.now());
    }
}

impl<'a> Wiring for OrderedQueues<'a> {
    type Queue = RemoteQueue<'a>;

    fn queue(&mut self, role: Role) -> Option<RemoteQueue<'a>> {
        Some(RemoteQueue { world: self.0, queue: self.0.queues.get(&role)? })
    }

    fn queue_times(&mut self) -> Option<QueueTimes> {
        let visibility_timeout = VisibilitySeconds::saturating(6 * self.0.knobs.function_seconds);
        let queues = Strategy::Ordered.definition().queues(0);
        let retention = queues.into_iter().find(|queue| queue.role == Role::Source)?.retention;
        Some(QueueTimes { visibility_timeout, retention })
    }

    fn batch_size(&mut self) -> Option<u16> {
        Some(self.0.knobs.batch_size)
    }

    fn blocked_queue(&mut self, _batch_size: Option<u16>) -> Result<Option<RemoteQueue<'a>>, MissingSetting> {
        let blocked = self.queue(Role::Blocked);
        Ok(blocked.filter(|_| self.0.knobs.rules.blocks))
    }
}

impl QueueSender for RemoteQueue<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.world.cross_network().await;
        let answer = self.queue.send_batch(batch).await;
        self.world.apply_changes();
        self.world.cross_network().await;
        answer
    }
}

impl VisibilityControl for RemoteQueue<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.world.cross_network().await;
        let answer = self.queue.change_visibility_batch(entries).await;
        self.world.apply_changes();
        self.world.cross_network().await;
        answer
    }
}

impl QueueDepth for RemoteQueue<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}

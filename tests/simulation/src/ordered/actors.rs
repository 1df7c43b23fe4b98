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
use redeliver_core::polling::take_waiting;
use redeliver_core::ports::{
    Clock as _, Depth, EntryError, EntryOutcome, Function, Observer, Queue as _, QueueDepth, QueueSender,
    Receive, Unreadable, VisibilityControl,
};
use redeliver_core::strategy::{Missing, OnFailure, Role, Strategy, Wiring};
use redeliver_dead_letters::blocked::{Decision, Outcome, Unblocked, unblock};
use redeliver_dead_letters::purge::BackupWriter;
use redeliver_dead_letters::{DeadLetterRecord, Failure};
use redeliver_embedded::EmbeddedQueue;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::{MessageProcessor, SharedBreaker};

use super::judge::{Answer, number_in};
use super::knobs::{Fate, PERSON_SECONDS};
use super::{World, seconds};
use crate::event_source::dying;

/// A function's access to one queue: requests and answers take time.
#[derive(Clone, Copy)]
struct Remote<'a> {
    world: &'a World,
    queue: &'a EmbeddedQueue,
}

/// The queues of the message-processor.
#[derive(Clone, Copy)]
struct Queues<'a>(&'a World);

/// Passes the events of one environment to the judge.
#[derive(Clone, Copy)]
struct Witness<'a> {
    world: &'a World,
    environment: u64,
}

/// The target of one environment.
struct Target<'a> {
    world: &'a World,
    environment: u64,
}

/// A poller and the environment that it invokes, one batch after the other.
struct Mapping<'a, P> {
    world: &'a World,
    role: Role,
    batch_size: u8,
    /// Starts an environment with this number.
    start: P,
}

/// The environments of the message-processor, and of the final-dlq-annotator for each of its queues.
pub(super) fn functions(world: &World) -> Vec<BoxFuture<'_, ()>> {
    let batch_size = if world.knobs.batch_size == 1 { 1 } else { 10 };
    let mut all = Vec::new();
    for _ in 0..world.knobs.environments {
        let start = move |environment| message_processor(world, environment);
        let mapping = Mapping { world, role: Role::Source, batch_size, start };
        all.push(async move { mapping.run().await }.boxed());
    }
    for role in [Role::Annotation, Role::SourceDlq] {
        let final_dlq = Remote { world, queue: world.queue(Role::FinalDlq) };
        let start = move |environment| {
            FinalDlqAnnotator::new(final_dlq, world.clock.clone(), Witness { world, environment })
        };
        let mapping = Mapping { world, role, batch_size: 10, start };
        all.push(async move { mapping.run().await }.boxed());
    }
    all
}

/// A person looks at the blocked groups now and then: has the first message called again, or takes it out. In the end there
/// are only messages to take out.
pub(super) async fn decide_on_blocked_groups(world: &World) {
    while !world.is_over() {
        world.clock.sleep(Duration::from_secs(1 + world.up_to(PERSON_SECONDS - 1))).await;
        let mut backup = Backup(world);
        let retries = !world.is_healed() && world.up_to(1) == 0;
        let decision = if retries { Decision::Retry } else { Decision::TakeOut(&mut backup) };
        let (blocked, source) = (world.queue(Role::Blocked), world.queue(Role::Source));
        let decided = unblock(blocked, source, &world.clock, &[], decision).await;
        world.enter();
        if let Ok(Unblocked { groups, .. }) = decided {
            for Outcome { group, unblocked, error } in groups {
                world.judge().note(world.clock.now(), &format!("{}: {unblocked}, {error:?}", group.group));
            }
        }
    }
}

/// Tells the judge what a person keeps.
struct Backup<'a>(&'a World);

impl BackupWriter for Backup<'_> {
    async fn keep(&mut self, records: &[DeadLetterRecord]) -> Result<(), Failure> {
        let numbers = records.iter().filter_map(|record| number_in(&record.message.body));
        numbers.for_each(|n| self.0.judge().kept(n));
        Ok(())
    }
}

fn message_processor(world: &World, environment: u64) -> impl Function {
    let policy = world.knobs.rules.policy();
    let on_failure = OnFailure::wired(Strategy::Ordered, Queues(world)).expect("the world has all queues");
    MessageProcessor {
        handler: Target { world, environment },
        on_failure,
        breaker: SharedBreaker::of(&policy),
        policy,
        annotation_queue: Remote { world, queue: world.queue(Role::Annotation) },
        clock: world.clock.clone(),
        observer: Witness { world, environment },
        schema: MessageSchema::default(),
        resenders: Resenders::default(),
        max_concurrency: world.knobs.max_concurrency.try_into().expect("at least one"),
    }
}

impl<F: Function, P: Fn(u64) -> F> Mapping<'_, P> {
    /// Polls until the end of the run.
    async fn run(&self) {
        let World { knobs, .. } = self.world;
        let mut function = self.begin();
        while !self.world.is_over() {
            let records = self.receive().await;
            if records.is_empty() {
                self.idle().await;
                continue;
            }
            let (mut readable, unreadable) = self.read(records);
            take_waiting(&function, &mut readable, &unreadable);
            let lives = self.invoke(&function, readable).await;
            self.world.judge().counts.crashes += u64::from(!lives);
            if !lives || self.world.strikes(knobs.faults.replaced) {
                function = self.begin();
            }
        }
    }

    fn begin(&self) -> F {
        (self.start)(self.world.environments.fetch_add(1, Ordering::Relaxed))
    }

    async fn receive(&self) -> Vec<ReceivedMessage> {
        let wait = Duration::from_secs(20);
        let request = Receive { max_messages: self.batch_size, wait, visibility: None };
        let records = self.world.queue(self.role).receive(request).await;
        self.world.enter();
        // The queue hides what a lost answer had.
        records.unwrap_or_default()
    }

    /// Some records of the source queue cannot be read, nor the group of some of these.
    fn read(&self, records: Vec<ReceivedMessage>) -> (Vec<ReceivedMessage>, Vec<Unreadable>) {
        let World { knobs, clock, .. } = self.world;
        let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
        for record in records {
            if self.role != Role::Source || !self.world.strikes(knobs.faults.unreadable) {
                readable.push(record);
                continue;
            }
            let ReceivedMessage { sqs_message_id, receipt_handle, message_group_id, .. } = record;
            self.world.judge().unreadable(&sqs_message_id, clock.now());
            unreadable.push(Unreadable {
                sqs_message_id,
                receipt_handle,
                message_group_id: message_group_id.filter(|_| self.world.strikes(0.5)),
                readable_before: readable.len(),
            });
        }
        (readable, unreadable)
    }

    /// Sleeps while the queues are empty: a long poll every 20 seconds of many virtual hours would find nothing.
    async fn idle(&self) {
        let World { clock, sqs, .. } = self.world;
        let (soonest, latest) = (clock.now() + TimeDelta::seconds(1), clock.now() + TimeDelta::seconds(60));
        clock.sleep_until(sqs.next_due().map_or(latest, |due| due.clamp(soonest, latest))).await;
    }

    /// Invokes the function, and deletes what it confirms; false if its process has died.
    async fn invoke(&self, function: &F, records: Vec<ReceivedMessage>) -> bool {
        let World { knobs, clock, .. } = self.world;
        let of = |record: &ReceivedMessage| (record.sqs_message_id.clone(), record.receipt_handle.clone());
        let received: Vec<_> = records.iter().map(of).collect();
        let is_short = self.world.strikes(knobs.faults.short);
        let timeout = if is_short { 1 + self.world.up_to(10) } else { knobs.function_seconds };
        // At any await, or at any moment.
        let (polls, moment) = match self.world.strikes(knobs.faults.dies) {
            true if self.world.strikes(0.5) => (Some(self.world.up_to(40)), None),
            true => (None, Some(self.world.up_to(1000 * timeout))),
            false => (None, None),
        };
        let deadline = clock.now() + TimeDelta::seconds(seconds(timeout));
        let process = dying(function.batch_item_failures(records, deadline), polls);
        let end = pin!(clock.sleep(Duration::from_millis(moment.unwrap_or(1000 * timeout))));
        let Either::Left((Some(failed), _)) = select(pin!(process), end).await else {
            return false;
        };
        let failed: BTreeSet<_> = failed.into_iter().collect();
        let done = received.into_iter().filter(|(id, _)| !failed.contains(id));
        let handles: Vec<_> = done.map(|(_, handle)| handle).collect();
        if !handles.is_empty() && !self.world.strikes(knobs.faults.response_lost) {
            self.world.queue(self.role).delete_batch(&handles).await;
            self.world.enter();
        }
        true
    }
}

impl Handler for Target<'_> {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let World { knobs, clock, .. } = self.world;
        let n = number_in(message.body).expect("the producer numbers each body");
        self.world.judge().called(n, self.environment, clock.now());
        let mut calling = Calling { world: self.world, n, answer: Answer::CutOff };
        clock.sleep(Duration::from_millis(1 + self.world.up_to(20))).await;
        if self.world.strikes(knobs.faults.slow) {
            clock.sleep(Duration::from_millis(self.world.up_to(500 * knobs.function_seconds))).await;
        }
        let outcome = self.outcome(n).await;
        if outcome.is_ok() {
            self.world.judge().processed(n);
        }
        // The process may die while the answer is on its way.
        self.world.travel().await;
        calling.answer = if outcome.is_ok() { Answer::Success } else { Answer::Failure };
        outcome
    }
}

impl Target<'_> {
    async fn outcome(&self, n: usize) -> Result<(), HandlerError> {
        let World { knobs, .. } = self.world;
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

/// A call under way. Its process may die, or cut it off.
struct Calling<'a> {
    world: &'a World,
    n: usize,
    answer: Answer,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.world.judge().answered(self.n, self.answer, self.world.clock.now());
    }
}

impl Observer for Witness<'_> {
    fn observe(&self, event: &Event) {
        self.world.judge().observed(self.environment, event, self.world.clock.now());
    }
}

impl<'a> Wiring for Queues<'a> {
    type Queue = Remote<'a>;

    fn queue(&mut self, role: Role) -> Option<Remote<'a>> {
        Some(Remote { world: self.0, queue: self.0.queues.get(&role)? })
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

    fn blocked_queue(&mut self, _batch_size: Option<u16>) -> Result<Option<Remote<'a>>, Missing> {
        let blocked = self.queue(Role::Blocked);
        Ok(blocked.filter(|_| self.0.knobs.rules.blocks))
    }
}

impl QueueSender for Remote<'_> {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        self.world.travel().await;
        let answer = self.queue.send_batch(batch).await;
        self.world.enter();
        self.world.travel().await;
        answer
    }
}

impl VisibilityControl for Remote<'_> {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.world.travel().await;
        let answer = self.queue.change_visibility_batch(entries).await;
        self.world.enter();
        self.world.travel().await;
        answer
    }
}

impl QueueDepth for Remote<'_> {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}

mod dying;
mod failing_requests;
mod health;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{join, pending};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Confirmed, Content, OutgoingMessage};
use redeliver_core::ports::QueueDepth as _;
use redeliver_core::ports::{QueueSender as _, QueueService as _, QueueSettings};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};

use super::*;
use crate::health::Health;
use redeliver_testing::altered::{GARBLED, GarbledBodies};

const VISIBILITY_SECONDS: u64 = 40;

/// A function built from a closure that receives the bodies of a batch and returns the failed ones.
struct BatchFunction<T>(T);

impl<T: Fn(Vec<String>) -> A + Send + Sync, A: Future<Output = Vec<String>> + Send> Function
    for BatchFunction<T>
{
    async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
        let failed = self.0(records.iter().map(|record| record.body.clone()).collect()).await;
        let done = records.into_iter().filter(|record| !failed.contains(&record.body));
        done.map(|record| record.into_receipt().confirm()).collect()
    }
}

/// The observed events and bodies, with their time in whole seconds.
#[derive(Clone)]
struct Observations {
    clock: VirtualClock,
    events: Arc<Mutex<Vec<(i64, Event)>>>,
    bodies: Arc<Mutex<Vec<(i64, String)>>>,
    /// The target's successes: `message_id`, generation and attempt.
    successes: Arc<Mutex<Vec<(String, u32, u32)>>>,
}

impl Observer for Observations {
    fn observe(&self, event: &Event) {
        self.events.lock().unwrap().push((self.now_seconds(), event.clone()));
    }
}

impl Observations {
    fn now_seconds(&self) -> i64 {
        self.clock.now().timestamp()
    }

    fn record_body(&self, body: &str) {
        self.bodies.lock().unwrap().push((self.now_seconds(), body.to_owned()));
    }

    fn bodies(&self) -> Vec<(i64, String)> {
        self.bodies.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<(i64, Event)> {
        self.events.lock().unwrap().clone()
    }
}

struct World {
    clock: VirtualClock,
    sqs: EmbeddedSqs,
    queue: EmbeddedQueue,
    seen: Observations,
    stop: Stop,
    health: Health,
}

impl World {
    fn new() -> Self {
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        let sqs = EmbeddedSqs::new(clock.clone(), 1);
        let visibility = VisibilitySeconds::new(VISIBILITY_SECONDS).unwrap();
        let settings = QueueSettings { visibility, ..QueueSettings::default() };
        let queue = clock.block_on(sqs.create_queue("polled", &settings)).unwrap();
        let seen = Observations {
            clock: clock.clone(),
            events: Arc::default(),
            bodies: Arc::default(),
            successes: Arc::default(),
        };
        let stop = Stop::default();
        let heartbeat = Arc::new(Heartbeat::new("function", clock.now()));
        let health = Health { pollers: vec![heartbeat], stop: stop.clone() };
        Self { clock, sqs, queue, seen, stop, health }
    }

    async fn send(&self, bodies: &[&str]) {
        self.send_contents(bodies, &Content::default()).await;
    }

    async fn send_to_group(&self, group: &str, bodies: &[&str]) {
        let content = Content { message_group_id: Some(group.to_owned()), ..Content::default() };
        self.send_contents(bodies, &content).await;
    }

    async fn send_contents(&self, bodies: &[&str], content: &Content) {
        let messages: Vec<_> = bodies
            .iter()
            .map(|body| Content { body: (*body).to_owned(), ..content.clone() })
            .map(|content| OutgoingMessage::new(content).unwrap())
            .collect();
        for batch in pack_batches(&messages) {
            assert!(self.queue.send_batch(batch).await.iter().all(Result::is_ok));
        }
    }

    fn inject_faults(&self, action: SqsAction, scope: FaultScope, when: FaultTrigger, injection: Injection) {
        let rule = FaultRule { action, queue: None, scope, when, injection };
        self.sqs.set_faults(FaultPlan::new(1).with_rule(rule));
    }

    fn poller<F: Function>(
        &self,
        concurrency: u16,
        function: F,
    ) -> Poller<EmbeddedQueue, F, VirtualClock, Observations> {
        self.poller_for_queue(self.queue.clone(), concurrency, function)
    }

    fn poller_for_queue<Q: Queue, F: Function>(
        &self,
        queue: Q,
        concurrency: u16,
        function: F,
    ) -> Poller<Q, F, VirtualClock, Observations> {
        Poller {
            queue,
            function,
            clock: self.clock.clone(),
            observer: self.seen.clone(),
            limits: PollerLimits {
                batch_size: 10,
                concurrency: NonZeroU16::new(concurrency).unwrap(),
                wait: Duration::from_secs(20),
                invocation: Duration::from_secs(30),
            },
            heartbeat: Arc::clone(&self.health.pollers[0]),
        }
    }

    /// Runs a poller concurrently with `meanwhile`, then stops it and returns the time at which it ended.
    fn run_poller<F: Function>(&self, function: F, meanwhile: impl Future<Output = ()>) -> i64 {
        let poller = self.poller(1, function);
        let meanwhile = async {
            meanwhile.await;
            self.stop.request();
        };
        self.clock.block_on(join(poller.run_until_stop(&self.stop), meanwhile));
        self.seen.now_seconds()
    }

    async fn sleep_seconds(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn remaining_messages(&self) -> u64 {
        self.clock.block_on(self.queue.depth()).unwrap().total()
    }

    fn request_count(&self, action: SqsAction) -> u64 {
        self.sqs.request_counts().get(action.api_name()).copied().unwrap_or_default()
    }

    /// Returns a function that records every body, and succeeds after this many seconds.
    fn recording_function(&self, seconds: u64) -> impl Function + '_ {
        BatchFunction(move |bodies: Vec<String>| async move {
            bodies.iter().for_each(|body| self.seen.record_body(body));
            self.sleep_seconds(seconds).await;
            Vec::new()
        })
    }
}

fn timed_bodies(moments: &[(i64, &str)]) -> Vec<(i64, String)> {
    moments.iter().map(|(moment, body)| (*moment, (*body).to_owned())).collect()
}

#[test]
fn a_batch_in_flight_at_the_stop_finishes_and_is_deleted() {
    let world = World::new();
    let ended = world.run_poller(world.recording_function(7), async {
        world.send(&["a", "b"]).await;
        world.sleep_seconds(2).await;
    });
    assert_eq!(world.seen.bodies(), timed_bodies(&[(0, "a"), (0, "b")]));
    assert_eq!((ended, world.remaining_messages()), (7, 0));
    assert_eq!(world.request_count(SqsAction::ReceiveMessage), 1, "nothing is received after the stop");
}

#[test]
fn messages_from_a_receive_pending_at_the_stop_are_handled() {
    let world = World::new();
    let late = async {
        world.sleep_seconds(3).await;
        world.send(&["late"]).await;
    };
    let stopped = async { world.sleep_seconds(1).await };
    world.clock.block_on(async {
        let poller = world.poller(1, world.recording_function(2));
        let stopped = async {
            stopped.await;
            world.stop.request();
        };
        join(poller.run_until_stop(&world.stop), join(late, stopped)).await;
    });
    assert_eq!(world.seen.bodies(), timed_bodies(&[(3, "late")]));
    assert_eq!((world.seen.now_seconds(), world.remaining_messages()), (5, 0));
}

#[test]
fn an_idle_poller_stops_when_its_long_poll_ends() {
    let world = World::new();
    assert_eq!(world.run_poller(world.recording_function(0), world.sleep_seconds(25)), 40);
    assert_eq!(world.request_count(SqsAction::ReceiveMessage), 2);
}

#[test]
fn an_unreadable_message_is_reported_and_the_others_are_handled() {
    let world = World::new();
    let poller =
        world.poller_for_queue(GarbledBodies::wrap_queue(&world.queue), 1, world.recording_function(1));
    let sent_and_stopped = async {
        world.send(&["a", GARBLED, "b"]).await;
        world.sleep_seconds(1).await;
        world.stop.request();
    };
    world.clock.block_on(join(poller.run_until_stop(&world.stop), sent_and_stopped));
    assert_eq!(world.seen.bodies(), timed_bodies(&[(0, "a"), (0, "b")]));
    let events = world.seen.events();
    assert!(
        matches!(&events[..], [(0, Event::UnreadableRecord { sqs_message_id })] if !sqs_message_id.is_empty()),
        "{events:?}"
    );
    assert_eq!(world.remaining_messages(), 1, "it was not deleted");
}

/// A function that preserves the order of each group, and succeeds.
struct OrderedFunction<'a>(&'a Observations);

impl Function for OrderedFunction<'_> {
    async fn process_batch(&self, records: Vec<ReceivedMessage>, _: Timestamp) -> Vec<Confirmed> {
        records.iter().for_each(|record| self.0.record_body(&record.body));
        records.into_iter().map(|record| record.into_receipt().confirm()).collect()
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

#[test]
fn messages_behind_an_unreadable_one_in_their_group_stay_on_the_queue() {
    let world = World::new();
    world.clock.block_on(async {
        world.send_to_group("a", &["1", GARBLED, "3"]).await;
        world.send_to_group("b", &["4"]).await;
        world.send_to_group("a", &["5"]).await;
    });
    let poller =
        world.poller_for_queue(GarbledBodies::wrap_queue(&world.queue), 1, OrderedFunction(&world.seen));
    let stopped = async {
        world.sleep_seconds(1).await;
        world.stop.request();
    };
    world.clock.block_on(join(poller.run_until_stop(&world.stop), stopped));
    assert_eq!(world.seen.bodies(), timed_bodies(&[(0, "1"), (0, "4")]));
    assert_eq!(world.remaining_messages(), 3, "nothing behind it was deleted");
}

#[test]
fn a_failed_record_is_received_again_after_its_visibility_timeout() {
    let world = World::new();
    let seen = &world.seen;
    let function = BatchFunction(|bodies: Vec<String>| async move {
        let first = seen.bodies().is_empty();
        bodies.iter().for_each(|body| seen.record_body(body));
        if first { vec!["b".to_owned()] } else { Vec::new() }
    });
    world.run_poller(function, async {
        world.send(&["a", "b", "c"]).await;
        world.sleep_seconds(VISIBILITY_SECONDS + 1).await;
    });
    assert_eq!(world.seen.bodies(), timed_bodies(&[(0, "a"), (0, "b"), (0, "c"), (40, "b")]));
    assert_eq!(world.remaining_messages(), 0);
    assert_eq!(world.request_count(SqsAction::ChangeMessageVisibilityBatch), 0);
}

#[test]
fn a_panic_is_reported_and_deletes_nothing() {
    let world = World::new();
    let seen = &world.seen;
    let function = BatchFunction(|bodies: Vec<String>| async move {
        let first = seen.bodies().is_empty();
        bodies.iter().for_each(|body| seen.record_body(body));
        assert!(!first, "on purpose");
        Vec::new()
    });
    world.run_poller(function, async {
        world.send(&["a", "b"]).await;
        world.sleep_seconds(VISIBILITY_SECONDS + 1).await;
    });
    let broken_off = Event::BatchBrokenOff { records: 2, reason: "panic" };
    assert_eq!(world.seen.events(), [(0, broken_off)]);
    assert_eq!(world.seen.bodies(), timed_bodies(&[(0, "a"), (0, "b"), (40, "a"), (40, "b")]));
    assert_eq!(world.remaining_messages(), 0);
}

#[test]
fn an_endless_batch_is_aborted_at_its_deadline() {
    let world = World::new();
    let ended = world.run_poller(BatchFunction(|_| pending()), async {
        world.send(&["a"]).await;
        world.sleep_seconds(5).await;
        assert!(world.health.health_report(world.clock.now()).healthy);
    });
    let broken_off = Event::BatchBrokenOff { records: 1, reason: "timeout" };
    assert_eq!(world.seen.events(), [(30, broken_off)]);
    assert_eq!((ended, world.remaining_messages()), (30, 1));
    assert_eq!(world.health.pollers[0].function_health(world.clock.now()).batches_in_flight, 0);
}

#[test]
fn batches_in_flight_never_exceed_the_concurrency() {
    let world = World::new();
    let bodies: Vec<_> = (0..60).map(|n| n.to_string()).collect();
    let (now, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let function = BatchFunction(|bodies: Vec<String>| {
        let (world, now, most, done) = (&world, &now, &most, &done);
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            world.sleep_seconds(10).await;
            now.fetch_sub(1, Ordering::Relaxed);
            done.fetch_add(bodies.len(), Ordering::Relaxed);
            Vec::new()
        }
    });
    let poller = world.poller(3, function);
    world.clock.block_on(async {
        world.send(&bodies.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let stop = async {
            world.sleep_seconds(15).await;
            assert_eq!(world.health.pollers[0].function_health(world.clock.now()).batches_in_flight, 3);
            world.stop.request();
        };
        join(poller.run_until_stop(&world.stop), stop).await;
    });
    assert_eq!((most.into_inner(), done.into_inner(), world.remaining_messages()), (3, 60, 0));
    assert_eq!(world.seen.now_seconds(), 20);
}

#[test]
fn a_stopping_process_is_healthy_but_not_ready() {
    let world = World::new();
    let later = world.clock.now() + Duration::from_secs(61);
    assert!(world.health.health_report(later - Duration::from_secs(1)).healthy && world.health.is_ready());
    let report = world.health.health_report(later);
    assert!(!report.healthy && !report.functions[0].healthy);
    assert_eq!(report.functions[0].seconds_since_poll, 61);
    world.stop.request();
    assert!(world.health.health_report(later).healthy && !world.health.is_ready());
}

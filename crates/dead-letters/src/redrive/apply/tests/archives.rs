//! Dead letters of an archive: sent to a queue, and marked there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{Either, join, select};
use redeliver_core::archive::{Death, Folder, Layout, Prefix, gzip};
use redeliver_core::ports::ObjectStore as _;
use redeliver_embedded::{BucketRequest, MemoryBucket};

use super::*;
use crate::archive_bucket::{ArchiveBucket, Period};
use crate::archive_queue::{ArchiveQueue, Lease, LeaseError, Leased};
use crate::{ArchivedMessage, DeadLetterRecord, FileQueue};

type TestQueue = ArchiveQueue<MemoryBucket, VirtualClock>;

fn layout() -> Layout {
    Layout { prefix: Prefix::default(), deployment: "dlq".to_owned() }
}

/// Archives a dead letter of this second.
fn archive(world: &World, store: &MemoryBucket, second: i64, line: &ArchivedMessage) {
    let at = Timestamp::from_timestamp(second, 0).unwrap();
    let record = DeadLetterRecord::new(line.clone().restored().unwrap());
    let death = Death::new(at, &record.fingerprint, &format!("id-{second}"));
    let key = layout().key(Folder::DeadLetters, &death);
    assert_eq!(world.clock.block_on(store.create(&key, gzip(line))), Ok(true));
}

/// A world with an archive of this number of dead letters, and nothing in its queues.
fn archived(messages: usize, store: &MemoryBucket) -> World {
    let world = World::new((0..messages).map(dead).collect());
    for (second, message) in (0..).zip(world.take(&world.dlq)) {
        archive(&world, store, second, &ArchivedMessage::new(&message));
    }
    world
}

impl World {
    /// As another machine: nothing of what was done is known here.
    fn elsewhere(self) -> Self {
        std::fs::remove_file(&self.journal).unwrap();
        self
    }

    async fn open(&self, store: &MemoryBucket, run: &str) -> Result<TestQueue, LeaseError> {
        self.open_period(store, run, Period::default()).await
    }

    async fn open_period(
        &self,
        store: &MemoryBucket,
        run: &str,
        period: Period,
    ) -> Result<TestQueue, LeaseError> {
        let bucket = ArchiveBucket {
            store: store.clone(),
            clock: self.clock.clone(),
            prefix: Prefix::default(),
            deployment: Some("dlq".to_owned()),
        };
        let lease = Lease::acquire(bucket.clone(), &layout(), run.to_owned()).await?;
        let found = bucket.find(period).await?;
        let mut file = tempfile::tempfile().unwrap();
        let read = bucket.read(found.deaths, &mut file, &|_| {}).await.unwrap();
        let lines = FileQueue::open(file, "s3://kept", "s3://kept", Timestamp::UNIX_EPOCH).unwrap();
        Ok(ArchiveQueue::new(lines, read.deaths, lease))
    }

    async fn send_back(&self, from: &TestQueue, limits: Limits) -> Result<RedriveReport, Failure> {
        let plan = everything();
        let Redrive { clock, interrupted, progress, .. } = self.redrive(&plan);
        let slow = slow(&self.source, &self.clock);
        let source = Leased { queue: &slow, lease: Some(from.lease()) };
        let redrive = Redrive {
            dlq: from,
            source: &source,
            clock,
            plan: &plan,
            can_come_back: false,
            limits,
            interrupted,
            progress,
        };
        let report = redrive.apply(&mut self.journal()).await;
        from.lease().release(report.as_ref().ok()).await;
        report
    }

    async fn run(&self, store: &MemoryBucket, run: &str) -> Result<RedriveReport, Failure> {
        let from = self.open(store, run).await?;
        self.send_back(&from, UNWATCHED).await
    }
}

const UNWATCHED: Limits = Limits { watch: Duration::ZERO, ..NO_LIMITS };

fn marks(store: &MemoryBucket) -> usize {
    let keys = store.objects().into_keys();
    keys.filter(|key| key.starts_with("sent-back/") && key.contains("/date=")).count()
}

/// Sent, only marked, sent and not marked, and the exit code.
fn told(report: &RedriveReport) -> (u64, u64, u64, u8) {
    (report.sent, report.deleted_only, report.not_deleted, Ending::of(report, u64::MAX).code())
}

#[test]
fn each_is_sent_once_and_marked_and_a_second_run_on_another_machine_sends_none() {
    let store = MemoryBucket::default();
    let world = archived(120, &store);
    assert!(!world.journal().is_unfinished());
    let first = world.clock.block_on(world.run(&store, "one")).unwrap();
    assert_eq!((told(&first), marks(&store)), ((120, 0, 0, 0), 120));
    assert!(!world.journal().is_unfinished());
    let world = world.elsewhere();
    let second = world.clock.block_on(world.run(&store, "two")).unwrap();
    assert_eq!((told(&second), marks(&store)), ((0, 0, 0, 0), 120));
    assert_eq!(world.take(&world.source).len(), 120);
}

#[test]
fn both_deaths_of_a_message_are_marked_and_it_is_sent_once() {
    let store = MemoryBucket::default();
    let world = archived(0, &store);
    world.put(&world.dlq, vec![dead(1)]);
    let [message] = world.take(&world.dlq).try_into().unwrap();
    archive(&world, &store, 1, &ArchivedMessage::new(&message));
    archive(&world, &store, 2, &ArchivedMessage::new(&message));
    let report = world.clock.block_on(world.run(&store, "one")).unwrap();
    assert_eq!((told(&report), marks(&store)), ((1, 0, 0, 0), 2));
    let world = world.elsewhere();
    assert_eq!(told(&world.clock.block_on(world.run(&store, "two")).unwrap()), (0, 0, 0, 0));
}

#[test]
fn no_message_is_lost_or_sent_twice_unnoticed_when_the_program_dies_at_any_moment() {
    const MESSAGES: usize = 23;
    let mut followed = 0;
    for polls in 1.. {
        let store = MemoryBucket::default();
        let world = archived(MESSAGES, &store);
        let died =
            world.clock.block_on(Killed { future: Box::pin(world.run(&store, "one")), polls }).is_none();
        let early = world.clock.block_on(world.open(&store, "early")).err();
        assert!(!died || early.is_some_and(|early| matches!(early, LeaseError::Taken { .. })), "{polls}");
        world.clock.block_on(world.clock.sleep(Duration::from_secs(300)));
        let from = world.clock.block_on(world.open(&store, "two")).unwrap();
        // Without this run's journal it would send twice what was sent and not marked.
        let not_marked = world.depths().1 as usize - marks(&store);
        assert!(not_marked == 0 || from.lease().follows_unfinished(), "killed after {polls} polls");
        assert!(not_marked == 0 || world.journal().is_unfinished(), "killed after {polls} polls");
        followed += u32::from(not_marked > 0);
        let report = world.clock.block_on(world.send_back(&from, UNWATCHED)).unwrap();
        assert_eq!((report.not_deleted, marks(&store)), (0, MESSAGES), "killed after {polls} polls");

        let mut copies: BTreeMap<String, u64> = BTreeMap::new();
        for message in world.take(&world.source) {
            let body: Value = serde_json::from_str(&message.body).unwrap();
            *copies.entry(body["metadata"]["message_id"].to_string()).or_default() += 1;
        }
        let total: u64 = copies.values().sum();
        assert_eq!(copies.len(), MESSAGES, "killed after {polls} polls: something is lost");
        assert!(total - MESSAGES as u64 <= report.possible_copies, "{polls}: {copies:?} {report:?}");
        let world = world.elsewhere();
        let next = world.clock.block_on(world.open(&store, "three")).unwrap();
        assert!(!next.lease().follows_unfinished(), "killed after {polls} polls");
        if !died {
            break;
        }
    }
    assert!(followed > 3, "it died {followed} times between a send and its mark");
}

#[test]
fn marks_that_are_refused_end_it_and_the_same_command_marks_them_and_sends_the_rest() {
    let is_denied = Arc::new(AtomicBool::new(false));
    let denied = Arc::clone(&is_denied);
    let store = MemoryBucket::with_faults(move |request| {
        let is_mark =
            matches!(request, BucketRequest::Create(key) if key.contains("sent-back/deployment=dlq/date="));
        (is_mark && denied.load(Ordering::Relaxed)).then_some(Injection::Sender)
    });
    let world = archived(200, &store);
    is_denied.store(true, Ordering::Relaxed);
    let first = world.clock.block_on(world.run(&store, "one")).unwrap();
    let sent = first.sent;
    assert!((10..=160).contains(&sent), "{sent}");
    assert_eq!(told(&first), (sent, 0, sent, 6));
    assert_eq!(told(&world.clock.block_on(world.run(&store, "two")).unwrap()), (0, 0, sent, 6));
    is_denied.store(false, Ordering::Relaxed);
    let from = world.clock.block_on(world.open(&store, "three")).unwrap();
    assert!(from.lease().follows_unfinished());
    assert_eq!(
        told(&world.clock.block_on(world.send_back(&from, UNWATCHED)).unwrap()),
        (200 - sent, sent, 0, 0)
    );
    assert_eq!((marks(&store), world.take(&world.source).len()), (200, 200));
}

#[test]
fn a_mark_whose_answer_is_lost_or_that_is_there_already_counts() {
    let mut number = 0;
    let store = MemoryBucket::with_faults(move |request| {
        let is_mark =
            matches!(request, BucketRequest::Create(key) if key.contains("sent-back/deployment=dlq/date="));
        number += u32::from(is_mark);
        (is_mark && number.is_multiple_of(3)).then_some(Injection::LostAnswer)
    });
    let world = archived(30, &store);
    assert_eq!(told(&world.clock.block_on(world.run(&store, "one")).unwrap()), (30, 0, 0, 0));
    assert_eq!(marks(&store), 30);
}

#[test]
fn what_was_sent_and_is_not_in_the_next_runs_period_is_not_taken_for_marked() {
    let store = MemoryBucket::with_faults(|request| {
        let is_mark =
            matches!(request, BucketRequest::Create(key) if key.contains("sent-back/deployment=dlq/date="));
        is_mark.then_some(Injection::Sender)
    });
    let world = archived(5, &store);
    assert_eq!(told(&world.clock.block_on(world.run(&store, "one")).unwrap()), (5, 0, 5, 6));
    // Another archive under the same name: all that this run reads is something else.
    let other = MemoryBucket::default();
    let report = world.clock.block_on(world.run(&other, "two")).unwrap();
    assert_eq!(told(&report), (0, 0, 0, 0));
    assert_eq!(world.journal().not_deleted().count(), 5, "they are still to be marked");
}

/// The journal is the same for each period.
#[test]
fn what_a_run_of_another_period_has_not_marked_is_not_sent_again_elsewhere() {
    let is_denied = Arc::new(AtomicBool::new(true));
    let denied = Arc::clone(&is_denied);
    let store = MemoryBucket::with_faults(move |request| {
        let is_mark =
            matches!(request, BucketRequest::Create(key) if key.contains("sent-back/deployment=dlq/date="));
        (is_mark && denied.load(Ordering::Relaxed)).then_some(Injection::Sender)
    });
    let world = archived(5, &store);
    assert_eq!(told(&world.clock.block_on(world.run(&store, "one")).unwrap()), (5, 0, 5, 6));
    is_denied.store(false, Ordering::Relaxed);
    let later = Period { since: Timestamp::from_timestamp(3, 0), until: None };
    let from = world.clock.block_on(world.open_period(&store, "two", later)).unwrap();
    assert_eq!(told(&world.clock.block_on(world.send_back(&from, UNWATCHED)).unwrap()), (0, 2, 0, 0));
    assert!(world.journal().is_unfinished());
    let from = world.clock.block_on(world.open(&store, "three")).unwrap();
    assert!(from.lease().follows_unfinished(), "three messages are sent and have no mark");
    assert_eq!(told(&world.clock.block_on(world.send_back(&from, UNWATCHED)).unwrap()), (0, 3, 0, 0));
    assert!(!world.journal().is_unfinished());
    assert!(!world.clock.block_on(world.open(&store, "four")).unwrap().lease().follows_unfinished());
}

#[test]
fn a_second_run_at_the_same_time_is_refused_and_the_first_one_goes_on() {
    let store = MemoryBucket::default();
    let world = archived(100, &store);
    let slowly = Limits { rate: Some(1), ..UNWATCHED };
    let from = world.clock.block_on(world.open(&store, "one")).unwrap();
    let second = async {
        // As long as the first one sends; the lease of its start would be over.
        for _ in 0..9 {
            world.clock.sleep(Duration::from_secs(10)).await;
            let refused = world.open(&store, "two").await.err();
            assert!(matches!(refused, Some(LeaseError::Taken { .. })), "{refused:?}");
        }
    };
    let (report, ()) = world.clock.block_on(join(world.send_back(&from, slowly), second));
    assert_eq!(told(&report.unwrap()), (100, 0, 0, 0));
    assert!(world.clock.block_on(world.open(&store, "two")).is_ok());
}

#[test]
fn a_run_whose_lease_is_taken_over_ends_and_what_it_sent_is_marked() {
    let store = MemoryBucket::default();
    let world = archived(400, &store);
    let slowly = Limits { rate: Some(1), ..UNWATCHED };
    let from = world.clock.block_on(world.open(&store, "one")).unwrap();
    let key = layout().sending();
    let taken_over = async {
        world.clock.sleep(Duration::from_secs(100)).await;
        let there = store.read(&key).await.unwrap().unwrap();
        let other = br#"{"run":"two","until":"1970-01-01T01:00:00Z","unmarked":false}"#.to_vec();
        assert_eq!(store.replace(&key, &there.version, other).await, Ok(true));
    };
    let (report, ()) = world.clock.block_on(join(world.send_back(&from, slowly), taken_over));
    let report = report.unwrap();
    let Some(Early::Failed(why)) = &report.early else { panic!("{report:?}") };
    assert!(why.ends_with("refused (AnotherRunSendsFromTheArchive)"), "{why}");
    // Renewed after a minute, so it is known after two.
    assert!((100..=125).contains(&report.sent), "{}", report.sent);
    assert_eq!((marks(&store) as u64, world.depths().1, report.not_deleted), (report.sent, report.sent, 0));
    assert!(String::from_utf8(store.objects()[&key].clone()).unwrap().contains(r#""run":"two""#));
}

#[test]
fn a_run_that_cannot_renew_its_lease_ends_before_another_one_may_begin() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let store = MemoryBucket::with_faults(move |request| {
        let is_lease = matches!(request, BucketRequest::Replace(_));
        (is_lease && down.load(Ordering::Relaxed)).then_some(Injection::Service)
    });
    let world = archived(600, &store);
    let slowly = Limits { rate: Some(1), ..UNWATCHED };
    let from = world.clock.block_on(world.open(&store, "one")).unwrap();
    let last_sent_at = std::cell::Cell::new(world.clock.now());
    let watch = async {
        let mut sent = 0;
        loop {
            world.clock.sleep(Duration::from_secs(1)).await;
            if world.clock.now() > Timestamp::UNIX_EPOCH + Duration::from_secs(90) {
                is_down.store(true, Ordering::Relaxed);
            }
            let depth = world.source.depth().await.unwrap().total();
            if depth > sent {
                sent = depth;
                last_sent_at.set(world.clock.now());
            }
        }
    };
    let (run, watch) = (pin!(world.send_back(&from, slowly)), pin!(watch));
    let report = match world.clock.block_on(select(run, watch)) {
        Either::Left((report, _)) => report.unwrap(),
        Either::Right((never, _)) => never,
    };
    assert!(report.early.is_some() || report.staying_count() > 0, "{report:?}");
    let bytes = store.objects()[&layout().sending()].clone();
    let lease: Value = serde_json::from_slice(&bytes).unwrap();
    let until = redeliver_core::message::metadata::parse_rfc3339(lease["until"].as_str().unwrap()).unwrap();
    assert!(last_sent_at.get() + Duration::from_secs(60) < until, "{} {until}", last_sent_at.get());
    assert_eq!(marks(&store) as u64, world.depths().1, "what was sent is marked");
}

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use redeliver_core::archive::{ArchivedMessage, Death, Layout, Prefix};
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::ports::{Listing, Page, StoredObject};
use redeliver_embedded::{BucketRequest, Injection, MemoryBucket, VirtualClock};
use redeliver_testing::dead_letters::foreign;

use super::*;
use crate::archive_bucket::ArchiveBucket;
use crate::redrive::{Early, RedriveReport};

type TestLease = Lease<MemoryBucket, VirtualClock>;

const KEY: &str = "kept/sent-back/deployment=orders-final-dlq/sending.json";

fn clock() -> VirtualClock {
    VirtualClock::new(parse_rfc3339("2026-11-28T00:00:00Z").unwrap())
}

fn acquire(clock: &VirtualClock, store: &MemoryBucket, run: &str) -> Result<TestLease, String> {
    let prefix = Prefix::new("kept").unwrap();
    let layout = Layout { prefix: prefix.clone(), deployment: "orders-final-dlq".to_owned() };
    let bucket = ArchiveBucket { store: store.clone(), clock: clock.clone(), prefix, deployment: None };
    let acquired = clock.block_on(Lease::acquire(bucket, &layout, run.to_owned()));
    acquired.map_err(|error| error.to_string())
}

fn pass(clock: &VirtualClock, seconds: u64) {
    clock.block_on(clock.sleep(Duration::from_secs(seconds)));
}

fn code(held: Result<(), EntryError>) -> Result<(), String> {
    held.map_err(|error| error.code)
}

fn lost() -> Result<(), String> {
    Err("AnotherRunSendsFromTheArchive".to_owned())
}

/// The lease that is there.
fn there(store: &MemoryBucket) -> String {
    String::from_utf8(store.objects()[KEY].clone()).unwrap()
}

#[test]
fn a_second_run_is_refused_until_the_first_one_ends() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let first = acquire(&clock, &store, "one").unwrap();
    assert_eq!(there(&store), r#"{"run":"one","until":"2026-11-28T00:05:00.000000Z","unmarked":false}"#);
    assert_eq!(
        acquire(&clock, &store, "two").unwrap_err(),
        format!(
            "{KEY}: another run sends from this archive, or was killed. Run it again once it has ended, or after 2026-11-28T00:05:00.000Z"
        )
    );
    assert_eq!(code(clock.block_on(first.hold_to_send())), Ok(()));
    clock.block_on(first.release(Some(&RedriveReport::default())));
    let second = acquire(&clock, &store, "two").unwrap();
    assert!(!second.follows_unfinished());
}

#[test]
fn a_run_that_was_killed_is_followed_after_five_minutes_and_it_is_known_if_it_has_sent() {
    for has_sent in [false, true] {
        let (clock, store) = (clock(), MemoryBucket::default());
        let first = acquire(&clock, &store, "one").unwrap();
        if has_sent {
            assert_eq!(code(clock.block_on(first.hold_to_send())), Ok(()));
        }
        pass(&clock, 299);
        assert!(acquire(&clock, &store, "two").is_err());
        pass(&clock, 1);
        let second = acquire(&clock, &store, "two").unwrap();
        assert_eq!(second.follows_unfinished(), has_sent);
        // It was not dead, only slow.
        assert_eq!(code(clock.block_on(first.hold_to_send())), lost());
        clock.block_on(first.release(None));
        assert!(there(&store).contains(r#""run":"two""#), "the end of a lost lease changes nothing");
        assert_eq!(code(clock.block_on(second.hold_to_send())), Ok(()));
    }
}

#[test]
fn what_is_not_marked_is_known_until_a_run_has_marked_it() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let ended = |early| Some(RedriveReport { early, ..RedriveReport::default() });
    let not_marked = || Some(RedriveReport { not_deleted: 1, ..RedriveReport::default() });
    let mut follows = Vec::new();
    for (sends, report) in [
        (true, not_marked()),
        (false, None),
        (false, ended(Some(Early::Interrupted))),
        (false, ended(Some(Early::Stopped))),
        (true, ended(None)),
        (false, None),
        (true, ended(Some(Early::Interrupted))),
        (true, None),
        (true, ended(None)),
        (true, ended(Some(Early::Failed("the disk is full".to_owned())))),
        (false, ended(None)),
        (false, None),
    ] {
        let lease = acquire(&clock, &store, "run").unwrap();
        follows.push(lease.follows_unfinished());
        if sends {
            assert_eq!(code(clock.block_on(lease.hold_to_send())), Ok(()));
        }
        clock.block_on(lease.release(report.as_ref()));
    }
    let f = false;
    assert_eq!(follows, [f, true, true, true, true, f, f, f, true, f, true, f]);
}

#[test]
fn it_is_renewed_each_minute_and_a_run_that_slept_goes_on_if_nobody_came() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let lease = acquire(&clock, &store, "one").unwrap();
    let replaced = || store.requests().iter().filter(|one| matches!(one, BucketRequest::Replace(_))).count();
    for (seconds, renewals) in [(59, 0), (1, 1), (30, 1), (30, 2), (3600, 3)] {
        pass(&clock, seconds);
        assert_eq!(code(clock.block_on(lease.hold())), Ok(()), "after {seconds} s more");
        assert_eq!(replaced(), renewals, "after {seconds} s more");
    }
    assert!(acquire(&clock, &store, "two").is_err());
}

#[test]
fn a_renewal_still_says_that_messages_may_be_sent_and_not_marked() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let lease = acquire(&clock, &store, "one").unwrap();
    assert_eq!(code(clock.block_on(lease.hold_to_send())), Ok(()));
    pass(&clock, 60);
    assert_eq!(code(clock.block_on(lease.hold())), Ok(()));
    assert_eq!(there(&store), r#"{"run":"one","until":"2026-11-28T00:06:00.000000Z","unmarked":true}"#);
}

#[test]
fn it_is_renewed_while_the_archive_is_read() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let lease = acquire(&clock, &store, "one").unwrap();
    clock.block_on(lease.during(clock.sleep(Duration::from_secs(3600))));
    assert!(acquire(&clock, &store, "two").is_err());
}

#[test]
fn a_write_whose_answer_is_lost_is_known_as_ours() {
    let clock = clock();
    let store = MemoryBucket::with_faults(|request| {
        let is_write = matches!(request, BucketRequest::Create(_) | BucketRequest::Replace(_));
        is_write.then_some(Injection::LostAnswer)
    });
    // Each try of the first write is without an answer: nobody knows that it is there, and its time must pass.
    assert!(acquire(&clock, &store, "one").unwrap_err().contains("no answer"));
    assert!(acquire(&clock, &store, "two").unwrap_err().contains("another run sends"));
    let count = AtomicU32::new(0);
    let store = MemoryBucket::with_faults(move |request| {
        let is_write = matches!(request, BucketRequest::Create(_) | BucketRequest::Replace(_));
        (is_write && count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)).then_some(Injection::LostAnswer)
    });
    let lease = acquire(&clock, &store, "one").unwrap();
    for _ in 0..3 {
        pass(&clock, 60);
        assert_eq!(code(clock.block_on(lease.hold_to_send())), Ok(()));
    }
}

/// Until another run may begin, by the object and not by the time at which it was read.
#[test]
fn a_renewal_whose_every_answer_was_lost_lasts_as_long_as_the_object_says() {
    let clock = clock();
    let fault = Arc::new(Mutex::new(None));
    let present = Arc::clone(&fault);
    let store = MemoryBucket::with_faults(move |request| {
        let is_renewal = matches!(request, BucketRequest::Replace(_));
        if is_renewal { *lock(&present) } else { None }
    });
    let lease = acquire(&clock, &store, "one").unwrap();
    pass(&clock, 60);
    *lock(&fault) = Some(Injection::LostAnswer);
    assert_eq!(code(clock.block_on(lease.hold())), Ok(()), "that of its start");
    let renewed = there(&store);
    let until = parse_rfc3339(renewed.split('"').nth(7).unwrap()).unwrap();
    assert!(until > clock.now() + Duration::from_secs(240), "{renewed}");
    // The object is not of the version that this run knows, and is its own.
    *lock(&fault) = None;
    pass(&clock, 100);
    assert_eq!(code(clock.block_on(lease.hold())), Ok(()));
    assert_eq!(there(&store), renewed, "only read");
    *lock(&fault) = Some(Injection::Sender);
    let left = until - Duration::from_secs(120) - clock.now();
    clock.block_on(clock.sleep((left - TimeDelta::milliseconds(1)).to_std().unwrap()));
    assert_eq!(code(clock.block_on(lease.hold())), Ok(()));
    clock.block_on(clock.sleep(Duration::from_millis(1)));
    assert_eq!(code(clock.block_on(lease.hold())), Err("LeaseOfTheArchiveNotRenewed".to_owned()));
}

/// If this run were killed then, nobody would know that it had sent.
#[test]
fn nothing_is_sent_if_the_object_is_this_runs_and_does_not_say_that_it_sends() {
    let clock = clock();
    let loses = Arc::new(AtomicBool::new(true));
    let lost = Arc::clone(&loses);
    let store = MemoryBucket::with_faults(move |request| {
        let is_renewal = matches!(request, BucketRequest::Replace(_));
        (is_renewal && lost.load(Ordering::Relaxed)).then_some(Injection::LostAnswer)
    });
    let lease = acquire(&clock, &store, "one").unwrap();
    pass(&clock, 60);
    assert_eq!(code(clock.block_on(lease.hold())), Ok(()));
    loses.store(false, Ordering::Relaxed);
    assert_eq!(code(clock.block_on(lease.hold_to_send())), Err("LeaseOfTheArchiveNotRenewed".to_owned()));
    assert!(there(&store).contains(r#""unmarked":false"#), "{}", there(&store));
    assert_eq!(code(clock.block_on(lease.hold_to_send())), Ok(()));
    assert!(there(&store).contains(r#""unmarked":true"#), "{}", there(&store));
}

#[test]
fn a_renewal_that_is_refused_ends_the_sends_in_time_and_they_go_on_with_it() {
    let clock = clock();
    let is_refused = Arc::new(AtomicBool::new(false));
    let refuses = Arc::clone(&is_refused);
    let store = MemoryBucket::with_faults(move |request| {
        let is_renewal = matches!(request, BucketRequest::Replace(_));
        (is_renewal && refuses.load(Ordering::Relaxed)).then_some(Injection::Service)
    });
    let lease = acquire(&clock, &store, "one").unwrap();
    assert_eq!(code(clock.block_on(lease.hold_to_send())), Ok(()));
    let begun = clock.now();
    is_refused.store(true, Ordering::Relaxed);
    while code(clock.block_on(lease.hold())) == Ok(()) {
        pass(&clock, 1);
    }
    let held = (clock.now() - begun).num_seconds();
    assert!((180..200).contains(&held), "two minutes before another run may begin, not after {held} s");
    assert_eq!(
        code(clock.block_on(lease.hold_to_send())),
        Err("LeaseOfTheArchiveNotRenewed".to_owned()),
        "and nothing is taken for sent"
    );
    is_refused.store(false, Ordering::Relaxed);
    pass(&clock, 10);
    assert_eq!(code(clock.block_on(lease.hold_to_send())), Ok(()));
}

#[test]
fn nothing_is_sent_before_the_lease_says_so() {
    let clock = clock();
    let store = MemoryBucket::with_faults(|request| {
        matches!(request, BucketRequest::Replace(_)).then_some(Injection::Sender)
    });
    let lease = acquire(&clock, &store, "one").unwrap();
    assert_eq!(code(clock.block_on(lease.hold())), Ok(()));
    let refused = clock.block_on(lease.hold_to_send()).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.fault.may_be_done()), ("LeaseOfTheArchiveNotRenewed", false));
}

#[test]
fn of_two_runs_that_follow_a_killed_one_at_the_same_moment_one_sends() {
    let (clock, store) = (clock(), MemoryBucket::default());
    drop(acquire(&clock, &store, "killed").unwrap());
    pass(&clock, 300);
    // The other one writes between this one's look and its write.
    let between = Between { store: store.clone(), reads: AtomicU32::new(0) };
    let prefix = Prefix::new("kept").unwrap();
    let layout = Layout { prefix: prefix.clone(), deployment: "orders-final-dlq".to_owned() };
    let bucket = ArchiveBucket { store: between, clock: clock.clone(), prefix, deployment: None };
    let refused = clock.block_on(Lease::acquire(bucket, &layout, "late".to_owned())).unwrap_err();
    assert!(refused.to_string().contains("another run sends"), "{refused}");
    assert!(there(&store).contains(r#""run":"early""#), "{}", there(&store));
}

/// A bucket in which another run takes the lease after the first read.
#[derive(Debug)]
struct Between {
    store: MemoryBucket,
    reads: AtomicU32,
}

impl ObjectStore for Between {
    async fn create(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.store.create(key, content).await
    }

    async fn replace(&self, key: &str, version: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.store.replace(key, version, content).await
    }

    async fn read(&self, key: &str) -> Result<Option<StoredObject>, EntryError> {
        let read = self.store.read(key).await?;
        if self.reads.fetch_add(1, Ordering::Relaxed) == 0
            && let Some(object) = &read
        {
            let taken = br#"{"run":"early","until":"2026-11-28T00:10:00Z","unmarked":false}"#.to_vec();
            assert_eq!(self.store.replace(key, &object.version, taken).await, Ok(true));
        }
        Ok(read)
    }

    async fn list(&self, listing: Listing<'_>) -> Result<Page, EntryError> {
        self.store.list(listing).await
    }
}

#[test]
fn an_object_that_is_no_lease_is_not_touched() {
    let (clock, store) = (clock(), MemoryBucket::default());
    assert_eq!(clock.block_on(store.create(KEY, b"CANARY".to_vec())), Ok(true));
    let refused = acquire(&clock, &store, "one").unwrap_err();
    assert_eq!(refused, format!("{KEY}: not a lease of redeliver: find out who wrote it, then delete it"));
    assert_eq!(there(&store), "CANARY");
}

#[test]
fn a_lease_that_somebody_has_overwritten_is_lost_for_good() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let lease = acquire(&clock, &store, "one").unwrap();
    let version = clock.block_on(store.read(KEY)).unwrap().unwrap().version;
    assert_eq!(clock.block_on(store.replace(KEY, &version, b"CANARY".to_vec())), Ok(true));
    pass(&clock, 60);
    assert_eq!(code(clock.block_on(lease.hold())), lost());
    clock.block_on(lease.release(None));
    assert_eq!(there(&store), "CANARY");
}

/// An archive of one message that died twice, and its queue.
fn of_two_deaths(clock: &VirtualClock, store: &MemoryBucket) -> ArchiveQueue<MemoryBucket, VirtualClock> {
    let prefix = Prefix::new("kept").unwrap();
    let layout = Arc::new(Layout { prefix, deployment: "orders-final-dlq".to_owned() });
    let line = ArchivedMessage::new(&foreign("x", 1));
    let read = ["first", "second"].map(|id| {
        let death = Death::new(clock.now(), "0123456789abcdef", id);
        let death = ArchivedDeath { layout: Arc::clone(&layout), death };
        ReadDeath { death, sqs_message_id: line.sqs_message_id.clone() }
    });
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&serde_json::to_vec(&line).unwrap()).unwrap();
    let lines = FileQueue::open(file, "s3://kept", "s3://kept", clock.now()).unwrap();
    ArchiveQueue::new(lines, read.into(), acquire(clock, store, "one").unwrap())
}

const ONE: Receive = Receive { max_messages: 1, wait: Duration::ZERO, visibility: None };

fn marks(store: &MemoryBucket) -> usize {
    store.objects().keys().filter(|key| key.contains("/date=2026-11-28/")).count()
}

#[test]
fn a_message_is_marked_once_all_its_deaths_are() {
    let clock = clock();
    let mut refusals = 1;
    let store = MemoryBucket::with_faults(move |request| match request {
        BucketRequest::Create(key) if key.contains("-second") && refusals > 0 => {
            refusals -= 1;
            Some(Injection::Sender)
        }
        _ => None,
    });
    let queue = of_two_deaths(&clock, &store);
    let received = clock.block_on(queue.receive(ONE)).unwrap();
    let handle = received[0].receipt_handle.clone();
    let delete = || clock.block_on(queue.delete_batch(std::slice::from_ref(&handle))).remove(0);
    assert_eq!(delete().map_err(|error| error.code), Err("InvalidParameterValue".to_owned()));
    assert_eq!(clock.block_on(queue.depth()).unwrap().in_flight, 1);
    assert_eq!(delete(), Ok(()));
    assert_eq!((marks(&store), clock.block_on(queue.depth()).unwrap().total()), (2, 0));
    assert_eq!(delete().map_err(|error| error.code), Err("NotOfTheArchive".to_owned()));
}

#[test]
fn without_the_lease_nothing_comes_out_and_what_was_sent_is_marked() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let queue = of_two_deaths(&clock, &store);
    let received = clock.block_on(queue.receive(ONE)).unwrap();
    pass(&clock, 300);
    drop(acquire(&clock, &store, "two").unwrap());
    assert_eq!(code(clock.block_on(queue.receive(ONE)).map(drop)), lost());
    assert_eq!(clock.block_on(queue.delete_batch(&[received[0].receipt_handle.clone()])), [Ok(())]);
    assert_eq!(marks(&store), 2);
}

#[test]
fn the_lease_is_renewed_while_messages_are_held() {
    let (clock, store) = (clock(), MemoryBucket::default());
    let queue = of_two_deaths(&clock, &store);
    for _ in 0..10 {
        pass(&clock, 60);
        assert_eq!(clock.block_on(queue.change_visibility_batch(&[])), []);
    }
    assert_eq!(there(&store), r#"{"run":"one","until":"2026-11-28T00:15:00.000000Z","unmarked":false}"#);
}

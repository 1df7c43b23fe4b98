//! Notices: each cause once when it appears, once a day while it lasts, once when it is quiet; and never in the way.

use std::future::pending;
use std::sync::{Arc, Mutex};

use redeliver_core::notices::{About, Notice, NoticeKind};
use redeliver_core::ports::{EntryError, Fault, Listing, Page, StoredObject};
use redeliver_embedded::{BucketRequest, Injection, MemoryBucket, VirtualClock};

use super::archive::{archive, died};
use super::*;

const DAY: u64 = 24 * 3600;

/// A topic that records notices.
#[derive(Clone, Default)]
struct Topic {
    published: Arc<Mutex<Vec<Notice>>>,
    fails: Option<Fails>,
}

#[derive(Clone, Copy)]
enum Fails {
    Refuses,
    AnswersNothing,
    Hangs,
}

impl Notifier for Topic {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        match self.fails {
            None => {
                self.published.lock().unwrap().push(notice.clone());
                Ok(())
            }
            Some(Fails::Refuses) => Err(EntryError::new(Fault::Sender, "AuthorizationError")),
            Some(Fails::AnswersNothing) => Err(EntryError::new(Fault::NoAnswer, "Timeout")),
            Some(Fails::Hangs) => pending().await,
        }
    }
}

impl Topic {
    fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.published.lock().unwrap())
    }

    fn told(&self) -> Vec<(NoticeKind, u64)> {
        self.take().into_iter().map(|notice| (notice.kind, notice.count.number)).collect()
    }
}

type Annotator<S> = FinalDlqAnnotator<Spy, VirtualClock, Recorder, S, Topic>;

impl Setup {
    /// One environment.
    fn environment<S>(&self, topic: &Topic, archive: Option<Archive<S>>) -> Annotator<S> {
        let about = About { deployment: "final-dlq".to_owned(), source: "s3://bucket/".to_owned() };
        FinalDlqAnnotator {
            final_dlq: self.final_dlq.clone(),
            archive,
            notices: Some(Notices::new(topic.clone(), about)),
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
        }
    }

    fn of_bucket(&self, topic: &Topic, bucket: &MemoryBucket) -> Annotator<MemoryBucket> {
        self.environment(topic, Some(archive(bucket.clone())))
    }

    fn tell<S: ObjectStore>(&self, annotator: &Annotator<S>, records: Vec<ReceivedMessage>) {
        assert_eq!(self.world.invoke(annotator, records, Duration::from_secs(30)), [""; 0]);
    }

    fn review(&self, annotator: &Annotator<MemoryBucket>, invocation: &str) {
        let deadline = self.world.clock.now() + Duration::from_secs(30);
        self.world.clock.block_on(annotator.review_causes(invocation, deadline));
    }

    fn refused(&self) -> Vec<String> {
        let refused = self.world.seen.events().into_iter().filter_map(|event| match event {
            Event::NoticeRefused { code, .. } => Some(code),
            _ => None,
        });
        refused.collect()
    }
}

/// The n-th record, which failed now and was received with this handle.
fn died_now(setup: &Setup, n: usize) -> ReceivedMessage {
    let failed_at = rfc3339(setup.world.clock.now());
    let more = json!({ "source_message_id": format!("source-{n}"), "failed_at": failed_at });
    given_up(n, spent(n), &failure("RETRY_ATTEMPT_EXCEEDED", more))
}

#[test]
fn a_cause_is_told_once_across_batches_and_environments() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let one = setup.of_bucket(&topic, &bucket);
    setup.tell(&one, vec![died(1), died(2)]);
    let [notice] = topic.take().try_into().unwrap();
    assert_eq!((notice.kind, notice.count.number, notice.count.is_minimum), (NoticeKind::Appeared, 2, false));
    assert_eq!(
        (&*notice.error_type, notice.last_error.as_deref()),
        ("RETRY_ATTEMPT_EXCEEDED", Some("HttpStatus.503"))
    );
    assert_eq!((rfc3339(notice.first_at), rfc3339(notice.last_at)), (moment(-2), moment(-2)));
    let before = bucket.requests().len();
    setup.tell(&one, vec![died(3)]);
    assert_eq!(bucket.requests().len() - before, 1, "an environment that knows does not ask");
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died(4)]);
    assert_eq!(topic.told(), []);
    let other = failure("MESSAGE_EXPIRED", json!({}));
    setup.tell(&one, vec![given_up(5, spent(5), &other)]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)], "another cause");
}

/// docs/deploy/cost.md prices these requests.
#[test]
fn a_flood_of_seven_causes_costs_a_write_for_each_death_and_seven_notices() {
    const DEATHS: usize = 2_000;
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let environments = [(); 10].map(|()| setup.of_bucket(&topic, &bucket));
    for (batch, annotator) in (0..DEATHS / 10).zip(environments.iter().cycle()) {
        let records = (0..10).map(|place| {
            let n = batch * 10 + place;
            let more = json!({ "type": format!("HttpStatus.50{}", n % 7), "source_message_id": format!("source-{n}") });
            given_up(n, spent(n), &failure("RETRY_ATTEMPT_EXCEEDED", more))
        });
        setup.tell(annotator, records.collect());
        if batch == 0 {
            assert_eq!(topic.take().len(), 7, "with the batch of the first");
        }
    }
    assert_eq!(topic.take(), []);
    let requests = bucket.requests();
    let count = |is_one: fn(&&BucketRequest) -> bool| requests.iter().filter(is_one).count();
    assert_eq!(bucket.objects().len(), DEATHS + 7);
    assert_eq!(count(|request| matches!(request, BucketRequest::Create(_))), DEATHS + 7);
    assert_eq!(count(|request| matches!(request, BucketRequest::Read(_))), 7 * environments.len());
    assert_eq!(requests.len(), DEATHS + 7 + 70);
}

#[test]
fn two_copies_of_a_verdict_in_a_batch_are_told_as_one_death() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let copy = ReceivedMessage { sqs_message_id: "copy".to_owned(), ..died(1) };
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died(1), copy, died(2)]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 2)]);
}

#[test]
fn a_cause_that_lasts_is_told_once_a_day_with_the_deaths_since_then() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let environments = [0, 1].map(|_| setup.of_bucket(&topic, &bucket));
    setup.tell(&environments[0], vec![died_now(&setup, 1)]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)]);
    for n in 2..=4 {
        setup.sleep(DAY / 4);
        setup.tell(&environments[n % 2], vec![died_now(&setup, n)]);
    }
    assert_eq!(topic.told(), []);
    setup.sleep(DAY / 4);
    for (n, annotator) in (5..).zip(&environments) {
        setup.tell(annotator, vec![died_now(&setup, n)]);
    }
    let [notice] = topic.take().try_into().unwrap();
    assert_eq!((notice.kind, notice.count.number), (NoticeKind::Continues, 4), "the one of now included");
    assert_eq!(notice.first_at, start());
    assert_eq!(notice.last_at, setup.world.clock.now());
}

#[test]
fn a_cause_that_lasts_without_a_new_death_at_that_hour_is_told_by_the_hourly_review() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let annotator = setup.of_bucket(&topic, &bucket);
    setup.tell(&annotator, vec![died_now(&setup, 1)]);
    setup.sleep(DAY / 2);
    setup.tell(&annotator, vec![died_now(&setup, 2)]);
    topic.take();
    setup.sleep(DAY / 2 - 1);
    setup.review(&annotator, "early");
    assert_eq!(topic.told(), []);
    setup.sleep(1);
    setup.review(&annotator, "due");
    setup.review(&setup.of_bucket(&topic, &bucket), "again");
    assert_eq!(topic.told(), [(NoticeKind::Continues, 1)]);
}

#[test]
fn a_cause_without_a_death_for_a_day_is_quiet_once_and_appears_again() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let annotator = setup.of_bucket(&topic, &bucket);
    setup.tell(&annotator, vec![died_now(&setup, 1)]);
    topic.take();
    setup.sleep(DAY);
    setup.review(&annotator, "a day");
    let [notice] = topic.take().try_into().unwrap();
    assert_eq!((notice.kind, notice.last_at), (NoticeKind::Quiet, start()));
    setup.sleep(3600);
    setup.review(&annotator, "an hour later");
    assert_eq!(topic.told(), []);
    setup.tell(&annotator, vec![died_now(&setup, 2)]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)]);
}

#[test]
fn without_an_archive_each_environment_tells_of_a_cause_once_an_hour() {
    let (setup, topic) = (Setup::new(), Topic::default());
    let environments = [0, 1].map(|_| setup.environment::<NoStore>(&topic, None));
    for annotator in &environments {
        setup.tell(annotator, vec![died_now(&setup, 1)]);
        setup.tell(annotator, vec![died_now(&setup, 2)]);
    }
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1); 2]);
    setup.sleep(3599);
    setup.tell(&environments[0], vec![died_now(&setup, 3)]);
    assert_eq!(topic.told(), []);
    setup.sleep(1);
    setup.tell(&environments[0], vec![died_now(&setup, 4)]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)]);
}

#[test]
fn a_refused_notice_is_dropped_and_counted_and_its_record_is_done() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    let topic = Topic { fails: Some(Fails::Refuses), ..Topic::default() };
    let annotator = setup.of_bucket(&topic, &bucket);
    setup.tell(&annotator, vec![died(1)]);
    setup.tell(&annotator, vec![died(2)]);
    assert_eq!(setup.refused(), ["AuthorizationError"], "no storm of tries");
    assert_eq!(setup.final_dlq.sent().len(), 2);
    let works = Topic::default();
    setup.tell(&setup.of_bucket(&works, &bucket), vec![died(3)]);
    setup.tell(&setup.of_bucket(&works, &bucket), vec![died(4)]);
    assert_eq!(works.told(), [(NoticeKind::Appeared, 1)], "nobody knew of it");
}

#[test]
fn a_refused_notice_is_tried_again_with_the_first_death_an_hour_later() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    let topic = Topic { fails: Some(Fails::Refuses), ..Topic::default() };
    let annotator = setup.of_bucket(&topic, &bucket);
    for (n, seconds, refused) in [(1, 0, 1), (2, 3599, 1), (3, 1, 2)] {
        setup.sleep(seconds);
        setup.tell(&annotator, vec![died_now(&setup, n)]);
        assert_eq!(setup.refused().len(), refused, "after {seconds} s more");
    }
}

#[test]
fn a_notice_that_was_perhaps_sent_is_not_sent_again() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let silent = Topic { fails: Some(Fails::AnswersNothing), ..Topic::default() };
    setup.tell(&setup.of_bucket(&silent, &bucket), vec![died(1)]);
    assert_eq!(setup.refused(), ["Timeout"]);
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died(2)]);
    assert_eq!(topic.told(), []);
}

#[test]
fn a_cause_that_lasts_does_not_appear_again_since_a_notice_of_it_was_refused() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died_now(&setup, 1)]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)]);
    setup.sleep(DAY);
    let refuses = Topic { fails: Some(Fails::Refuses), ..Topic::default() };
    setup.tell(&setup.of_bucket(&refuses, &bucket), vec![died_now(&setup, 2)]);
    assert_eq!(setup.refused(), ["AuthorizationError"]);
    setup.sleep(1);
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died_now(&setup, 3)]);
    assert_eq!(topic.told(), []);
    setup.sleep(DAY - 1);
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died_now(&setup, 4)]);
    assert_eq!(topic.told(), [(NoticeKind::Continues, 2)]);
}

#[test]
fn a_refused_notice_takes_back_only_its_own_claim() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    let about = About { deployment: "final-dlq".to_owned(), source: "s3://bucket/".to_owned() };
    let annotator = FinalDlqAnnotator {
        final_dlq: setup.final_dlq.clone(),
        archive: Some(archive(bucket.clone())),
        notices: Some(Notices::new(Overtaken(bucket.clone()), about)),
        clock: setup.world.clock.clone(),
        observer: setup.world.seen.clone(),
    };
    assert_eq!(setup.world.invoke(&annotator, vec![died(1)], Duration::from_secs(30)), [""; 0]);
    assert_eq!(setup.refused(), ["AuthorizationError"]);
    let state = bucket.objects().into_iter().find(|(key, _)| key.starts_with("causes/")).unwrap().1;
    let state: Value = serde_json::from_slice(&state).unwrap();
    assert_eq!((&state["claim"], &state["is_quiet"]), (&json!("another"), &json!(false)));
}

/// A topic that refuses, after another environment has changed the cause's state.
struct Overtaken(MemoryBucket);

impl Notifier for Overtaken {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        let key = format!("causes/deployment=final-dlq/{}.json", notice.fingerprint);
        let there = self.0.read(&key).await?.unwrap();
        let mut state: Value = serde_json::from_slice(&there.content).unwrap();
        state["claim"] = json!("another");
        assert_eq!(self.0.replace(&key, &there.version, state.to_string().into_bytes()).await, Ok(true));
        Err(EntryError::new(Fault::Sender, "AuthorizationError"))
    }
}

#[test]
fn a_topic_that_does_not_answer_takes_five_seconds_and_no_record() {
    let (setup, bucket) = (Setup::new(), MemoryBucket::default());
    let topic = Topic { fails: Some(Fails::Hangs), ..Topic::default() };
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died(1)]);
    assert_eq!((setup.world.elapsed(), setup.refused()), (5, vec!["Timeout".to_owned()]));
}

#[test]
fn a_bucket_that_refuses_the_state_of_a_cause_tells_nobody_and_holds_up_nothing() {
    let refuses = |request: &BucketRequest| match request {
        BucketRequest::Read(_) => Some(Injection::Sender),
        _ => None,
    };
    let (setup, topic) = (Setup::new(), Topic::default());
    setup.tell(&setup.of_bucket(&topic, &MemoryBucket::with_faults(refuses)), vec![died(1)]);
    assert_eq!((topic.told(), setup.refused().len()), (vec![], 1));
}

#[test]
fn a_claim_whose_answer_is_lost_is_told_all_the_same_and_once() {
    let mut is_first = true;
    let loses = move |request: &BucketRequest| match request {
        BucketRequest::Create(key) if key.starts_with("causes/") => {
            std::mem::take(&mut is_first).then_some(Injection::LostAnswer)
        }
        _ => None,
    };
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::with_faults(loses));
    for n in 1..=2 {
        setup.tell(&setup.of_bucket(&topic, &bucket), vec![died(n)]);
    }
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)]);
    assert_eq!(setup.refused(), [""; 0]);
}

/// A bucket that has not seen the other environment's write yet when it is asked first.
struct Stale(MemoryBucket, Mutex<bool>);

impl ObjectStore for Stale {
    async fn create(&self, key: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.0.create(key, content).await
    }

    async fn replace(&self, key: &str, version: &str, content: Vec<u8>) -> Result<bool, EntryError> {
        self.0.replace(key, version, content).await
    }

    async fn read(&self, key: &str) -> Result<Option<StoredObject>, EntryError> {
        let is_first = std::mem::take(&mut *self.1.lock().unwrap());
        if is_first { Ok(None) } else { self.0.read(key).await }
    }

    async fn list(&self, listing: Listing<'_>) -> Result<Page, EntryError> {
        self.0.list(listing).await
    }
}

#[test]
fn of_two_environments_at_the_same_moment_one_tells() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![died(1)]);
    let archive = archive(bucket.clone());
    let stale =
        Archive { store: Stale(bucket, Mutex::new(true)), layout: archive.layout, omit: archive.omit };
    let other = ReceivedMessage { receipt_handle: "another".to_owned(), ..died(2) };
    setup.tell(&setup.environment(&topic, Some(stale)), vec![other]);
    assert_eq!(topic.told(), [(NoticeKind::Appeared, 1)]);
}

#[test]
fn a_record_that_is_not_sent_is_not_told() {
    let (setup, topic) = (Setup::new(), Topic::default());
    let bucket = MemoryBucket::with_faults(|_| Some(Injection::Sender));
    let annotator = setup.of_bucket(&topic, &bucket);
    assert_eq!(setup.world.invoke(&annotator, vec![died(1)], Duration::from_secs(30)), ["sqs-1"]);
    assert_eq!((topic.told(), setup.refused()), (vec![], vec![]));
}

#[test]
fn a_notice_has_no_text_of_a_target() {
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let more = json!({ "type": "CANARY", "details": "CANARY", "explanation": "CANARY" });
    let mut record = given_up(1, spent(1), &failure("NON_RETRYABLE_ERROR", more));
    record.attributes.insert("tenant".to_owned(), Attribute::string("CANARY"));
    setup.tell(&setup.of_bucket(&topic, &bucket), vec![record]);
    let [notice] = topic.take().try_into().unwrap();
    for text in [notice.subject(), notice.text(), notice.document()] {
        assert!(!text.contains("CANARY"), "{text}");
        assert!(text.contains("NON_RETRYABLE_ERROR"), "{text}");
    }
    let states: Vec<_> = bucket.objects().into_iter().filter(|(key, _)| key.starts_with("causes/")).collect();
    assert_eq!(states.len(), 1);
    assert!(!String::from_utf8_lossy(&states[0].1).contains("CANARY"));
}

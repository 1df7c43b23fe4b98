//! Notices: one per environment, cause and hour, without delaying the sends.

use std::future::pending;
use std::sync::{Arc, Mutex};

use redeliver_core::notices::{DeploymentInfo, Notice};
use redeliver_core::ports::{EntryError, Fault};
use redeliver_embedded::{BucketRequest, Injection, MemoryBucket, VirtualClock};

use super::archive::{archive, dead_message};
use super::*;

const HOUR: u64 = 3600;

/// A topic that records notices.
#[derive(Clone, Default)]
struct Topic {
    published: Arc<Mutex<Vec<Notice>>>,
    fails: Arc<Mutex<Option<TopicFailure>>>,
    /// The clock, and the time that each request takes.
    takes: Option<(VirtualClock, Duration)>,
}

#[derive(Clone, Copy)]
enum TopicFailure {
    Refuses,
    Hangs,
}

impl Notifier for Topic {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        let fails = *self.fails.lock().unwrap();
        if let Some((clock, time)) = &self.takes {
            clock.sleep(*time).await;
        }
        match fails {
            None => {
                self.published.lock().unwrap().push(notice.clone());
                Ok(())
            }
            Some(TopicFailure::Refuses) => Err(EntryError::new(Fault::Sender, "AuthorizationError")),
            Some(TopicFailure::Hangs) => pending().await,
        }
    }
}

impl Topic {
    fn with_failure(fails: TopicFailure) -> Self {
        Self { fails: Arc::new(Mutex::new(Some(fails))), ..Self::default() }
    }

    fn recover(&self) {
        *self.fails.lock().unwrap() = None;
    }

    fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.published.lock().unwrap())
    }

    /// Returns the count in each notice published since the last call.
    fn take_counts(&self) -> Vec<u64> {
        self.take().into_iter().map(|notice| notice.count).collect()
    }
}

type Annotator<S> = FinalDlqAnnotator<SpyQueue, VirtualClock, EventRecorder, S, Topic>;

impl Setup {
    /// Creates an environment, which counts its notices separately.
    fn environment<S>(&self, topic: &Topic, archive: Option<Archive<S>>) -> Annotator<S> {
        let about = DeploymentInfo { deployment: "final-dlq".to_owned(), source: "s3://bucket/".to_owned() };
        FinalDlqAnnotator {
            final_dlq: self.final_dlq.clone(),
            archive,
            notices: Some(Notices::new(topic.clone(), about)),
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
        }
    }

    fn annotator_without_archive(&self, topic: &Topic) -> Annotator<NoStore> {
        self.environment(topic, None)
    }

    fn receive<S: ObjectStore>(&self, annotator: &Annotator<S>, records: Vec<ReceivedMessage>) {
        assert_eq!(self.world.invoke_function(annotator, records, Duration::from_secs(30)), [""; 0]);
    }

    fn refusal_codes(&self) -> Vec<String> {
        let refused = self.world.seen.events().into_iter().filter_map(|event| match event {
            Event::NoticeRefused { code, .. } => Some(code),
            _ => None,
        });
        refused.collect()
    }
}

/// Returns the n-th record, which has just failed.
fn newly_dead_message(setup: &Setup, n: usize) -> ReceivedMessage {
    let failed_at = format_rfc3339(setup.world.clock.now());
    let more = json!({ "source_message_id": format!("source-{n}"), "failed_at": failed_at });
    given_up_message(n, spent_body(n), &failure("RETRY_ATTEMPT_EXCEEDED", more))
}

/// Returns the n-th record, with a different cause from [`dead_message`].
fn expired_message(n: usize) -> ReceivedMessage {
    let more = json!({ "source_message_id": format!("source-{n}") });
    given_up_message(n, spent_body(n), &failure("MESSAGE_EXPIRED", more))
}

#[test]
fn each_cause_in_a_batch_gets_one_notice_that_counts_its_deaths() {
    let (setup, topic) = (Setup::new(), Topic::default());
    setup.receive(
        &setup.annotator_without_archive(&topic),
        vec![dead_message(1), expired_message(2), dead_message(3)],
    );
    let mut notices = topic.take();
    notices.sort_by_key(|notice| notice.count);
    let [expired, spent] = notices.try_into().unwrap();
    assert_eq!((&*expired.error_type, expired.count), ("MESSAGE_EXPIRED", 1));
    assert_eq!((&*spent.error_type, spent.count), ("RETRY_ATTEMPT_EXCEEDED", 2));
    assert_eq!(spent.last_error.as_deref(), Some("HttpStatus.503"));
    assert_eq!(
        (format_rfc3339(spent.first_at), format_rfc3339(spent.last_at)),
        (format_time_at(-2), format_time_at(-2))
    );
}

#[test]
fn two_copies_of_a_verdict_in_a_batch_count_as_one_death() {
    let (setup, topic) = (Setup::new(), Topic::default());
    let copy = ReceivedMessage { sqs_message_id: "copy".to_owned(), ..dead_message(1) };
    setup.receive(&setup.annotator_without_archive(&topic), vec![dead_message(1), copy, dead_message(2)]);
    assert_eq!(topic.take_counts(), [2]);
}

#[test]
fn a_lasting_cause_sends_one_notice_per_hour_with_all_deaths() {
    let (setup, topic) = (Setup::new(), Topic::default());
    let annotator = setup.annotator_without_archive(&topic);
    setup.receive(&annotator, vec![newly_dead_message(&setup, 1)]);
    assert_eq!(topic.take_counts(), [1]);
    let second = setup.world.clock.now();
    setup.receive(&annotator, vec![newly_dead_message(&setup, 2)]);
    setup.sleep(HOUR - 1);
    setup.receive(&annotator, vec![newly_dead_message(&setup, 3)]);
    assert_eq!(topic.take_counts(), [0; 0]);
    setup.sleep(1);
    setup.receive(&annotator, vec![expired_message(4)]);
    let [notice] = topic.take().try_into().unwrap();
    assert_eq!(
        notice.error_type, "MESSAGE_EXPIRED",
        "a death with another cause sends no notice of this cause"
    );
    setup.receive(&annotator, vec![newly_dead_message(&setup, 5)]);
    let [notice] = topic.take().try_into().unwrap();
    let now = setup.world.clock.now();
    assert_eq!((notice.count, notice.first_at, notice.last_at), (3, second, now));
}

#[test]
fn each_environment_sends_its_own_notice_with_the_same_fingerprint() {
    let (setup, topic) = (Setup::new(), Topic::default());
    for n in 1..=2 {
        setup.receive(&setup.annotator_without_archive(&topic), vec![dead_message(n)]);
    }
    let [one, other] = topic.take().try_into().unwrap();
    assert_eq!(one, other);
}

/// docs/deploy/cost.md prices these requests.
#[test]
fn a_flood_of_seven_causes_sends_seven_notices_per_environment() {
    const DEATHS: usize = 2_000;
    let (setup, topic, bucket) = (Setup::new(), Topic::default(), MemoryBucket::default());
    let environments = [(); 10].map(|()| setup.environment(&topic, Some(archive(bucket.clone()))));
    for (batch, annotator) in (0..DEATHS / 10).zip(environments.iter().cycle()) {
        let records = (0..10).map(|place| {
            let n = batch * 10 + place;
            let more = json!({ "type": format!("HttpStatus.50{}", n % 7), "source_message_id": format!("source-{n}") });
            given_up_message(n, spent_body(n), &failure("RETRY_ATTEMPT_EXCEEDED", more))
        });
        setup.receive(annotator, records.collect());
    }
    assert_eq!(topic.take().len(), 70);
    let requests = bucket.requests();
    assert!(requests.iter().all(|request| matches!(request, BucketRequest::Create(_))));
    assert_eq!((requests.len(), bucket.objects().len()), (DEATHS, DEATHS));
}

#[test]
fn a_refused_notice_is_retried_after_a_minute_with_all_deaths_since() {
    let (setup, topic) = (Setup::new(), Topic::with_failure(TopicFailure::Refuses));
    let annotator = setup.annotator_without_archive(&topic);
    for (seconds, refused) in [(0, 1), (1, 1), (58, 1), (1, 2)] {
        setup.sleep(seconds);
        setup.receive(&annotator, vec![newly_dead_message(&setup, 1)]);
        assert_eq!(setup.refusal_codes(), vec!["AuthorizationError"; refused], "after {seconds} s more");
    }
    topic.recover();
    setup.sleep(60);
    setup.receive(&annotator, vec![newly_dead_message(&setup, 2)]);
    assert_eq!(topic.take_counts(), [5]);
    setup.receive(&annotator, vec![newly_dead_message(&setup, 3)]);
    assert_eq!(topic.take_counts(), [0; 0], "the hour starts with the notice that was sent");
    assert_eq!(setup.final_dlq.sent_contents().len(), 6);
}

#[test]
fn all_notices_that_wait_after_a_refusal_are_sent_with_the_next_batch() {
    let (setup, topic) = (Setup::new(), Topic::with_failure(TopicFailure::Refuses));
    let annotator = setup.annotator_without_archive(&topic);
    setup.receive(&annotator, vec![dead_message(1), expired_message(2)]);
    assert_eq!(setup.refusal_codes(), ["AuthorizationError"], "one attempt");
    topic.recover();
    setup.sleep(60);
    let invalid = failure("INVALID_DATA", json!({ "source_message_id": "source-3" }));
    setup.receive(&annotator, vec![given_up_message(3, spent_body(3), &invalid)]);
    assert_eq!(topic.take_counts(), [1, 1, 1]);
}

#[test]
fn a_hanging_topic_costs_five_seconds_per_minute_and_loses_no_record() {
    let (setup, topic) = (Setup::new(), Topic::with_failure(TopicFailure::Hangs));
    let annotator = setup.annotator_without_archive(&topic);
    for (n, sleep, elapsed) in [(1, 0, 5), (2, 59, 64), (3, 1, 70)] {
        setup.sleep(sleep);
        setup.receive(&annotator, vec![dead_message(n)]);
        assert_eq!(setup.world.elapsed_seconds(), elapsed);
    }
    assert_eq!(setup.refusal_codes(), ["Timeout"; 2]);
    assert_eq!(setup.final_dlq.sent_contents().len(), 3);
}

/// If no time were left, Lambda would cut off the invocation, and its confirmed records would be received again as
/// copies.
#[test]
fn a_hanging_topic_leaves_time_for_the_response() {
    let (setup, topic) = (Setup::new(), Topic::with_failure(TopicFailure::Hangs));
    let (began, seconds) = (setup.world.clock.now(), Duration::from_secs(3));
    assert_eq!(
        setup.world.invoke_function(&setup.annotator_without_archive(&topic), vec![dead_message(1)], seconds),
        [""; 0]
    );
    assert_eq!(setup.world.clock.now() - began, chrono::TimeDelta::milliseconds(2500));
}

#[test]
fn notices_that_run_out_of_time_are_sent_by_the_next_batch_without_an_alarm() {
    let setup = Setup::new();
    let takes = Some((setup.world.clock.clone(), Duration::from_millis(900)));
    let topic = Topic { takes, ..Topic::default() };
    let annotator = setup.annotator_without_archive(&topic);
    let with_cause = |n: usize| {
        let more = json!({ "type": format!("HttpStatus.50{n}"), "source_message_id": format!("source-{n}") });
        given_up_message(n, spent_body(n), &failure("RETRY_ATTEMPT_EXCEEDED", more))
    };
    setup.receive(&annotator, (0..8).map(with_cause).collect());
    assert_eq!(
        topic.take_counts(),
        [1; 5],
        "no notice starts in the last of the five seconds, where it would be cut off"
    );
    assert_eq!(setup.refusal_codes(), [""; 0]);
    setup.receive(&annotator, vec![with_cause(8)]);
    assert_eq!(topic.take_counts(), [1; 4]);
    assert_eq!(setup.refusal_codes(), [""; 0]);
}

#[test]
fn a_record_that_is_not_sent_has_no_notice() {
    let (setup, topic) = (Setup::new(), Topic::default());
    let bucket = MemoryBucket::with_faults(|_| Some(Injection::Sender));
    let annotator = setup.environment(&topic, Some(archive(bucket)));
    assert_eq!(
        setup.world.invoke_function(&annotator, vec![dead_message(1)], Duration::from_secs(30)),
        ["sqs-1"]
    );
    assert_eq!((topic.take(), setup.refusal_codes()), (vec![], vec![]));
}

#[test]
fn a_notice_has_no_text_from_a_target() {
    let (setup, topic) = (Setup::new(), Topic::default());
    let more = json!({ "type": "CANARY", "details": "CANARY", "explanation": "CANARY" });
    let mut record = given_up_message(1, spent_body(1), &failure("NON_RETRYABLE_ERROR", more));
    record.attributes.insert("tenant".to_owned(), Attribute::string("CANARY"));
    setup.receive(&setup.annotator_without_archive(&topic), vec![record]);
    let [notice] = topic.take().try_into().unwrap();
    for text in [notice.subject(), notice.text(), notice.to_json()] {
        assert!(!text.contains("CANARY"), "{text}");
        assert!(text.contains("NON_RETRYABLE_ERROR"), "{text}");
    }
}

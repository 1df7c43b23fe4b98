use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::io::Read as _;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use flate2::read::GzDecoder;
use redeliver_core::archive::{Layout, Omit, Prefix};
use redeliver_core::failure::annotation::DEAD_LETTER;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::metadata::parse_rfc3339;
use redeliver_core::message::packing::pack;
use redeliver_core::message::{Attribute, AttributeValue, Content, OutgoingMessage, ReceivedMessage};
use redeliver_core::notices::{About, Notice, NoticeKind};
use redeliver_core::ports::{
    EntryError, Fault, QueueDepth as _, QueueSender as _, QueueService as _, QueueSettings, Receive, Redrive,
};
use redeliver_embedded::{
    Action, BucketRequest, EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, Injection, MemoryBucket, Scope,
    VirtualClock, When,
};
use redeliver_testing::dead_letters::{foreign, record};
use redeliver_testing::foreign::{FIXTURES, message};

use super::*;

const DLQ: &str = "orders-dlq";

/// A topic that records notices, and refuses the first ones.
#[derive(Clone, Default)]
struct Topic(Arc<Mutex<TopicState>>);

#[derive(Default)]
struct TopicState {
    refusals: usize,
    published: Vec<Notice>,
}

impl Notifier for Topic {
    async fn publish(&self, notice: &Notice) -> Result<(), EntryError> {
        let mut state = self.0.lock().unwrap();
        if state.refusals > 0 {
            state.refusals -= 1;
            return Err(EntryError::new(Fault::Sender, "AuthorizationError"));
        }
        state.published.push(notice.clone());
        Ok(())
    }
}

impl Topic {
    fn refusing(times: usize) -> Self {
        Self(Arc::new(Mutex::new(TopicState { refusals: times, published: Vec::new() })))
    }

    fn take(&self) -> Vec<(NoticeKind, String, u64)> {
        let notices = std::mem::take(&mut self.0.lock().unwrap().published);
        notices.into_iter().map(|notice| (notice.kind, notice.error_type, notice.count.number)).collect()
    }
}

fn appeared(error_type: &str, count: u64) -> (NoticeKind, String, u64) {
    (NoticeKind::Appeared, error_type.to_owned(), count)
}

struct World {
    clock: VirtualClock,
    sqs: EmbeddedSqs,
    dlq: EmbeddedQueue,
    bucket: MemoryBucket,
    topic: Topic,
    omit: Omit,
}

type Watched = Watch<EmbeddedQueue, MemoryBucket, Topic, VirtualClock>;

impl World {
    fn new() -> Self {
        let clock = VirtualClock::new(parse_rfc3339("2026-11-27T10:00:00Z").unwrap());
        let sqs = EmbeddedSqs::new(clock.clone(), 7);
        let settings = QueueSettings { retention: Duration::from_secs(14 * 86_400), ..<_>::default() };
        let dlq = clock.block_on(sqs.create_queue(DLQ, &settings)).unwrap();
        let (bucket, topic, omit) = (MemoryBucket::default(), Topic::default(), Omit::default());
        Self { clock, sqs, dlq, bucket, topic, omit }
    }

    fn send(&self, messages: impl IntoIterator<Item = ReceivedMessage>) {
        let content =
            |ReceivedMessage { body, attributes, .. }| Content { body, attributes, ..<_>::default() };
        let messages: Vec<_> =
            messages.into_iter().map(|message| OutgoingMessage::new(content(message)).unwrap()).collect();
        for batch in pack(&messages) {
            assert!(self.clock.block_on(self.dlq.send_batch(batch)).iter().all(Result::is_ok));
        }
    }

    fn notices(&self) -> Notices<Topic> {
        let about = About { deployment: DLQ.to_owned(), source: "s3://kept".to_owned() };
        Notices::new(self.topic.clone(), about)
    }

    /// A new process.
    fn watch(&self, process: &str) -> Watched {
        let layout = Layout { prefix: Prefix::default(), deployment: DLQ.to_owned() };
        let archive = Archive { store: self.bucket.clone(), layout, omit: self.omit.clone() };
        let notices = Some(self.notices());
        Watch::new(self.dlq.clone(), self.clock.clone(), Some(archive), notices, process.to_owned())
    }

    fn without_archive(&self) -> Watched {
        let notices = Some(self.notices());
        Watch::new(self.dlq.clone(), self.clock.clone(), None, notices, "process".to_owned())
    }

    /// A turn. Whatever it does, all messages are in the queue and visible at its end.
    fn turn(&self, watch: &mut Watched) -> Turn {
        let before = self.clock.block_on(self.dlq.depth()).unwrap();
        let turn = self.clock.block_on(watch.turn(pending()));
        assert_eq!(self.clock.block_on(self.dlq.depth()).unwrap(), before);
        assert_eq!((before.in_flight, before.delayed), (0, 0));
        turn
    }

    fn sleep(&self, seconds: u64) {
        self.clock.block_on(self.clock.sleep(Duration::from_secs(seconds)));
    }

    /// The archived lines, by key.
    fn archived(&self) -> BTreeMap<String, ArchivedMessage> {
        let objects = self.bucket.objects().into_iter().filter(|(key, _)| key.starts_with("dead-letters/"));
        let line = |object: Vec<u8>| {
            let mut text = String::new();
            GzDecoder::new(&*object).read_to_string(&mut text).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        objects.map(|(key, object)| (key, line(object))).collect()
    }
}

fn read(turn: &Turn) -> Option<(u64, u64)> {
    turn.coverage.map(|coverage| (coverage.seen, turn.new))
}

#[test]
fn a_cause_is_archived_and_told_once_over_turns_and_processes() {
    let world = World::new();
    world.send([1, 2].map(|n| record("NON_RETRYABLE_ERROR", "x", n)));
    let mut watch = world.watch("one");
    assert_eq!(read(&world.turn(&mut watch)), Some((2, 2)));
    assert_eq!(world.topic.0.lock().unwrap().published[0].last_error.as_deref(), Some("HttpStatus.503"));
    assert_eq!(world.topic.take(), [appeared("NON_RETRYABLE_ERROR", 2)]);
    let writes = |world: &World| {
        let is_write = |request: &&BucketRequest| matches!(request, BucketRequest::Create(_));
        world.bucket.requests().iter().filter(is_write).count()
    };
    let before = writes(&world);
    assert_eq!(read(&world.turn(&mut world.watch("two"))), Some((2, 0)));
    assert_eq!(writes(&world), before, "a new process lists the days, and writes nothing");
    world.send([record("NON_RETRYABLE_ERROR", "x", 3)]);
    assert_eq!(read(&world.turn(&mut watch)), Some((3, 1)));
    assert_eq!(writes(&world), before + 1);
    let lists_day = |request: &&BucketRequest| format!("{request:?}").contains("List(\"dead-letters/");
    let listings = world.bucket.requests().iter().filter(lists_day).count();
    assert_eq!(listings, 2, "each process lists the day once");
    assert_eq!(world.topic.take(), []);
    assert_eq!(world.archived().len(), 3);
}

#[test]
fn two_processes_at_the_same_time_tell_once() {
    let world = World::new();
    world.send([record("NON_RETRYABLE_ERROR", "x", 1)]);
    let (mut one, mut two) = (world.watch("one"), world.watch("two"));
    for _ in 0..3 {
        let both = futures_util::future::join(one.turn(pending()), two.turn(pending()));
        world.clock.block_on(both);
        world.sleep(3600);
    }
    assert_eq!(world.topic.take(), [appeared("NON_RETRYABLE_ERROR", 1)]);
    assert_eq!(world.archived().len(), 1);
}

#[test]
fn an_unchanged_queue_costs_one_request_a_turn_and_is_read_once_a_day() {
    let world = World::new();
    world.send([foreign("x", 1)]);
    let mut watch = world.watch("one");
    world.turn(&mut watch);
    let looks = || world.bucket.requests().into_iter().filter(is_look).count();
    assert_eq!(looks(), 1);
    let before = world.sqs.requests();
    for _ in 0..287 {
        world.sleep(300);
        // The world asks for the counts twice for each turn, too.
        assert_eq!(read(&world.turn(&mut watch)), None);
    }
    let mut expected = before;
    *expected.get_mut("GetQueueAttributes").unwrap() += 3 * 287;
    assert_eq!(world.sqs.requests(), expected);
    assert_eq!(looks(), 1 + 23, "an hour apart");
    world.sleep(300);
    assert_eq!(read(&world.turn(&mut watch)), Some((1, 0)));
}

fn is_look(request: &BucketRequest) -> bool {
    *request == BucketRequest::List("causes/deployment=orders-dlq/".to_owned())
}

#[test]
fn one_that_came_while_another_one_left_is_found_within_a_day() {
    let world = World::new();
    world.send([foreign("x", 1)]);
    let mut watch = world.watch("one");
    world.turn(&mut watch);
    let left = world.clock.block_on(async {
        let request = Receive { max_messages: 1, wait: Duration::ZERO, visibility: None };
        let received = world.dlq.receive(request).await.unwrap();
        world.dlq.delete_batch(&[received[0].receipt_handle.clone()]).await
    });
    assert_eq!(left, [Ok(())]);
    world.send([foreign("y", 2)]);
    world.sleep(300);
    assert_eq!(read(&world.turn(&mut watch)), None);
    world.sleep(86_100);
    assert_eq!(read(&world.turn(&mut watch)), Some((1, 1)));
    assert_eq!(world.archived().len(), 2);
}

#[test]
fn one_that_came_while_two_left_is_found_at_the_next_turn() {
    let world = World::new();
    world.send([1, 2].map(|n| foreign("x", n)));
    let mut watch = world.watch("one");
    world.turn(&mut watch);
    let left = world.clock.block_on(async {
        let request = Receive { max_messages: 2, wait: Duration::ZERO, visibility: None };
        let received = world.dlq.receive(request).await.unwrap();
        let handles: Vec<_> = received.into_iter().map(|message| message.receipt_handle).collect();
        world.dlq.delete_batch(&handles).await
    });
    assert_eq!(left, [Ok(()), Ok(())]);
    world.send([foreign("y", 3)]);
    assert_eq!(read(&world.turn(&mut watch)), Some((1, 1)));
}

/// Somebody else has a message in hand, and SQS counts it all the time.
#[test]
fn one_that_is_hidden_while_the_queue_is_read_is_found_an_hour_later_and_told_once() {
    for has_archive in [true, false] {
        let world = World::new();
        world.send([foreign("x", 1)]);
        let mut watch = if has_archive { world.watch("one") } else { world.without_archive() };
        let turn = |watch: &mut Watched| read(&world.clock.block_on(watch.turn(pending())));
        let hide = || {
            let visibility = VisibilitySeconds::new(300);
            let request = Receive { max_messages: 1, wait: Duration::ZERO, visibility };
            assert_eq!(world.clock.block_on(world.dlq.receive(request)).unwrap().len(), 1);
        };
        hide();
        assert_eq!(turn(&mut watch), Some((0, 0)));
        world.sleep(3599);
        assert_eq!(turn(&mut watch), None);
        world.sleep(1);
        assert_eq!(turn(&mut watch), Some((1, 1)));
        assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 1)]);
        // It is known, also after a reading that did not see it.
        world.sleep(86_100);
        hide();
        world.sleep(300 - 1);
        assert_eq!(turn(&mut watch), None, "it is still counted");
        world.sleep(1);
        hide();
        assert_eq!(turn(&mut watch), Some((0, 0)));
        world.sleep(3600);
        assert_eq!(turn(&mut watch), Some((1, 0)));
        let kinds: Vec<_> = world.topic.take().into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(kinds, if has_archive { vec![NoticeKind::Quiet] } else { vec![] });
    }
}

#[test]
fn without_an_archive_a_reading_that_fails_or_is_stopped_forgets_nothing() {
    for fails in [true, false] {
        let world = World::new();
        world.send((1..=200).map(|n| foreign("x", n)));
        let mut watch = world.without_archive();
        assert_eq!(read(&world.turn(&mut watch)), Some((200, 200)));
        assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 200)]);
        world.sleep(86_400);
        if fails {
            world.sqs.set_faults(FaultPlan::new(1).with(FaultRule {
                action: Action::ReceiveMessage,
                queue: None,
                scope: Scope::Request,
                when: When::Numbers(vec![1]),
                injection: Injection::Sender,
            }));
            assert!(world.turn(&mut watch).failure.is_some());
        } else {
            assert!(world.clock.block_on(watch.turn(ready(()))).is_interrupted);
        }
        assert_eq!(read(&world.turn(&mut watch)), Some((200, 0)));
        assert_eq!(world.topic.take(), []);
    }
}

#[test]
fn a_turn_that_is_stopped_while_it_reads_gives_all_messages_back() {
    let world = World::new();
    world.send((1..=200).map(|n| foreign("x", n)));
    let mut watch = world.watch("one");
    let received = || world.sqs.requests().get("ReceiveMessage").copied().unwrap_or(0);
    let stop = std::future::poll_fn(|_| if received() < 5 { Poll::Pending } else { Poll::Ready(()) });
    let stopped = world.clock.block_on(watch.turn(stop));
    assert!(stopped.is_interrupted && stopped.coverage.unwrap().seen > 0, "{stopped:?}");
    assert_eq!(world.clock.block_on(world.dlq.depth()).unwrap().visible, 200);
    assert_eq!(world.turn(&mut watch).coverage.unwrap().seen, 200);
    assert_eq!(world.archived().len(), 200);
}

#[test]
fn what_the_archive_refuses_is_not_told_and_is_written_at_the_next_turn() {
    let mut refusals = 1;
    let refuses = move |request: &BucketRequest| match request {
        BucketRequest::Create(key) if key.starts_with("dead-letters/") && refusals > 0 => {
            refusals -= 1;
            Some(Injection::Sender)
        }
        _ => None,
    };
    let world = World { bucket: MemoryBucket::with_faults(refuses), ..World::new() };
    world.send([foreign("x", 1)]);
    let mut watch = world.watch("one");
    let turn = world.turn(&mut watch);
    let failure = turn.failure.unwrap().to_string();
    assert!(failure.starts_with("dead-letters/deployment=orders-dlq/"), "{failure}");
    assert_eq!((turn.new, world.topic.take(), world.archived().len()), (0, vec![], 0));
    let turn = world.turn(&mut watch);
    assert!(turn.failure.is_none());
    assert_eq!((turn.new, world.topic.take()), (1, vec![appeared(UNANNOTATED, 1)]));
}

#[test]
fn a_write_whose_answer_is_lost_is_told_all_the_same_and_once() {
    let mut losses = 1;
    let loses = move |request: &BucketRequest| match request {
        BucketRequest::Create(key) if key.starts_with("dead-letters/") && losses > 0 => {
            losses -= 1;
            Some(Injection::LostAnswer)
        }
        _ => None,
    };
    let world = World { bucket: MemoryBucket::with_faults(loses), ..World::new() };
    world.send([foreign("x", 1)]);
    assert!(world.turn(&mut world.watch("one")).failure.is_none());
    world.turn(&mut world.watch("two"));
    assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 1)]);
}

#[test]
fn a_refused_notice_is_sent_an_hour_later_or_by_another_process() {
    for is_another in [false, true] {
        let world = World { topic: Topic::refusing(1), ..World::new() };
        world.send([foreign("x", 1)]);
        let mut watch = world.watch("one");
        let turn = world.turn(&mut watch);
        assert_eq!((turn.new, turn.refused.len()), (1, 1));
        assert_eq!(turn.refused[0].1, "AuthorizationError");
        world.sleep(3599);
        assert_eq!(read(&world.turn(&mut watch)), None);
        world.sleep(1);
        let mut other = world.watch("two");
        world.turn(if is_another { &mut other } else { &mut watch });
        assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 1)]);
        for _ in 0..3 {
            world.sleep(3600);
            world.turn(&mut watch);
            world.turn(&mut other);
        }
        assert_eq!(world.topic.take(), []);
    }
}

#[test]
fn a_process_that_ended_before_it_told_is_made_up_for_by_the_next_one() {
    let world = World::new();
    world.send([foreign("x", 1)]);
    let mut silent = world.watch("one");
    silent.notices = None;
    assert_eq!(read(&world.turn(&mut silent)), Some((1, 1)));
    world.turn(&mut world.watch("two"));
    assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 1)]);
}

#[test]
fn a_cause_that_is_quiet_is_told_and_its_old_dead_letters_do_not_make_it_appear_again() {
    let world = World::new();
    world.send([foreign("x", 1)]);
    let mut watch = world.watch("one");
    let kinds = |world: &World| world.topic.take().into_iter().map(|(kind, ..)| kind).collect::<Vec<_>>();
    world.turn(&mut watch);
    assert_eq!(kinds(&world), [NoticeKind::Appeared]);
    world.sleep(86_400);
    world.turn(&mut watch);
    assert_eq!(kinds(&world), [NoticeKind::Quiet]);
    for _ in 0..2 {
        world.sleep(86_400);
        world.turn(&mut watch);
        world.turn(&mut world.watch("new"));
    }
    assert_eq!(kinds(&world), []);
    world.send([foreign("y", 2)]);
    world.turn(&mut watch);
    assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 1)]);
}

#[test]
fn a_cause_that_is_quiet_appears_with_a_new_dead_letter_whoever_has_archived_it() {
    for is_silent in [false, true] {
        let world = World::new();
        world.send([foreign("x", 1)]);
        let mut watch = world.watch("one");
        world.turn(&mut watch);
        world.sleep(86_400);
        world.turn(&mut watch);
        world.topic.take();
        // It sees the old dead letter of a cause that is quiet.
        let mut other = world.watch("two");
        assert_eq!(read(&world.turn(&mut other)), Some((1, 0)));
        assert_eq!(world.topic.take(), []);
        world.sleep(3600);
        world.send([foreign("y", 2)]);
        if is_silent {
            let mut silent = world.watch("three");
            silent.notices = None;
            assert_eq!(read(&world.turn(&mut silent)), Some((2, 1)));
            other = world.watch("four");
        }
        world.turn(&mut other);
        let told: Vec<_> = world.topic.take().into_iter().map(|(kind, ..)| kind).collect();
        assert_eq!(told, [NoticeKind::Appeared]);
    }
}

/// SQS says when a message was first sent, and not when it was moved.
#[test]
fn a_message_that_was_sent_before_the_last_notice_and_moved_after_it_counts() {
    let world = World::new();
    world.send([foreign("x", 1)]);
    let mut watch = world.watch("one");
    world.turn(&mut watch);
    assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 1)]);
    world.sleep(86_400);
    let notices = world.notices();
    let kept = watch.archive.as_ref().unwrap();
    let death = Death::new(
        world.clock.now() - TimeDelta::days(2),
        &DeadLetterRecord::new(foreign("x", 1)).fingerprint,
        "moved",
    );
    let told = Told { death, error_type: UNANNOTATED.to_owned(), last_error: None };
    let recorder = Recorder::default();
    let until = Until { clock: &world.clock, observer: &recorder, end: world.clock.now() + RETRY_AFTER };
    world.clock.block_on(notices.tell(Some(&kept.archive), &[told], "now", until));
    let last_at = world.topic.0.lock().unwrap().published[0].last_at;
    assert_eq!(last_at, world.clock.now() - TimeDelta::days(2));
    assert_eq!(world.topic.take(), [(NoticeKind::Continues, UNANNOTATED.to_owned(), 1)]);
}

#[test]
fn without_an_archive_a_cause_is_told_once_and_a_refused_notice_an_hour_later() {
    for refusals in [0, 1] {
        let world = World { topic: Topic::refusing(refusals), ..World::new() };
        world.send([1, 2].map(|n| foreign("x", n)));
        let mut watch = world.without_archive();
        for _ in 0..30 {
            world.turn(&mut watch);
            world.sleep(3600);
        }
        assert_eq!(world.topic.take(), [appeared(UNANNOTATED, 2)]);
    }
}

#[test]
fn dead_letters_of_every_known_shape_are_archived_whole_and_told_by_their_writer() {
    let world = World::new();
    let sent: Vec<_> = FIXTURES.iter().map(|(name, _)| message(name)).collect();
    // SQS itself names the queue that it moves a message from.
    let settings = QueueSettings {
        redrive: Some(Redrive { target_arn: world.dlq.arn().to_owned(), max_receive_count: 1 }),
        ..QueueSettings::default()
    };
    world.clock.block_on(async {
        let source = world.sqs.create_queue("orders", &settings).await.unwrap();
        let moved = Content { body: "moved".to_owned(), ..Content::default() };
        source.send_batch(pack(&[OutgoingMessage::new(moved).unwrap()])[0]).await;
        let request = Receive { max_messages: 1, wait: Duration::ZERO, visibility: None };
        assert_eq!(source.receive(request).await.unwrap().len(), 1);
        world.clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(source.receive(request).await.unwrap().len(), 0);
    });
    world.send(sent.iter().filter(|message| message.redriven_from.is_none()).cloned());
    let turn = world.turn(&mut world.watch("one"));
    assert_eq!(read(&turn), Some((11, 11)));
    let mut told: Vec<_> = world.topic.take().into_iter().map(|(_, error_type, _)| error_type).collect();
    told.sort();
    assert_eq!(
        told,
        [
            "EVENTBRIDGE_DLQ",
            "EVENTBRIDGE_DLQ",
            "EVENTBRIDGE_SUBSCRIBER_BATCH",
            "LAMBDA_DESTINATION",
            "LAMBDA_DLQ",
            "LAMBDA_STREAM_BATCH",
            "LAMBDA_STREAM_BATCH",
            "PIPES_STREAM_BATCH",
            "SCHEDULER_DLQ",
            "SNS_DLQ",
            "SQS_REDRIVE",
        ]
    );
    let archived: Vec<_> = world.archived().into_values().map(|line| line.restored().unwrap()).collect();
    let moved = archived.iter().find(|restored| restored.body == "moved").unwrap();
    assert!(moved.redriven_from.as_ref().unwrap().ends_with(":orders"));
    for message in sent.iter().filter(|message| message.redriven_from.is_none()) {
        let is_same = |restored: &&ReceivedMessage| {
            restored.body == message.body && restored.attributes == message.attributes
        };
        assert_eq!(archived.iter().filter(is_same).count(), 1, "{}", message.body);
    }
}

#[test]
fn a_final_record_that_the_annotator_has_archived_is_not_written_again() {
    let world = World::new();
    let mut own = record("NON_RETRYABLE_ERROR", "x", 1);
    let document = own.attributes[DEAD_LETTER].text().unwrap();
    let dated = document.replacen('{', r#"{"died_at":"2026-11-26T23:00:00.000000Z","#, 1);
    let value = AttributeValue::Text(dated);
    own.attributes.insert(DEAD_LETTER.to_owned(), Attribute { data_type: "String".to_owned(), value });
    world.send([own]);
    let fingerprint = DeadLetterRecord::new(record("NON_RETRYABLE_ERROR", "x", 1)).fingerprint;
    let key = format!(
        "dead-letters/deployment=orders-dlq/date=2026-11-26/cause={fingerprint}/230000.000000Z-source-1.jsonl.gz"
    );
    world.clock.block_on(world.bucket.create(&key, b"the annotator's".to_vec())).unwrap();
    assert_eq!(read(&world.turn(&mut world.watch("one"))), Some((1, 0)));
    let objects = world.bucket.objects();
    let keys: Vec<_> = objects.keys().filter(|key| key.starts_with("dead-letters/")).collect();
    assert_eq!((keys, &*objects[&key]), (vec![&key], &b"the annotator's"[..]));
}

#[test]
fn values_to_omit_are_in_no_object_and_no_notice() {
    let world = World { omit: Omit::parse("/data/email").unwrap(), ..World::new() };
    world.send([foreign(r#"{"data":{"email":"CANARY","n":1}}"#, 1), foreign("CANARY", 2)]);
    world.turn(&mut world.watch("one"));
    let lines: Vec<_> = world.archived().into_values().map(|line| (line.body, line.omitted)).collect();
    assert!(
        lines.contains(&(r#"{"data":{"email":"omitted","n":1}}"#.to_owned(), vec!["/data/email".to_owned()]))
    );
    assert!(lines.contains(&("omitted".to_owned(), vec![String::new()])));
    let notices = world.topic.0.lock().unwrap().published.clone();
    assert!(!notices.iter().any(|notice| notice.document().contains("CANARY")));
}

#[test]
fn a_stop_and_an_error_give_all_messages_back_and_the_next_turn_reads_again() {
    let world = World::new();
    world.send((1..=200).map(|n| foreign("x", n)));
    let mut watch = world.watch("one");
    let stopped = world.clock.block_on(watch.turn(ready(())));
    assert!(stopped.is_interrupted);
    assert_eq!(world.clock.block_on(world.dlq.depth()).unwrap().visible, 200);
    world.sqs.set_faults(FaultPlan::new(1).with(FaultRule {
        action: Action::ReceiveMessage,
        queue: None,
        scope: Scope::Request,
        when: When::Numbers(vec![10]),
        injection: Injection::Sender,
    }));
    let failed = world.turn(&mut watch);
    assert!(failed.failure.unwrap().to_string().contains("reading "));
    assert_eq!(world.turn(&mut watch).coverage.unwrap().seen, 200);
    assert_eq!(world.archived().len(), 200);
    assert_eq!(world.topic.take().len(), 1);
}

/// docs/operate/watch.md has these figures.
#[test]
fn reading_a_thousand_messages_takes_219_requests() {
    let world = World::new();
    world.send((1..=1000).map(|n| foreign("x", n)));
    let before = world.sqs.requests();
    world.clock.block_on(world.watch("one").turn(pending()));
    let made = |name: &str| world.sqs.requests()[name] - before.get(name).copied().unwrap_or(0);
    assert_eq!(made("GetQueueAttributes"), 3);
    assert_eq!(made("ReceiveMessage"), 116);
    assert_eq!(made("ChangeMessageVisibilityBatch"), 100);
    assert_eq!(world.sqs.requests().get("DeleteMessageBatch"), None);
}

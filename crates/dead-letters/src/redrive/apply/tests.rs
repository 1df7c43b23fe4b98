mod copies;
mod deletions;
mod edits;
mod failing;
mod files;
mod runs;
mod several;
mod slow;
mod stopped;
mod unanswered;
mod watched;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use redeliver_core::failure::Stage;
use redeliver_core::failure::annotation::{Annotation, Cause, DeadLetter, annotate_attributes};
use redeliver_core::failure::reason::DeadLetterReason;
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{
    Attribute, AttributeValue, Attributes, Content, OutgoingMessage, ReceivedMessage, Timestamp,
};
use redeliver_core::ports::QueueDepth as _;
use redeliver_core::ports::{QueueService as _, QueueSettings, ReceiveOptions};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};
use redeliver_testing::KilledFuture;
use redeliver_testing::altered::{AlteredQueue, SlowRequests};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::redrive::{BodyEdit, JournalEntry, RedriveLimits, RedriveOutcome, RedrivePlan, RedriveProgress};
use crate::{DeadLetterError, Filter, Pick};

struct World {
    clock: VirtualClock,
    sqs: EmbeddedSqs,
    dlq: EmbeddedQueue,
    source: EmbeddedQueue,
    /// The temporary folder that contains the journal.
    _folder: TempDir,
    journal: PathBuf,
    limits: RedriveLimits,
}

const WATCH: Duration = Duration::from_secs(90);
const NO_LIMITS: RedriveLimits =
    RedriveLimits { rate: None, max: u64::MAX, stop_after_failures_percent: 20, watch: WATCH };

impl World {
    /// Creates a DLQ with these messages, an empty source queue, and no journal.
    fn new(messages: Vec<Content>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("redrive.jsonl");
        let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
        let sqs = EmbeddedSqs::new(clock.clone(), 7);
        let (dlq, source) = clock.block_on(async {
            let dlq = sqs.create_queue("dlq", &QueueSettings::default()).await.unwrap();
            let source = sqs.create_queue("source", &QueueSettings::default()).await.unwrap();
            (dlq, source)
        });
        let world = Self { clock, sqs, dlq, source, _folder: folder, journal, limits: NO_LIMITS };
        world.put(&world.dlq, messages);
        world
    }

    fn put(&self, queue: &EmbeddedQueue, messages: Vec<Content>) {
        let messages: Vec<_> =
            messages.into_iter().map(|content| OutgoingMessage::new(content).unwrap()).collect();
        self.clock.block_on(async {
            for batch in pack_batches(&messages) {
                assert!(queue.send_batch(batch).await.iter().all(Result::is_ok));
            }
        });
    }

    fn journal(&self) -> RedriveJournal {
        RedriveJournal::open(&self.journal, "plan", "dlq", "source").unwrap()
    }

    /// Runs the redrive to completion.
    fn apply(&self, plan: &RedrivePlan) -> Result<RedriveReport, DeadLetterError> {
        self.clock.block_on(self.redrive(plan).apply(&mut self.journal()))
    }

    fn redrive<'a>(
        &'a self,
        plan: &'a RedrivePlan,
    ) -> RedriveJob<'a, EmbeddedQueue, EmbeddedQueue, VirtualClock> {
        RedriveJob {
            dlq: &self.dlq,
            source: &self.source,
            clock: &self.clock,
            plan,
            can_come_back: true,
            limits: self.limits,
            interrupted: &|| false,
            progress: &|_| {},
        }
    }

    /// Runs the redrive and kills it after this number of polls. Returns true if it was killed before it finished.
    fn kill_after_polls(&self, plan: &RedrivePlan, polls: u32) -> bool {
        let mut journal = self.journal();
        let (dlq, source) = (slow_queue(&self.dlq, &self.clock), slow_queue(&self.source, &self.clock));
        let RedriveJob { clock, can_come_back, limits, interrupted, progress, .. } = self.redrive(plan);
        let redrive = RedriveJob {
            dlq: &dlq,
            source: &source,
            clock,
            plan,
            can_come_back,
            limits,
            interrupted,
            progress,
        };
        let future = Box::pin(redrive.apply(&mut journal));
        let died = clock.block_on(KilledFuture { future, polls }).is_none();
        // Messages held by the killed run become visible on their own.
        clock.block_on(clock.sleep(Duration::from_secs(600)));
        died
    }

    /// Receives and deletes all visible messages.
    fn take(&self, queue: &EmbeddedQueue) -> Vec<ReceivedMessage> {
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        self.clock.block_on(async {
            let mut all = Vec::new();
            loop {
                let messages = queue.receive(request).await.unwrap();
                if messages.is_empty() {
                    return all;
                }
                let handles: Vec<_> = messages.iter().map(|message| message.receipt_handle.clone()).collect();
                queue.delete_batch(&handles).await;
                all.extend(messages);
            }
        })
    }

    fn depths(&self) -> (u64, u64) {
        self.clock.block_on(async {
            (self.dlq.depth().await.unwrap().total(), self.source.depth().await.unwrap().total())
        })
    }

    fn inject_fault(&self, action: SqsAction, scope: FaultScope, when: FaultTrigger, injection: Injection) {
        let rule = FaultRule { action, queue: None, scope, when, injection };
        self.sqs.set_faults(FaultPlan::new(3).with_rule(rule));
    }
}

fn slow_queue<'a>(queue: &'a EmbeddedQueue, clock: &'a VirtualClock) -> AlteredQueue<SlowRequests<'a>> {
    AlteredQueue(SlowRequests { queue, clock })
}

fn unfiltered_plan() -> RedrivePlan {
    RedrivePlan { max_generation: 3, ..RedrivePlan::default() }
}

fn id(n: usize) -> String {
    format!("{n:08}-0000-4000-8000-000000000000")
}

/// Returns the n-th dead letter: retries exhausted, with an attribute from its producer.
fn dead_letter(n: usize) -> Content {
    dead_letter_in_generation(n, "")
}

fn dead_letter_in_generation(n: usize, generation: &str) -> Content {
    let body = format!(
        r#"{{"metadata":{{"message_id":"{}", "retry_attempt":5,{generation} "tenant":"a"}},"data":{{"n":{n}, "x":1.50}}}}"#,
        id(n)
    );
    let record = DeadLetter {
        last_attempt_traceparent: None,
        last_attempt_logs: None,
        stage: Stage::FailedMessageProcessor.into(),
        cause: Cause {
            error_type: "HttpStatus.503".to_owned(),
            message: "down".to_owned(),
            ..Cause::default()
        },
        attempts: Some(5),
        redrive_generation: None,
        held_seconds: None,
        redrive_count: None,
        first_sent_time: None,
        dead_lettered_at: "1970-01-01T00:00:00.000000Z".to_owned(),
        died_at: None,
        source_queue_arn: None,
        sqs_message_id: "m".to_owned(),
        fingerprint: if n.is_multiple_of(2) { "0000000000000000" } else { "1111111111111111" }.to_owned(),
        folded_attributes: BTreeMap::new(),
    };
    let producer = Attributes::from([
        ("tenant".to_owned(), Attribute::string("t1")),
        (
            "bytes".to_owned(),
            Attribute { data_type: "Binary.x".to_owned(), value: AttributeValue::Binary(vec![0, 255]) },
        ),
    ]);
    let reason = DeadLetterReason::RetryAttemptExceeded;
    let annotation =
        Annotation { reason: reason.into(), details: "Max retry attempts 5 exceeded".to_owned(), record };
    let attributes = annotate_attributes(&producer, body.len(), &annotation);
    Content { body, attributes, message_group_id: Some("g".to_owned()), ..Content::default() }
}

#[test]
fn a_redriven_message_keeps_its_content_and_gets_a_fresh_retry_budget() {
    let world = World::new(vec![dead_letter(1)]);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.staying_count(), report.covers_whole_dlq()), (1, 0, true));
    let [message] = world.take(&world.source).try_into().unwrap();
    let body = format!(
        r#"{{"metadata":{{"message_id":"{}", "tenant":"a","redrive_generation":1}},"data":{{"n":1, "x":1.50}}}}"#,
        id(1)
    );
    assert_eq!(message.body, body);
    assert_eq!(message.attributes.keys().collect::<Vec<_>>(), ["bytes", "tenant"]);
    assert_eq!(message.attributes["bytes"].value, AttributeValue::Binary(vec![0, 255]));
    assert_eq!(message.message_group_id.as_deref(), Some("g"));
    assert_eq!(world.depths(), (0, 0));
}

#[test]
fn a_redrive_dry_run_reports_the_plan_and_changes_nothing() {
    let world = World::new(
        (0..30)
            .map(dead_letter)
            .chain([Content { body: "foreign".to_owned(), ..Content::default() }])
            .collect(),
    );
    let report = world.clock.block_on(world.redrive(&unfiltered_plan()).dry_run()).unwrap();
    assert_eq!((report.planned, report.sent, report.staying_count()), (30, 0, 1));
    assert_eq!(world.depths(), (31, 0));
    assert!(!world.journal.exists());
}

#[test]
fn a_redrive_can_combine_a_group_with_ids_and_a_filter() {
    let world = World::new((0..20).map(dead_letter).collect());
    let plan = RedrivePlan {
        pick: Pick::new(
            Some("0000000000000000".to_owned()),
            [id(2), id(3), id(12), id(4)],
            Some(Filter::new(".body.data.n < 10").unwrap()),
        ),
        ..unfiltered_plan()
    };
    let report = world.apply(&plan).unwrap();
    assert_eq!((report.sent, report.not_selected), (2, 18), "2 and 4: even, below 10 and named");
    let sent: Vec<_> =
        world.take(&world.source).iter().map(|message| message.body.contains(r#""n":3"#)).collect();
    assert_eq!(sent, [false, false]);
    assert_eq!(world.depths().0, 18);
}

#[test]
fn a_message_over_its_generation_limit_is_parked() {
    let world = World::new(vec![
        dead_letter_in_generation(1, r#""redrive_generation":3,"#),
        dead_letter_in_generation(2, r#""redrive_generation":2,"#),
    ]);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.staying_count()), (1, 1));
    let staying = &report.to_json()["staying"][0];
    let reason = "parked: was sent back 3 times already (--max-generation)";
    assert_eq!((&staying["reason"], &staying["count"]), (&reason.into(), &1.into()));
    assert!(world.take(&world.source)[0].body.contains(r#""redrive_generation":3"#));
}

#[test]
fn a_message_given_up_at_once_returns_in_the_next_generation() {
    // Its body has no generation: the console moved it twice, and it failed permanently each time.
    let mut moved = dead_letter(1);
    let document = moved.attributes["DeadLetter"]
        .text()
        .unwrap()
        .replace(r#""dead_lettered_at""#, r#""redrive_generation":2,"dead_lettered_at""#);
    moved.attributes.insert("DeadLetter".to_owned(), Attribute::string(document.clone()));
    let mut parked = dead_letter(2);
    let document = document.replace(r#""redrive_generation":2"#, r#""redrive_generation":3"#);
    parked.attributes.insert("DeadLetter".to_owned(), Attribute::string(document));
    let world = World::new(vec![moved, parked]);
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.staying_count()), (1, 1), "parked at 3");
    assert!(world.take(&world.source)[0].body.contains(r#""redrive_generation":3"#));
}

#[test]
fn a_redrive_killed_at_any_moment_loses_no_message_and_counts_copies() {
    const MESSAGES: usize = 23;
    let mut deaths = 0;
    for polls in 1.. {
        let world = World::new((0..MESSAGES).map(dead_letter).collect());
        let died = world.kill_after_polls(&unfiltered_plan(), polls);
        let report = world.apply(&unfiltered_plan()).unwrap();
        assert!(report.covers_whole_dlq(), "{polls}: {report:?}");

        let mut copies: BTreeMap<String, u64> = BTreeMap::new();
        for message in world.take(&world.source) {
            let body: Value = serde_json::from_str(&message.body).unwrap();
            *copies.entry(body["metadata"]["message_id"].to_string()).or_default() += 1;
        }
        let total: u64 = copies.values().sum();
        assert_eq!(copies.len(), MESSAGES, "killed after {polls} polls: something is lost");
        assert!(total - MESSAGES as u64 <= report.possible_copies, "{polls}: {copies:?} {report:?}");
        assert_eq!(world.depths(), (0, 0), "killed after {polls} polls");
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 20, "it died only {deaths} times");
}

#[test]
fn a_message_whose_send_failed_is_sent_by_the_next_run() {
    let world = World::new((0..40).map(dead_letter).collect());
    world.inject_fault(
        SqsAction::SendMessageBatch,
        FaultScope::Entry,
        FaultTrigger::Chance(0.3),
        Injection::Sender,
    );
    let first = world.apply(&unfiltered_plan()).unwrap();
    assert!(first.sent < 40 && first.staying_count() > 0, "{first:?}");
    assert_eq!(world.depths(), (40 - first.sent, first.sent));
    world.sqs.set_faults(FaultPlan::new(3));
    let second = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((first.sent + second.sent, second.possible_copies), (40, 0), "a rejection is a response");
    assert_eq!(world.depths(), (0, 40));
}

#[test]
fn a_failed_deletion_is_retried_later_without_another_send() {
    let world = World::new((0..10).map(dead_letter).collect());
    world.inject_fault(
        SqsAction::DeleteMessageBatch,
        FaultScope::Entry,
        FaultTrigger::Numbers(vec![2, 5]),
        Injection::Sender,
    );
    let first = world.apply(&unfiltered_plan()).unwrap();
    let second = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((first.sent, second.sent), (10, 0));
    assert_eq!(first.deleted_only + second.deleted_only, 2);
    assert_eq!(world.depths(), (0, 10));
}

#[test]
fn a_redrive_respects_its_rate_and_its_maximum() {
    let mut world = World::new((0..45).map(dead_letter).collect());
    world.limits = RedriveLimits { rate: Some(10), max: 40, ..NO_LIMITS };
    let before = world.clock.now();
    let report = world.apply(&unfiltered_plan()).unwrap();
    let seconds = (world.clock.now() - before).as_seconds_f64();
    assert_eq!(report.sent, 40);
    assert_eq!(seconds, 3.0, "immediately, and after one, two and three seconds");
    assert_eq!(world.depths(), (5, 40));
}

#[test]
fn messages_over_the_maximum_are_counted_separately_from_unselected_ones() {
    let mut world = World::new((0..45).map(dead_letter).collect());
    world.limits.max = 7;
    let planned = world.clock.block_on(world.redrive(&unfiltered_plan()).dry_run()).unwrap();
    assert_eq!((planned.planned, planned.left_by_max, planned.not_selected), (7, 38, 0));
    let report = world.apply(&unfiltered_plan()).unwrap();
    assert_eq!((report.sent, report.not_selected), (7, 0));
    assert!((1..=38).contains(&report.left_by_max), "as far as it has looked: {}", report.left_by_max);
}

#[test]
fn a_redrive_stops_when_too_many_messages_fail_again() {
    let world = World::new((0..500).map(dead_letter).collect());
    let plan = unfiltered_plan();
    let mut journal = world.journal();
    let redrive = world.redrive(&plan);
    // A target that is still broken: each message sent is in the DLQ again a second later, with the next generation.
    let broken = async {
        loop {
            world.clock.sleep(Duration::from_secs(1)).await;
            let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
            while let Ok(messages) = world.source.receive(request).await
                && !messages.is_empty()
            {
                let handles: Vec<_> = messages.iter().map(|message| message.receipt_handle.clone()).collect();
                let back: Vec<_> = messages
                    .into_iter()
                    .map(|message| {
                        let content = Content { body: message.body, ..Content::default() };
                        OutgoingMessage::new(content).unwrap()
                    })
                    .collect();
                for batch in pack_batches(&back) {
                    world.dlq.send_batch(batch).await;
                }
                world.source.delete_batch(&handles).await;
            }
        }
    };
    let report = world.clock.block_on(async {
        let apply = pin!(redrive.apply(&mut journal));
        match futures_util::future::select(apply, pin!(broken)).await {
            futures_util::future::Either::Left((report, _)) => report.unwrap(),
            futures_util::future::Either::Right(_) => unreachable!("the consumer never ends"),
        }
    });
    assert_eq!(report.early_end, Some(EarlyEnd::Stopped), "{report:?}");
    assert_eq!((report.sent, report.returned_count()), (50, 50), "only the pilot");
    assert_eq!(world.depths(), (500, 0));
}

#[test]
fn a_journal_in_use_or_for_another_plan_is_refused() {
    let world = World::new(vec![dead_letter(1)]);
    let held = world.journal();
    let error = RedriveJournal::open(&world.journal, "plan", "dlq", "source").unwrap_err();
    assert!(error.to_string().contains("is in use: another redrive"), "{error}");
    drop(held);
    let error = RedriveJournal::open(&world.journal, "another", "dlq", "source").unwrap_err();
    assert!(error.to_string().contains("belongs to another redrive"), "{error}");
    let mut text = std::fs::read_to_string(&world.journal).unwrap();
    text.push_str(r#"{"intent":{"sqs_mess"#);
    crate::files::replace_file(&world.journal, text.as_bytes()).unwrap();
    assert_eq!(world.apply(&unfiltered_plan()).unwrap().sent, 1);
    crate::files::replace_file(&world.journal, b"rubbish\n").unwrap();
    let error = RedriveJournal::open(&world.journal, "plan", "dlq", "source").unwrap_err();
    assert!(error.to_string().contains("line 1 is not a journal entry"), "{error}");
}

#[test]
#[cfg(unix)]
fn a_planted_journal_deletes_nothing() {
    let world = World::new((1..=4).map(dead_letter).collect());
    let receive =
        ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: Some(VisibilitySeconds::ZERO) };
    let dead_letters = world.clock.block_on(world.dlq.receive(receive)).unwrap();
    assert_eq!(dead_letters.len(), 4);
    let mut forged = "{\"plan\":{\"id\":\"plan\",\"from\":\"dlq\",\"to\":\"source\"}}\n".to_owned();
    for message in &dead_letters {
        let sqs_message_id = message.sqs_message_id.clone();
        let sent = JournalEntry::Sent { sqs_message_id, sent_as: "t".to_owned(), sends: 1 };
        forged += &(serde_json::to_string(&sent).unwrap() + "\n");
    }
    redeliver_testing::planted::check_each_planted_file(&world.journal, &forged, |why| {
        let opened = RedriveJournal::open(&world.journal, "plan", "dlq", "source");
        let error = opened.map(|mut journal| {
            let report = world.clock.block_on(world.redrive(&unfiltered_plan()).apply(&mut journal)).unwrap();
            panic!("the journal was trusted: {report:?}, {:?} messages are left", world.depths());
        });
        assert!(error.unwrap_err().to_string().ends_with(why));
        assert_eq!(world.depths(), (4, 0));
    });
}

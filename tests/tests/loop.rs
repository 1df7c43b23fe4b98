//! The complete loop in virtual time, with the three functions' own code: no matter which process dies and which
//! request fails, every message is processed or arrives in the final DLQ.
#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use redeliver_core::arrival::split_producer_attributes;
use redeliver_core::failure::annotation::{DEAD_LETTER, ERROR_TYPE};
use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::limits::{DelaySeconds, VisibilitySeconds};
use redeliver_core::message::origin::Resenders;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Attribute, Attributes, Content, OutgoingMessage, ReceivedMessage};
use redeliver_core::policy::Policy;
use redeliver_core::ports::{
    Clock as _, Function, Queue as _, QueueSender as _, QueueSettings, ReceiveOptions, RedriveSettings,
};
use redeliver_core::redelivery::Redelivery;
use redeliver_core::strategy::DelayedResend;
use redeliver_embedded::{FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction};
use redeliver_failed_message_processor::FailedMessageProcessor;
use redeliver_final_dlq_annotator::FinalDlqAnnotator;
use redeliver_message_processor::{MessageProcessor, OnFailure, SharedBreaker};
use redeliver_testing::functions::*;

const POLICY: &str = r#"{"max_attempts":3,"backoff":{"kind":"uniform","max_delay_seconds":60}}"#;

/// The results of the ten messages: these are processed, and the others get the final records below.
const PROCESSED: [usize; 6] = [0, 2, 5, 6, 7, 8];
const DEAD: [(usize, &str); 4] = [
    (1, "RETRY_ATTEMPT_EXCEEDED"),
    (3, "NON_RETRYABLE_ERROR"),
    (4, "INVALID_MESSAGE_SCHEMA"),
    (9, "INVALID_MESSAGE_FORMAT"),
];

/// Returns the body of message `n`.
fn sent_body(n: usize) -> String {
    match n {
        4 => nth_body(4).replace(r#"{"n":4}"#, "[4]"),
        9 => "9: not JSON".to_owned(),
        _ => nth_body(n),
    }
}

/// Returns the attributes of message `n`: messages 5 and 9 have ten, so no further attribute fits.
fn sent_attributes(n: usize) -> Attributes {
    if n == 5 || n == 9 { ten_attributes() } else { producer_attributes() }
}

/// Returns the number of the message with this body.
fn message_number(body: &str) -> usize {
    (0..10).find(|n| body == sent_body(*n) || body.contains(&nth_id(*n))).unwrap()
}

/// A target that fails messages in different ways, and records the calls and the processed messages.
#[derive(Clone, Default)]
struct FaultyTarget {
    calls: Arc<Mutex<BTreeMap<usize, u32>>>,
    processed: Arc<Mutex<BTreeSet<usize>>>,
}

impl Handler for FaultyTarget {
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let n = message_number(message.body);
        assert_eq!(*message.attributes, sent_attributes(n), "producer attributes are kept");
        let call = {
            let mut calls = self.calls.lock().unwrap();
            let call = calls.entry(n).or_default();
            *call += 1;
            *call
        };
        let busy = || HandlerError::transient("Db.Busy", "come later");
        match (n, call) {
            (1, _) => return Err(busy()),
            (3, _) => return Err(HandlerError::permanent("Order.Unknown", "no such order")),
            (2 | 5, 1) => return Err(busy()),
            (6, 1) => resume_unwind(Box::new("no hook, no output")),
            (7, 1) => {
                return Err(HandlerError::snooze("Closed", "at night", Duration::from_secs(40)));
            }
            (8, 1) => pending().await,
            _ => {}
        }
        self.processed.lock().unwrap().insert(n);
        Ok(())
    }
}

/// One of the three functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopFunction {
    MessageProcessor,
    FailedMessageProcessor,
    Annotator,
}

/// The death of a process: the function, its batch, and the number of times its future is polled before it dies.
#[derive(Clone, Copy, Debug)]
struct ProcessDeath {
    function: LoopFunction,
    batch: usize,
    polls: usize,
}

/// Four queues as deployed, and the three functions.
struct DeployedLoop {
    world: FunctionWorld,
    target: FaultyTarget,
    queues: [SpyQueue; 4],
    message_processor:
        MessageProcessor<FaultyTarget, SpyQueue, redeliver_embedded::VirtualClock, EventRecorder>,
    failed_message_processor:
        FailedMessageProcessor<SpyQueue, redeliver_embedded::VirtualClock, EventRecorder>,
    annotator: FinalDlqAnnotator<SpyQueue, redeliver_embedded::VirtualClock, EventRecorder>,
    final_records: Vec<ReceivedMessage>,
    /// The number of batches delivered to each function.
    batches: [usize; 3],
}

impl DeployedLoop {
    fn new(schema: &MessageSchema) -> Self {
        let world = FunctionWorld::new();
        let days = |days: u64| Duration::from_secs(days * 24 * 3600);
        let settings = |retention, redrive: Option<(&SpyQueue, u16)>| QueueSettings {
            visibility: VisibilitySeconds::new(180).unwrap(),
            retention,
            redrive: redrive.map(|(queue, max_receive_count)| RedriveSettings {
                target_arn: queue.queue.arn().to_owned(),
                max_receive_count,
            }),
            ..QueueSettings::default()
        };
        // Responses are slow, so a process can die between a send and its response.
        let slow = |queue: SpyQueue| queue.with_pauses(Duration::from_millis(1), Duration::from_millis(1));
        let last = slow(world.add_queue_with_settings("final-dlq", &settings(days(14), None)));
        let annotation =
            slow(world.add_queue_with_settings("annotation", &settings(days(14), Some((&last, 10)))));
        let intermediate = slow(
            world.add_queue_with_settings("intermediate", &settings(days(14), Some((&annotation, 100)))),
        );
        let source =
            slow(world.add_queue_with_settings("source", &settings(days(7), Some((&intermediate, 1)))));
        let (clock, observer, target) = (world.clock.clone(), world.seen.clone(), FaultyTarget::default());
        Self {
            message_processor: MessageProcessor {
                handler: target.clone(),
                on_failure: OnFailure::DelayedResend(DelayedResend(Redelivery {
                    source_queue: source.clone(),
                    intermediate_dlq: intermediate.clone(),
                })),
                breaker: SharedBreaker::from_policy(&Policy::from_json(POLICY).unwrap()),
                policy: Policy::from_json(POLICY).unwrap(),
                annotation_queue: annotation.clone(),
                clock: clock.clone(),
                observer: observer.clone(),
                schema: schema.clone(),
                resenders: Resenders::default(),
                max_concurrency: NonZeroUsize::new(4).unwrap(),
            },
            failed_message_processor: FailedMessageProcessor {
                redelivery: Redelivery {
                    source_queue: source.clone(),
                    intermediate_dlq: intermediate.clone(),
                },
                annotation_queue: annotation.clone(),
                clock: clock.clone(),
                observer: observer.clone(),
                schema: schema.clone(),
                policy: Policy::from_json(POLICY).unwrap(),
                resenders: Resenders::default(),
            },
            annotator: FinalDlqAnnotator::new(last.clone(), clock, observer),
            queues: [source, intermediate, annotation, last],
            final_records: Vec::new(),
            batches: [0; 3],
            target,
            world,
        }
    }

    fn send_all(&self) {
        let message = |n: usize| {
            let content = Content {
                body: sent_body(n),
                attributes: sent_attributes(n),
                message_group_id: Some(format!("tenant-{n}")),
                deduplication_id: None,
                trace_header: Some(format!("Root={n}")),
                delay: DelaySeconds::ZERO,
            };
            OutgoingMessage::new(content).unwrap()
        };
        let messages: Vec<_> = (0..10).map(message).collect();
        for batch in pack_batches(&messages) {
            let sent = self.world.clock.block_on(self.queues[0].queue.send_batch(batch));
            assert!(sent.iter().all(Result::is_ok));
        }
    }

    /// Runs until every queue is empty. `death` returns the number of polls after which a batch's process dies. Returns
    /// true if a process died.
    fn run(&mut self, death: impl Fn(LoopFunction, usize) -> Option<usize>) -> bool {
        let mut died = false;
        for _ in 0..10_000 {
            let which = [
                LoopFunction::MessageProcessor,
                LoopFunction::FailedMessageProcessor,
                LoopFunction::Annotator,
            ];
            let mut idle = true;
            for (index, which) in which.into_iter().enumerate() {
                let Some(records) = self.receive(index) else {
                    continue;
                };
                idle = false;
                let death = death(which, self.batches[index]);
                self.batches[index] += 1;
                let failed = match which {
                    LoopFunction::MessageProcessor => self.invoke(&self.message_processor, &records, death),
                    LoopFunction::FailedMessageProcessor => {
                        self.invoke(&self.failed_message_processor, &records, death)
                    }
                    LoopFunction::Annotator => self.invoke(&self.annotator, &records, death),
                };
                match failed {
                    Some(failed) => self.delete(
                        index,
                        records.iter().filter(|record| !failed.contains(&record.sqs_message_id)),
                    ),
                    None => died = true,
                }
            }
            if let Some(records) = self.receive(3) {
                idle = false;
                self.delete(3, records.iter());
                self.final_records.extend(records);
            }
            if idle {
                let Some(due) = self.world.sqs.next_due_at() else {
                    return died;
                };
                let due = due.max(self.world.clock.now() + Duration::from_millis(1));
                self.world.clock.block_on(self.world.clock.sleep_until(due));
            }
        }
        panic!("the loop does not settle");
    }

    fn receive(&self, queue: usize) -> Option<Vec<ReceivedMessage>> {
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        let received = self.world.clock.block_on(self.queues[queue].queue.receive(request));
        received.ok().filter(|records| !records.is_empty())
    }

    fn delete<'a>(&self, queue: usize, records: impl Iterator<Item = &'a ReceivedMessage>) {
        let handles: Vec<_> = records.map(|record| record.receipt_handle.clone()).collect();
        self.world.clock.block_on(self.queues[queue].queue.delete_batch(&handles));
    }

    /// Returns the records that the function reports as failed; `None` if its process died.
    fn invoke(
        &self,
        function: &impl Function,
        records: &[ReceivedMessage],
        death: Option<usize>,
    ) -> Option<Vec<String>> {
        let deadline = self.world.clock.now() + Duration::from_secs(30);
        self.world.clock.block_on(async {
            let mut process = pin!(function.batch_item_failures(records.to_vec(), deadline));
            let mut polls = 0;
            poll_fn(|context| {
                if death == Some(polls) {
                    return Poll::Ready(None);
                }
                polls += 1;
                let polled = process.as_mut().poll(context).map(Some);
                // The process died between two awaits.
                if death == Some(polls) && polled.is_pending() { Poll::Ready(None) } else { polled }
            })
            .await
        })
    }

    fn processed_messages(&self) -> BTreeSet<usize> {
        self.target.processed.lock().unwrap().clone()
    }

    /// Returns the messages and error types of the final records, without duplicates.
    fn dead_letters(&self) -> BTreeSet<(usize, &str)> {
        let error_type =
            |record| Attributes::get(record, ERROR_TYPE).and_then(Attribute::text).unwrap_or("UNANNOTATED");
        self.final_records
            .iter()
            .map(|record| (message_number(&record.body), error_type(&record.attributes)))
            .collect()
    }

    /// Checks that each final record has the producer's attributes, group and trace, and a document that fits its
    /// schema.
    fn assert_final_records_are_complete(&self) {
        for record in &self.final_records {
            let n = message_number(&record.body);
            attribute_document(&record.attributes, DEAD_LETTER);
            assert_eq!(split_producer_attributes(record.attributes.clone()).attributes, sent_attributes(n));
            assert_eq!(record.message_group_id, Some(format!("tenant-{n}")));
            assert_eq!(record.trace_header, Some(format!("Root={n}")));
        }
    }
}

#[test]
fn a_crash_free_loop_settles_each_message_once() {
    let mut run = DeployedLoop::new(&MessageSchema::default());
    run.send_all();
    assert!(!run.run(|_, _| None));
    assert_eq!(run.processed_messages(), BTreeSet::from(PROCESSED));
    assert_eq!(run.dead_letters(), BTreeSet::from(DEAD));
    assert_eq!(run.final_records.len(), DEAD.len(), "no copies");
    run.assert_final_records_are_complete();
    let calls = run.target.calls.lock().unwrap().clone();
    let expected = [(0, 1), (1, 4), (2, 2), (3, 1), (5, 2), (6, 2), (7, 2), (8, 2)];
    assert_eq!(calls, BTreeMap::from(expected), "one first call and at most three retries");
}

#[test]
fn a_process_that_dies_at_any_await_loses_no_message() {
    let schema = MessageSchema::default();
    let mut deaths = [0; 3];
    for function in
        [LoopFunction::MessageProcessor, LoopFunction::FailedMessageProcessor, LoopFunction::Annotator]
    {
        for batch in 0.. {
            let before = deaths[function as usize];
            for polls in 0.. {
                let death = ProcessDeath { function, batch, polls };
                let mut run = DeployedLoop::new(&schema);
                run.send_all();
                let dies =
                    |which, batch| (which == death.function && batch == death.batch).then_some(death.polls);
                let died = run.run(dies);
                assert_eq!(run.processed_messages(), BTreeSet::from(PROCESSED), "{death:?}");
                assert_eq!(run.dead_letters(), BTreeSet::from(DEAD), "{death:?}");
                run.assert_final_records_are_complete();
                if !died {
                    break;
                }
                deaths[function as usize] += 1;
            }
            // The process did not die even before its first await, so this batch does not exist.
            if deaths[function as usize] == before {
                break;
            }
        }
    }
    // Guards against a test that no longer kills anything.
    assert!(deaths.iter().all(|deaths| *deaths >= 8), "{deaths:?}");
    println!("deaths survived, by function: {deaths:?}");
}

#[test]
fn an_hour_of_random_faults_loses_no_message() {
    let schema = MessageSchema::default();
    for seed in 0..20 {
        let mut run = DeployedLoop::new(&schema);
        run.send_all();
        let rule = |action, scope, injection| FaultRule {
            action,
            queue: None,
            scope,
            when: FaultTrigger::Chance(0.15),
            injection,
        };
        let plan = FaultPlan::new(seed)
            .with_rule(rule(SqsAction::SendMessageBatch, FaultScope::Request, Injection::Throttled))
            .with_rule(rule(SqsAction::SendMessageBatch, FaultScope::Entry, Injection::Sender))
            .with_rule(rule(SqsAction::SendMessageBatch, FaultScope::Entry, Injection::LostResponse))
            .with_rule(rule(SqsAction::SendMessageBatch, FaultScope::Entry, Injection::LostRequest))
            .with_rule(rule(SqsAction::ReceiveMessage, FaultScope::Request, Injection::LostResponse))
            .with_rule(rule(SqsAction::DeleteMessageBatch, FaultScope::Request, Injection::Service))
            .with_rule(rule(SqsAction::DeleteMessageBatch, FaultScope::Entry, Injection::LostRequest));
        run.world.sqs.set_faults(plan);
        let (clock, sqs) = (run.world.clock.clone(), run.world.sqs.clone());
        run.run(|_, batch| {
            if clock.now() > start_time() + Duration::from_secs(3600) {
                sqs.set_faults(FaultPlan::default());
                return None;
            }
            // Every fifth process dies, each at a different await.
            batch.is_multiple_of(5).then_some(batch % 13)
        });
        let dead: BTreeSet<_> = run.final_records.iter().map(|record| message_number(&record.body)).collect();
        let out: BTreeSet<_> = run.processed_messages().union(&dead).copied().collect();
        assert_eq!(out, (0..10).collect(), "seed {seed}: lost");
        assert!(
            !run.processed_messages().iter().any(|n| DEAD.iter().any(|(dead, _)| dead == n)),
            "seed {seed}"
        );
    }
}

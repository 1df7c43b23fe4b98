//! The complete loop in virtual time: failing functions, the handler, and the annotator. No event is lost, regardless
//! of crashes and failures.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::ports::{Queue, QueueSettings, ReceiveOptions, RedriveSettings};
use redeliver_embedded::{FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction};
use redeliver_final_dlq_annotator::FinalDlqAnnotator;

use super::*;

const DEAD: [(usize, &str); 4] = [
    (1, "RETRY_ATTEMPT_EXCEEDED"),
    (2, "NON_RETRYABLE_ERROR"),
    (3, "INVALID_MESSAGE_FORMAT"),
    (4, "MESSAGE_TOO_LARGE"),
];
const PROCESSED: [usize; 3] = [0, 5, 6];

/// A fake Lambda that runs the functions for queued events and sends a record of each failure to the retry queue.
#[derive(Clone)]
struct Service {
    clock: VirtualClock,
    retry: SpyQueue,
    queued: Arc<Mutex<Vec<(String, String)>>>,
    attempts: Arc<Mutex<BTreeMap<usize, Vec<u32>>>>,
    processed: Arc<Mutex<BTreeSet<usize>>>,
    requests: Arc<Mutex<usize>>,
}

impl AsyncInvoker for Service {
    async fn invoke_async(&self, function_arn: &str, payload: &str) -> Result<(), AsyncInvokeError> {
        // A process can die before Lambda has received the event, or before it has received the response.
        self.clock.sleep(Duration::from_millis(1)).await;
        let n = event_number(payload);
        if n == 4 {
            return Err(AsyncInvokeError::TooLarge);
        }
        let (retry, _) = redeliver_core::async_retry::read_payload(payload);
        let retry = retry.expect("a retry is wrapped in its envelope");
        // These functions fail instantly, so the k-th retry must wait for k delays of 1,000 s.
        let waited = self.clock.now().timestamp() - retry.initial_timestamp;
        assert!(waited >= 1000 * i64::from(retry.attempt), "early: {n}, {retry:?}, {waited} s");
        self.queued.lock().unwrap().push((function_arn.to_owned(), payload.to_owned()));
        self.clock.sleep(Duration::from_millis(1)).await;
        Ok(())
    }
}

impl Service {
    /// Runs the functions whose events are queued. Returns true if there were any.
    fn run(&self) -> bool {
        let queued = std::mem::take(&mut *self.queued.lock().unwrap());
        for (function_arn, payload) in &queued {
            let n = event_number(payload);
            let attempt =
                redeliver_core::async_retry::read_payload(payload).0.map_or(0, |retry| retry.attempt);
            self.attempts.lock().unwrap().entry(n).or_default().push(attempt);
            let fails = match n {
                0 => attempt < 2,
                5 => attempt < 3,
                6 => attempt < 1,
                _ => true,
            };
            if fails {
                self.fail(function_arn, n, payload);
            } else {
                self.processed.lock().unwrap().insert(n);
            }
        }
        !queued.is_empty()
    }

    fn fail(&self, function_arn: &str, n: usize, payload: &str) {
        let request = {
            let mut requests = self.requests.lock().unwrap();
            *requests += 1;
            *requests
        };
        let millis = (self.clock.now() - start_time()).num_milliseconds();
        let body = function_destination_record(function_arn, request, payload, 0).replace(
            &format_time_at(0),
            &redeliver_core::message::metadata::format_rfc3339(
                start_time() + chrono::TimeDelta::milliseconds(millis),
            ),
        );
        let body = if n == 3 { body.replace("requestPayload", "payload") } else { body };
        let message = OutgoingMessage::new(Content { body, ..Content::default() }).unwrap();
        // Lambda retries until the destination has accepted the record.
        let messages = [message];
        let sent = || self.clock.block_on(self.retry.queue.send_batch(pack_batches(&messages)[0]));
        while !sent().iter().all(Result::is_ok) {}
    }
}

struct Loop {
    world: FunctionWorld,
    service: Service,
    queues: [SpyQueue; 3],
    handler: AsyncRetryHandler<Service, SpyQueue, VirtualClock, EventRecorder>,
    annotator: FinalDlqAnnotator<SpyQueue, VirtualClock, EventRecorder>,
    final_records: Vec<ReceivedMessage>,
    batches: [usize; 2],
}

impl Loop {
    fn new() -> Self {
        let world = FunctionWorld::new();
        let settings = |redrive: Option<(&SpyQueue, u16)>| QueueSettings {
            retention: Duration::from_secs(14 * 24 * 3600),
            redrive: redrive.map(|(queue, max_receive_count)| RedriveSettings {
                target_arn: queue.queue.arn().to_owned(),
                max_receive_count,
            }),
            ..QueueSettings::default()
        };
        let slow = |queue: SpyQueue| queue.with_pauses(Duration::from_millis(1), Duration::from_millis(1));
        let last = slow(world.add_queue_with_settings("final-dlq", &settings(None)));
        let annotation = slow(world.add_queue_with_settings("annotation", &settings(Some((&last, 110)))));
        let retry = slow(world.add_queue_with_settings("retry", &settings(Some((&annotation, 100)))));
        let (clock, observer) = (world.clock.clone(), world.seen.clone());
        let service = Service {
            clock: clock.clone(),
            retry: retry.clone(),
            queued: Arc::default(),
            attempts: Arc::default(),
            processed: Arc::default(),
            requests: Arc::default(),
        };
        Self {
            handler: AsyncRetryHandler {
                invoker: service.clone(),
                retry_queue: retry.clone(),
                annotation_queue: annotation.clone(),
                clock: clock.clone(),
                observer: observer.clone(),
                policy: Policy::from_json(POLICY).unwrap(),
                functions: FunctionArns::parse(ORDERS).unwrap(),
            },
            annotator: FinalDlqAnnotator::new(last.clone(), clock, observer),
            queues: [retry, annotation, last],
            final_records: Vec::new(),
            batches: [0; 2],
            service,
            world,
        }
    }

    /// Runs until all events are settled. `death` returns the number of polls after which a batch's process dies.
    /// Returns true if any process died.
    fn run(&mut self, death: impl Fn(usize, usize) -> Option<usize>) -> bool {
        for n in 0..7 {
            let arn = if n == 2 { ORDERS.replace("orders", "payments") } else { ORDERS.to_owned() };
            self.service.queued.lock().unwrap().push((arn, payload(n)));
        }
        let mut died = false;
        for _ in 0..10_000 {
            let mut idle = !self.service.run();
            for function in 0..2 {
                let Some(records) = self.receive(function) else { continue };
                idle = false;
                let death = death(function, self.batches[function]);
                self.batches[function] += 1;
                let failed = if function == 0 {
                    self.invoke(&self.handler, &records, death)
                } else {
                    self.invoke(&self.annotator, &records, death)
                };
                match failed {
                    Some(failed) => self.delete(
                        function,
                        records.iter().filter(|record| !failed.contains(&record.sqs_message_id)),
                    ),
                    None => died = true,
                }
            }
            if let Some(records) = self.receive(2) {
                idle = false;
                self.delete(2, records.iter());
                self.final_records.extend(records);
            }
            if idle {
                let Some(due) = self.world.sqs.next_due_at() else { return died };
                let due = due.max(self.world.clock.now() + Duration::from_millis(1));
                self.world.clock.block_on(self.world.clock.sleep_until(due));
            }
        }
        panic!("the loop does not end");
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
        let deadline = self.world.clock.now() + Duration::from_secs(20);
        self.world.clock.block_on(async {
            let mut process = pin!(function.batch_item_failures(records.to_vec(), deadline));
            let mut polls = 0;
            poll_fn(|context| {
                if death == Some(polls) {
                    return Poll::Ready(None);
                }
                polls += 1;
                let polled = process.as_mut().poll(context).map(Some);
                if death == Some(polls) && polled.is_pending() { Poll::Ready(None) } else { polled }
            })
            .await
        })
    }

    fn dead_letters(&self) -> BTreeSet<(usize, &str)> {
        let number_and_code = |record: &ReceivedMessage| {
            let code = record.attributes.get("ErrorType").and_then(Attribute::text).unwrap_or("UNANNOTATED");
            let code = redeliver_core::failure::reason::ReasonCode::from_text(code)
                .unwrap()
                .known()
                .unwrap()
                .as_str();
            attribute_document(&record.attributes, "DeadLetter");
            (event_number(&record.body), code)
        };
        self.final_records.iter().map(number_and_code).collect()
    }

    fn processed(&self) -> BTreeSet<usize> {
        self.service.processed.lock().unwrap().clone()
    }
}

#[test]
fn without_crashes_each_event_is_retried_according_to_the_policy() {
    let mut run = Loop::new();
    assert!(!run.run(|_, _| None));
    assert_eq!(run.processed(), BTreeSet::from(PROCESSED));
    assert_eq!(run.dead_letters(), BTreeSet::from(DEAD));
    assert_eq!(run.final_records.len(), DEAD.len(), "no copies");
    let attempts = run.service.attempts.lock().unwrap().clone();
    let expected: [(usize, &[u32]); 7] = [
        (0, &[0, 1, 2]),
        (1, &[0, 1, 2, 3]),
        (2, &[0]),
        (3, &[0]),
        (4, &[0]),
        (5, &[0, 1, 2, 3]),
        (6, &[0, 1]),
    ];
    assert_eq!(attempts, expected.map(|(n, attempts)| (n, attempts.to_vec())).into());
    assert_eq!(
        run.world.elapsed_seconds(),
        3000,
        "three delays of 1,000 s, each a hop of 900 s and one of 100 s"
    );
    let hops = run
        .world
        .seen
        .events()
        .iter()
        .map(|event| if let Event::Hopped { messages } = event { *messages } else { 0 })
        .sum::<u32>();
    assert_eq!(hops, 2 * (2 + 3 + 1 + 3 + 1), "two for each retry, including the one that Lambda refused");
}

#[test]
fn a_process_that_dies_at_any_await_loses_no_event() {
    let deaths = [0, 1].map(|function| {
        let mut deaths = 0;
        for batch in 0.. {
            let before = deaths;
            for polls in 0.. {
                let mut run = Loop::new();
                let died = run.run(|which, at| (which == function && at == batch).then_some(polls));
                assert_eq!(run.processed(), BTreeSet::from(PROCESSED), "{function} {batch} {polls}");
                assert_eq!(run.dead_letters(), BTreeSet::from(DEAD), "{function} {batch} {polls}");
                let attempts = run.service.attempts.lock().unwrap().clone();
                assert!(attempts.values().flatten().all(|attempt| *attempt <= 3), "{attempts:?}");
                if !died {
                    break;
                }
                deaths += 1;
            }
            // No process died, even with zero polls, so this batch does not exist.
            if deaths == before {
                break;
            }
        }
        deaths
    });
    // Guards the test itself: enough processes must have died.
    assert!(deaths.iter().all(|deaths| *deaths >= 8), "{deaths:?}");
    println!("deaths survived, by function: {deaths:?}");
}

#[test]
fn an_hour_of_random_failures_loses_no_event() {
    for seed in 0..20 {
        let mut run = Loop::new();
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
            // Every fifth process dies, after 0 to 12 polls.
            batch.is_multiple_of(5).then_some(batch % 13)
        });
        assert_eq!(run.processed(), BTreeSet::from(PROCESSED), "seed {seed}");
        let dead: BTreeSet<_> = run.final_records.iter().map(|record| event_number(&record.body)).collect();
        assert_eq!(dead, DEAD.map(|(n, _)| n).into(), "seed {seed}");
        let attempts = run.service.attempts.lock().unwrap().clone();
        assert!(attempts.values().flatten().all(|attempt| *attempt <= 3), "seed {seed}: {attempts:?}");
    }
}

//! Tests with messages that have little or no room for redeliver's additions: the target is called only once, and the
//! reason for the failure is preserved.

use std::sync::atomic::{AtomicUsize, Ordering};

use redeliver_core::arrival::trace_header_and_verdict;
use redeliver_core::failure::annotation::{DEAD_LETTER, DeadLetter};
use redeliver_core::handler::{Handler, HandlerError, Message};
use redeliver_core::limits::MESSAGE_BYTES_MAX;
use redeliver_core::message::schema::MessageSchema;
use redeliver_core::message::{Attribute, Attributes, attributes_size};
use redeliver_core::policy::Policy;
use serde_json::Value;

use super::*;
use crate::functions::{failed_message_processor, final_dlq_annotator, message_processor};

const TRACE: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

/// A target that rejects each message.
struct RefusingTarget<'a> {
    calls: &'a AtomicUsize,
    error: &'a HandlerError,
}

impl Handler for RefusingTarget<'_> {
    async fn handle(&self, _: &Message<'_>) -> Result<(), HandlerError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Err(self.error.clone())
    }
}

/// Returns the number of calls for a message, and its final record.
fn run_until_given_up(
    strategy: Strategy,
    content: Content,
    error: &HandlerError,
) -> (usize, ReceivedMessage) {
    let policy = || Policy::from_json(r#"{"max_attempts":0,"circuit_breaker":false}"#).unwrap();
    let clock = VirtualClock::new(Timestamp::UNIX_EPOCH);
    let sqs = EmbeddedSqs::new(clock.clone(), 1);
    let message = OutgoingMessage::new(content).unwrap();
    clock.block_on(async {
        let topology =
            Topology::create_queues(&sqs, "engine", strategy, 0, Batching::default()).await.unwrap();
        let (tracker, calls) = (Mutex::default(), AtomicUsize::new(0));
        let (target, schema) = (RefusingTarget { calls: &calls, error }, MessageSchema::default);
        let functions = LoopFunctions {
            source_function: message_processor(
                &topology,
                target,
                &clock,
                &SilentObserver,
                schema(),
                policy(),
            ),
            failed_message_processor: failed_message_processor(
                &topology,
                &clock,
                &SilentObserver,
                schema(),
                policy(),
            ),
            final_dlq_annotator: final_dlq_annotator(&topology, &clock, &SilentObserver),
        };
        let engine = engine(&topology, &clock, &tracker);
        engine.send_messages(vec![message], pending()).await.unwrap();
        let record = async {
            loop {
                let received =
                    receive_records(&topology.final_dlq, 10, Duration::from_secs(1)).await.unwrap();
                if let [record] = &received[..] {
                    return record.clone();
                }
                clock.sleep(Duration::from_secs(1)).await;
            }
        };
        let never_done = Cell::new(false);
        let Topology { source, intermediate, annotation, .. } = &topology;
        let (one, batching, never_done) = (Pollers::constant(1), Batching::default(), &never_done);
        let run = async {
            let failed = async {
                if let (Some(queue), Some(function)) = (intermediate, &functions.failed_message_processor) {
                    engine.poll_queue(queue, function, one, batching, never_done).await.unwrap();
                }
            };
            join!(
                engine.poll_queue(source, &functions.source_function, one, batching, never_done),
                failed,
                engine.poll_queue(annotation, &functions.final_dlq_annotator, one, batching, never_done),
            )
        };
        pin_mut!(run, record);
        let Either::Right((record, _)) = select(run, record).await else { panic!("the loop has ended") };
        (calls.load(Ordering::Relaxed), record)
    })
}

/// Returns the code and the last error of a final record, regardless of where they are stored.
fn reason(record: &ReceivedMessage) -> Option<(String, String)> {
    let ours = record.attributes.get(DEAD_LETTER).and_then(DeadLetter::from_attribute);
    match ours {
        Some(ours) => {
            let code = record.attributes["ErrorType"].text().unwrap();
            Some((code.to_owned(), ours.cause.error_type))
        }
        None => {
            let (_, verdict) = trace_header_and_verdict(record);
            let verdict = verdict?;
            Some((verdict.code.as_str().to_owned(), verdict.case?.failure.error.error_type))
        }
    }
}

fn full_content(free: usize, attributes: Attributes, trace_header: Option<&str>) -> Content {
    let bytes = MESSAGE_BYTES_MAX - free - attributes_size(&attributes);
    let empty = r#"{"metadata":{"message_id":"0191f3a2-7b1c-7d3e-8f00-000000000001"},"data":{"x":""}}"#;
    let filled = format!(r#""x":"{}""#, "x".repeat(bytes - empty.len()));
    let body = empty.replace(r#""x":"""#, &filled);
    Content { body, attributes, trace_header: trace_header.map(str::to_owned), ..Content::default() }
}

const STRATEGIES: [Strategy; 3] = [Strategy::DelayedResend, Strategy::DirectResend, Strategy::Visibility];

fn ten_attributes() -> Attributes {
    (0..10).map(|n| (format!("a{n}"), Attribute::string("x"))).collect()
}

#[test]
fn a_full_message_is_tried_only_once_and_keeps_its_failure_reason() {
    let refused = HandlerError::permanent("HttpStatus.400", "HTTP 400: no such order");
    let busy = HandlerError::transient("HttpStatus.503", "HTTP 503: come later");
    let mut wrong = Vec::new();
    for strategy in STRATEGIES {
        for (error, code) in [(&refused, "NON_RETRYABLE_ERROR"), (&busy, "RETRY_ATTEMPT_EXCEEDED")] {
            let expected = Some((code.to_owned(), error.error_type.loggable_name().into_owned()));
            let full =
                |free| (format!("{free} bytes free"), full_content(free, Attributes::new(), Some(TRACE)));
            let mut contents: Vec<_> = [0, 1, 30, 60, 100, 180, 230, 269, 270, 300].map(full).into();
            contents.push(("ten attributes, full".to_owned(), self::full_content(0, ten_attributes(), None)));
            contents.push((
                "ten attributes".to_owned(),
                self::full_content(900_000, ten_attributes(), Some(TRACE)),
            ));
            for (name, content) in contents {
                let (calls, record) = run_until_given_up(strategy, content.clone(), error);
                assert_eq!(record.body, content.body);
                if (calls, reason(&record)) != (1, expected.clone()) {
                    wrong.push(format!("{strategy:?}, {name}: {calls} calls, {:?}", reason(&record)));
                }
                let (trace_header, _) = trace_header_and_verdict(&record);
                assert_eq!(trace_header, content.trace_header, "{strategy:?}, {name}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Without the trace header, the file written by `redeliver local --final-dlq` would not contain the reason.
#[test]
fn a_final_record_written_to_the_output_contains_the_failure_reason() {
    let refused = HandlerError::permanent("HttpStatus.400", "");
    let (_, record) =
        run_until_given_up(Strategy::DelayedResend, full_content(0, Attributes::new(), None), &refused);
    let mut output = Vec::new();
    let ((), _) = run_on_queues(async |engine| {
        engine.lock_tracker().record_sent(&record.body);
        let content = Content {
            body: record.body.clone(),
            trace_header: record.trace_header.clone(),
            ..Content::default()
        };
        engine
            .topology
            .final_dlq
            .send_batch(pack_batches(&[OutgoingMessage::new(content).unwrap()])[0])
            .await;
        engine.read_final_dlq(&mut output, &Cell::new(false)).await.unwrap();
        assert_eq!(engine.lock_tracker().dead_letters()["NON_RETRYABLE_ERROR"], 1);
    });
    let line: Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(line["trace_header"].as_str(), record.trace_header.as_deref());
}

//! Runs the functions in virtual time: queues that record sends, hand-built records, and an observer that records
//! events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redeliver_core::accepted::FailedMessage;
use redeliver_core::arrival::Arrival;
use redeliver_core::decide::Resend;
use redeliver_core::events::Event;
use redeliver_core::failure::annotation::DEAD_LETTER_SCHEMA;
use redeliver_core::failure::{FAILURE_SCHEMA, HandOff, Stage};
use redeliver_core::limits::VisibilitySeconds;
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::metadata::{format_rfc3339, parse_rfc3339};
use redeliver_core::message::packing::Batch;
use redeliver_core::message::schema::{MESSAGE_SCHEMA, MessageSchema, RewrittenPart};
use redeliver_core::message::{Attribute, AttributeValue, Attributes, Content, ReceivedMessage, Timestamp};
use redeliver_core::ports::{
    Clock, Depth, EntryError, EntryOutcome, Function, Observer, Queue, QueueDepth, QueueSender, QueueService,
    QueueSettings, ReceiveOptions, VisibilityControl,
};
use redeliver_core::trace::{Span, Tracer};
use redeliver_embedded::{
    EmbeddedQueue, EmbeddedSqs, FaultPlan, FaultRule, FaultScope, FaultTrigger, Injection, SqsAction,
    VirtualClock,
};
use serde_json::{Value, json};

pub const SOURCE_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:source";
pub const INTERMEDIATE_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:intermediate";

/// Returns the time at which every test starts.
pub fn start_time() -> Timestamp {
    parse_rfc3339("2026-07-25T17:20:00Z").unwrap()
}

/// Returns the time `seconds` after the start, in redeliver's format.
pub fn format_time_at(seconds: i64) -> String {
    format_rfc3339(start_time() + chrono::TimeDelta::seconds(seconds))
}

/// Returns the `n`-th message id.
pub fn nth_id(n: usize) -> String {
    format!("0191f3a2-7b1c-7d3e-8f00-{n:012}")
}

/// Returns the `n`-th valid body.
pub fn nth_body(n: usize) -> String {
    format!(r#"{{"metadata":{{"message_id":"{}"}},"data":{{"n":{n}}}}}"#, nth_id(n))
}

/// Returns the `n`-th record, with the SQS message id `sqs-n`, sent ten seconds before the start.
pub fn nth_record(n: usize, body: impl Into<String>) -> ReceivedMessage {
    ReceivedMessage {
        sqs_message_id: format!("sqs-{n}"),
        receipt_handle: format!("handle-{n}"),
        body: body.into(),
        attributes: Attributes::new(),
        sent_at: start_time() - chrono::TimeDelta::seconds(10),
        first_received_at: Some(start_time()),
        receive_count: 1,
        message_group_id: None,
        trace_header: None,
        sender_id: None,
        redriven_from: None,
        queue_arn: SOURCE_ARN.to_owned(),
        omitted: Vec::new(),
    }
}

pub fn ten_records() -> Vec<ReceivedMessage> {
    (0..10).map(|n| nth_record(n, nth_body(n))).collect()
}

/// Returns one producer attribute of each type.
pub fn producer_attributes() -> Attributes {
    Attributes::from([
        ("tenant".to_owned(), Attribute::string("acmé")),
        ("price".to_owned(), number_attribute("Number", "12345678901234567890.5")),
        ("count".to_owned(), number_attribute("Number.int", "7")),
        ("blob".to_owned(), binary_attribute("Binary.png", &[0, 159, 146, 150, 255])),
    ])
}

/// Returns ten producer attributes, the SQS limit.
pub fn ten_attributes() -> Attributes {
    let more = (0..6).map(|n| (format!("more-{n}"), Attribute::string("x".repeat(n + 1))));
    producer_attributes().into_iter().chain(more).collect()
}

fn number_attribute(data_type: &str, text: &str) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value: AttributeValue::Text(text.to_owned()) }
}

fn binary_attribute(data_type: &str, bytes: &[u8]) -> Attribute {
    Attribute { data_type: data_type.to_owned(), value: AttributeValue::Binary(bytes.to_vec()) }
}

/// Returns the body of a re-sent envelope, which contains the message's state.
pub fn resent_body(resend: Resend) -> String {
    match resend.rewritten {
        RewrittenPart::Body(body) => body,
        RewrittenPart::Attributes(attributes) => panic!("a plain message: {attributes:?}"),
    }
}

/// Returns a message with this body after its failure, and after a hop if `due_at` is set.
pub fn failed_message(body: &str, hand_off: &HandOff, due_at: Option<Timestamp>) -> FailedMessage {
    let arrival = Arrival::from_record(nth_record(1, body), start_time());
    let accepted = arrival.accept(&MessageSchema::default(), Some(&hand_off.delivery)).unwrap();
    let (hand_off, stage) = (hand_off.clone(), Stage::FailedMessageProcessor);
    FailedMessage { accepted, hand_off, due_at, stage, error_type: None, span: None }
}

/// Returns a body of this size with the `n`-th message id.
pub fn body_of_size(n: usize, bytes: usize) -> String {
    let empty = format!(r#"{{"metadata":{{"message_id":"{}"}},"data":{{"x":""}}}}"#, nth_id(n));
    let filled = empty.replace(r#""x":"""#, &format!(r#""x":"{}""#, "x".repeat(bytes - empty.len())));
    assert_eq!(filled.len(), bytes);
    filled
}

/// An SQS service in virtual time, and an observer.
pub struct FunctionWorld {
    pub clock: VirtualClock,
    pub sqs: EmbeddedSqs,
    pub seen: EventRecorder,
}

impl Default for FunctionWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl FunctionWorld {
    pub fn new() -> Self {
        let clock = VirtualClock::new(start_time());
        let sqs = EmbeddedSqs::new(clock.clone(), 1);
        let seen = EventRecorder {
            clock: clock.clone(),
            events: Arc::default(),
            flushed: Arc::default(),
            tracer: None,
            log_location: LogLocation::default(),
        };
        Self { clock, sqs, seen }
    }

    pub fn add_queue(&self, name: &str) -> SpyQueue {
        self.add_queue_with_settings(name, &QueueSettings::default())
    }

    pub fn add_queue_with_settings(&self, name: &str, settings: &QueueSettings) -> SpyQueue {
        let queue = self.clock.block_on(self.sqs.create_queue(name, settings)).unwrap();
        let pauses = (Duration::ZERO, Duration::ZERO);
        SpyQueue { queue, clock: self.clock.clone(), pauses, sent: Arc::default() }
    }

    /// Injects faults into the sends to one queue.
    pub fn fail_sends(&self, queue: &SpyQueue, scope: FaultScope, when: FaultTrigger, injection: Injection) {
        let queue = Some(queue.queue.arn().to_owned());
        let rule = FaultRule { action: SqsAction::SendMessageBatch, queue, scope, when, injection };
        self.sqs.set_faults(FaultPlan::new(1).with_rule(rule));
    }

    /// Invokes a function with one batch and a deadline this far ahead. Returns the ids of the records that it reports
    /// as failed. Asserts that all events are flushed at the end: an environment that is then frozen may never write
    /// the rest.
    pub fn invoke_function(
        &self,
        function: &impl Function,
        records: Vec<ReceivedMessage>,
        time: Duration,
    ) -> Vec<String> {
        let deadline = self.clock.now() + time;
        let failed = self.clock.block_on(function.batch_item_failures(records, deadline));
        assert_eq!(self.seen.unflushed_count(), 0, "some events were not flushed");
        failed
    }

    /// Returns the whole seconds that have passed since the start.
    pub fn elapsed_seconds(&self) -> i64 {
        (self.clock.now() - start_time()).num_seconds()
    }
}

/// An observer that records events and their times.
#[derive(Clone)]
pub struct EventRecorder {
    clock: VirtualClock,
    events: Arc<Mutex<Vec<(Timestamp, Event)>>>,
    /// Number of events at the last flush.
    flushed: Arc<AtomicUsize>,
    /// The tracer, if spans are recorded.
    pub tracer: Option<Arc<Tracer>>,
    /// The location of the invocation's log lines.
    pub log_location: LogLocation,
}

impl Observer for EventRecorder {
    fn observe(&self, event: &Event) {
        self.events.lock().unwrap().push((self.clock.now(), event.clone()));
    }

    fn flush(&self) {
        self.flushed.store(self.events.lock().unwrap().len(), Ordering::Relaxed);
    }

    fn tracer(&self) -> Option<&Tracer> {
        self.tracer.as_deref()
    }

    fn log_location(&self) -> LogLocation {
        self.log_location.clone()
    }
}

impl EventRecorder {
    /// Records spans from now on; `continues` is `TRACE_CONTINUE`.
    pub fn enable_tracing(&mut self, continues: bool) {
        self.tracer = Some(Arc::new(Tracer::new(|| [7; 32], continues)));
    }

    /// Takes the spans that ended since the last call.
    pub fn take_spans(&self) -> Vec<Span<'static>> {
        self.tracer.as_ref().map(|tracer| tracer.take_ended().spans).unwrap_or_default()
    }

    pub fn events(&self) -> Vec<Event> {
        self.timed_events().into_iter().map(|(_, event)| event).collect()
    }

    /// Returns the number of unflushed events.
    pub fn unflushed_count(&self) -> usize {
        self.events.lock().unwrap().len() - self.flushed.load(Ordering::Relaxed)
    }

    pub fn timed_events(&self) -> Vec<(Timestamp, Event)> {
        self.events.lock().unwrap().clone()
    }
}

/// A queue that records its sends, with optional pauses before and after each send.
#[derive(Clone)]
pub struct SpyQueue {
    pub queue: EmbeddedQueue,
    pub pauses: (Duration, Duration),
    clock: VirtualClock,
    sent: Arc<Mutex<Vec<Content>>>,
}

impl QueueSender for SpyQueue {
    async fn send_batch(&self, batch: Batch<'_>) -> Vec<EntryOutcome<String>> {
        let (before, after) = self.pauses;
        self.clock.sleep(before).await;
        self.sent.lock().unwrap().extend(batch.entries().iter().map(|entry| entry.content().clone()));
        let outcomes = self.queue.send_batch(batch).await;
        self.clock.sleep(after).await;
        outcomes
    }
}

impl QueueDepth for SpyQueue {
    async fn depth(&self) -> Result<Depth, EntryError> {
        self.queue.depth().await
    }
}

impl VisibilityControl for SpyQueue {
    async fn change_visibility_batch(
        &self,
        entries: &[(String, VisibilitySeconds)],
    ) -> Vec<EntryOutcome<()>> {
        self.queue.change_visibility_batch(entries).await
    }
}

impl SpyQueue {
    pub fn with_pauses(self, before: Duration, after: Duration) -> Self {
        Self { pauses: (before, after), ..self }
    }

    /// Returns the contents of all entries in all requests, regardless of their outcomes.
    pub fn sent_contents(&self) -> Vec<Content> {
        self.sent.lock().unwrap().clone()
    }

    /// Returns the content of the only message that was sent to the queue.
    pub fn only_sent_content(&self) -> Content {
        let sent = self.sent_contents();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.into_iter().next().unwrap()
    }

    /// Receives all visible messages, ordered by body.
    pub fn receive_all(&self) -> Vec<ReceivedMessage> {
        let request = ReceiveOptions { max_messages: 10, wait: Duration::ZERO, visibility: None };
        let mut all: Vec<ReceivedMessage> = Vec::new();
        loop {
            let received = self.clock.block_on(self.queue.receive(request)).unwrap();
            if received.is_empty() {
                all.sort_by(|left, right| left.body.cmp(&right.body));
                return all;
            }
            all.extend(received);
        }
    }
}

/// Sends one message as a producer does, and receives it as an event source mapping does.
pub fn send_and_receive(queue: &SpyQueue, content: Content) -> ReceivedMessage {
    let message = redeliver_core::message::OutgoingMessage::new(content).unwrap();
    let batch = redeliver_core::message::packing::pack_batches(std::slice::from_ref(&message));
    assert!(queue.clock.block_on(queue.queue.send_batch(batch[0])).iter().all(Result::is_ok));
    queue.receive_all().pop().unwrap()
}

/// Returns the JSON document in an attribute, validated against its schema.
pub fn attribute_document(attributes: &Attributes, name: &str) -> Value {
    let text = attributes
        .get(name)
        .and_then(Attribute::text)
        .unwrap_or_else(|| panic!("no {name} in {attributes:?}"));
    let instance: Value = serde_json::from_str(text).unwrap();
    let (schema, checked) = match name {
        "Failure" => (FAILURE_SCHEMA, instance.clone()),
        // The attribute has the content of an envelope's `metadata`.
        "Redeliver" => (MESSAGE_SCHEMA, json!({ "metadata": instance, "data": {} })),
        _ => (DEAD_LETTER_SCHEMA, instance.clone()),
    };
    let failure: Value = serde_json::from_str(FAILURE_SCHEMA).unwrap();
    let registry =
        jsonschema::Registry::new().add("urn:redeliver:schema:failure", failure).unwrap().prepare().unwrap();
    let validator = jsonschema::draft202012::options()
        .should_validate_formats(true)
        .with_registry(&registry)
        .build(&serde_json::from_str(schema).unwrap())
        .unwrap();
    let violations: Vec<_> = validator.iter_errors(&checked).map(|error| error.to_string()).collect();
    assert_eq!(violations, [""; 0], "{instance}");
    instance
}

/// Returns the attributes except for redeliver's own.
pub fn strip_own_attributes(attributes: &Attributes) -> Attributes {
    let ours = ["Failure", "ErrorType", "ErrorDetails", "DeadLetter"];
    attributes
        .iter()
        .filter(|(name, _)| !ours.contains(&name.as_str()))
        .map(|(name, attribute)| (name.clone(), attribute.clone()))
        .collect()
}

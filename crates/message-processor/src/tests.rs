mod breaker;
mod came_back;
mod deadline;
mod direct;
mod events;
mod failing_sends;
mod immediate;
mod invalid;
mod on_aws;
mod ordered;
mod outcomes;
mod plain;
mod reserved;
mod spans;
mod visibility;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt as _};
use redeliver_core::arrival::split_producer_attributes;
use redeliver_core::decide::QueueTimes;
use redeliver_core::events::Event;
use redeliver_core::handler::{HandlerError, Invocation};
use redeliver_core::limits::{DelaySeconds, VisibilitySeconds};
use redeliver_core::message::{Attributes, Content};
use redeliver_core::policy::OnGiveUp;
use redeliver_core::strategy::{MissingSetting, Role, Strategy, Wiring};
use redeliver_core::trace::{CallSpan, TraceContext};
use redeliver_embedded::VirtualClock;

use super::*;
use redeliver_testing::functions::*;

/// The role that re-sends messages.
const RESENDER: &str = "AROAREDELIVER00000000";

/// A message-processor with its queues.
struct Setup {
    world: FunctionWorld,
    intermediate: SpyQueue,
    annotation: SpyQueue,
    source: SpyQueue,
    blocked: SpyQueue,
    strategy: Strategy,
    /// The maximum size of a batch from an ordered queue.
    batch_size: u16,
    policy: Policy,
    /// The breaker of one environment, kept across batches.
    breaker: OnceCell<SharedBreaker>,
    handler: ScriptedHandler,
    max_concurrency: usize,
    schema: MessageSchema,
}

impl Setup {
    fn new() -> Self {
        let world = FunctionWorld::new();
        let handler = ScriptedHandler {
            clock: world.clock.clone(),
            steps: BTreeMap::new(),
            function: None,
            has_request_ids: false,
            calls: Arc::default(),
            traces: Arc::default(),
            span: CallSpan::default(),
        };
        Self {
            intermediate: world.add_queue("intermediate"),
            annotation: world.add_queue("annotation"),
            source: world.add_queue("source"),
            blocked: world.add_queue("blocked"),
            strategy: Strategy::DelayedResend,
            batch_size: 10,
            policy: Policy::default(),
            breaker: OnceCell::new(),
            handler,
            max_concurrency: 10,
            schema: MessageSchema::default(),
            world,
        }
    }

    fn with_policy(policy: &str) -> Self {
        Self { policy: Policy::from_json(policy).unwrap(), ..Self::new() }
    }

    /// Scripts the behavior for the n-th message. Messages without a script succeed.
    fn on(mut self, n: usize, step: Step) -> Self {
        self.handler.steps.insert(nth_id(n), step);
        self
    }

    fn failing(self, n: usize, error: HandlerError) -> Self {
        self.on(n, Step::Fail(error))
    }

    fn processor(&self) -> MessageProcessor<ScriptedHandler, SpyQueue, VirtualClock, EventRecorder> {
        MessageProcessor {
            handler: self.handler.clone(),
            on_failure: OnFailure::from_wiring(self.strategy, self)
                .expect("every strategy has a message-processor"),
            breaker: self.breaker.get_or_init(|| SharedBreaker::from_policy(&self.policy)).clone(),
            policy: self.policy.clone(),
            annotation_queue: self.annotation.clone(),
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
            schema: self.schema.clone(),
            resenders: Resenders::parse(RESENDER).unwrap(),
            max_concurrency: NonZeroUsize::new(self.max_concurrency).unwrap(),
        }
    }

    /// Processes a batch with `seconds` until the deadline. Returns the ids of the records reported as failed.
    fn process(&self, records: Vec<ReceivedMessage>, seconds: u64) -> Vec<String> {
        self.world.invoke_function(&self.processor(), records, Duration::from_secs(seconds))
    }

    fn sleep(&self, seconds: u64) {
        self.world.clock.block_on(self.world.clock.sleep(Duration::from_secs(seconds)));
    }
}

impl Wiring for &Setup {
    type Queue = SpyQueue;

    fn queue(&mut self, role: Role) -> Option<SpyQueue> {
        match role {
            Role::Source => Some(self.source.clone()),
            Role::IntermediateDlq => Some(self.intermediate.clone()),
            _ => None,
        }
    }

    fn queue_times(&mut self) -> Option<QueueTimes> {
        let visibility_timeout = VisibilitySeconds::new(180).unwrap();
        Some(QueueTimes { visibility_timeout, retention: Duration::from_secs(7 * 24 * 3600) })
    }

    fn batch_size(&mut self) -> Option<u16> {
        Some(self.batch_size)
    }

    fn blocked_queue(&mut self, _batch_size: Option<u16>) -> Result<Option<SpyQueue>, MissingSetting> {
        Ok((self.policy.on_give_up == OnGiveUp::Block).then(|| self.blocked.clone()))
    }
}

/// Returns the same record, sent by redeliver.
fn resent_record(record: ReceivedMessage) -> ReceivedMessage {
    ReceivedMessage { sender_id: Some(format!("{RESENDER}:failed-message-processor")), ..record }
}

/// Returns the same record, sent by a producer.
fn produced_record(record: ReceivedMessage) -> ReceivedMessage {
    ReceivedMessage { sender_id: Some("AROAPRODUCER000000000:web".to_owned()), ..record }
}

/// The handler's behavior for a message.
#[derive(Clone, Debug)]
enum Step {
    Fail(HandlerError),
    /// Fails this many times, then succeeds.
    Blip(usize),
    FailThenHang,
    FailThenNotStart,
    /// Fails twice. The second call does not reach the function.
    FailThenUnreached,
    /// Panics before it returns a future.
    PanicAtOnce,
    /// Panics in the future.
    PanicInside,
    Hang,
    /// Succeeds after this many seconds.
    Take(u64),
    /// Fails after this many seconds.
    FailLate(u64, HandlerError),
}

/// Text that must not appear in any event or attribute.
const CANARY: &str = "canary-4711";

/// A message as passed to the handler.
#[derive(Clone, Debug, PartialEq)]
struct SeenMessage {
    body: String,
    message_id: String,
    form: BodyForm,
    retry_attempt: u32,
    redrive_generation: u32,
    attributes: Attributes,
    idempotency_key: String,
}

impl From<&Message<'_>> for SeenMessage {
    fn from(message: &Message<'_>) -> Self {
        Self {
            body: message.body.to_owned(),
            message_id: message.message_id.to_owned(),
            form: message.form.clone(),
            retry_attempt: message.retry_attempt,
            redrive_generation: message.redrive_generation,
            attributes: message.attributes.clone(),
            idempotency_key: message.idempotency_key().to_owned(),
        }
    }
}

/// A handler scripted by message id. Messages without a script succeed.
#[derive(Clone)]
struct ScriptedHandler {
    clock: VirtualClock,
    steps: BTreeMap<String, Step>,
    function: Option<&'static str>,
    /// True if each call has its own request id, `call-1` and so on.
    has_request_ids: bool,
    calls: Arc<Mutex<Vec<SeenMessage>>>,
    /// The `traceparent` of each call.
    traces: Arc<Mutex<Vec<Option<String>>>>,
    span: CallSpan<'static>,
}

impl ScriptedHandler {
    fn calls(&self) -> Vec<SeenMessage> {
        self.calls.lock().unwrap().clone()
    }

    fn called_message_ids(&self) -> Vec<String> {
        self.calls().into_iter().map(|message| message.message_id).collect()
    }
}

impl Handler for ScriptedHandler {
    fn function_version(&self) -> Option<&str> {
        self.function
    }

    fn call_span(&self) -> CallSpan<'_> {
        self.span.clone()
    }

    fn invoke(&self, invocation: Invocation<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send {
        self.traces.lock().unwrap().push(invocation.trace.map(TraceContext::traceparent));
        let step = self.steps.get(invocation.message.message_id);
        let is_unreached = matches!(step, Some(Step::FailThenUnreached)) && !self.calls().is_empty();
        if self.has_request_ids && !is_unreached {
            let call = self.calls().len() + 1;
            invocation.logs.unwrap().set_request_id(Some(&format!("call-{call}")));
        }
        self.handle(invocation.message)
    }

    fn handle(&self, message: &Message<'_>) -> impl Future<Output = Result<(), HandlerError>> + Send {
        self.calls.lock().unwrap().push(SeenMessage::from(message));
        let step = self.steps.get(message.message_id).cloned();
        let answer: BoxFuture<'_, _> = match step {
            None => ready(Ok(())).boxed(),
            Some(Step::Fail(error)) => ready(Err(error)).boxed(),
            Some(Step::FailThenHang) if self.called_message_ids().len() > 1 => pending().boxed(),
            Some(Step::FailThenNotStart) if self.called_message_ids().len() > 1 => {
                ready(Err(HandlerError::not_started())).boxed()
            }
            Some(Step::FailThenHang | Step::FailThenNotStart | Step::FailThenUnreached) => {
                ready(Err(busy_error())).boxed()
            }
            Some(Step::Blip(times)) => {
                let calls = self.called_message_ids().iter().filter(|id| **id == message.message_id).count();
                ready(if calls <= times { Err(busy_error()) } else { Ok(()) }).boxed()
            }
            Some(Step::PanicAtOnce) => panic!("{CANARY}"),
            Some(Step::PanicInside) => async { panic!("{CANARY}") }.boxed(),
            Some(Step::Hang) => pending().boxed(),
            Some(Step::FailLate(seconds, error)) => {
                self.clock.sleep(Duration::from_secs(seconds)).map(|()| Err(error)).boxed()
            }
            Some(Step::Take(seconds)) => self.clock.sleep(Duration::from_secs(seconds)).map(Ok).boxed(),
        };
        answer
    }
}

fn busy_error() -> HandlerError {
    HandlerError::transient("Db.Busy", "come later")
}

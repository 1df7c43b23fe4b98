//! Lambda's asynchronous invocations: events are queued and executed at any time, possibly twice, and each failure is
//! sent to the retry queue. Lambda's faults end with all other faults.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::SecondsFormat;
use redeliver_core::message::packing::pack_batches;
use redeliver_core::message::{Content, OutgoingMessage};
use redeliver_core::ports::{AsyncInvokeError, AsyncInvoker, Clock as _, QueueSender as _};
use redeliver_embedded::EmbeddedQueue;

use crate::ledger::Actor;
use crate::messages::{Destiny, message_number};
use crate::policy::ERROR_TYPES;
use crate::probe::Probe;
use crate::world::SimulationWorld;

/// The only function that may be invoked.
pub const FUNCTION_ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders";

/// Events that Lambda has accepted but not yet executed.
#[derive(Default)]
pub struct EventQueue {
    waiting: Mutex<VecDeque<String>>,
    executed: AtomicU64,
}

impl EventQueue {
    /// Accepts an event.
    pub fn push_event(&self, payload: &str) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(payload.to_owned());
    }

    fn pop_event(&self) -> Option<String> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Lambda as called by the async-retry-handler.
#[derive(Clone, Copy)]
pub struct SimulatedLambda<'a> {
    pub world: &'a SimulationWorld,
    pub events: &'a EventQueue,
}

impl AsyncInvoker for SimulatedLambda<'_> {
    async fn invoke_async(&self, function_arn: &str, payload: &str) -> Result<(), AsyncInvokeError> {
        let Self { world, events } = *self;
        let not_now = |code: &str| Err(AsyncInvokeError::NotNow { code: code.to_owned() });
        world.cross_network().await;
        let sqs = &world.knobs.sqs;
        if world.fault_strikes(sqs.send_throttled) {
            return not_now("TooManyRequestsException");
        }
        if world.fault_strikes(sqs.send_lost) {
            return not_now("NoAnswer");
        }
        world.lock_ledger().record_repeated_invocation(function_arn, payload, world.clock.now());
        events.push_event(payload);
        world.cross_network().await;
        let silenced = if world.is_silent() { world.silent_fault().await } else { None };
        if silenced.is_some() || world.fault_strikes(sqs.send_answer_lost) {
            not_now("NoAnswer")
        } else {
            Ok(())
        }
    }
}

/// Executes events until the end of the run.
pub async fn execute_events(world: &SimulationWorld, events: &EventQueue, retry_queue: &EmbeddedQueue) {
    let probe = Probe { world, queue: retry_queue, actor: Actor::Lambda };
    while !world.has_ended() {
        let Some(payload) = events.pop_event() else {
            world.clock.sleep(Duration::from_millis(500)).await;
            continue;
        };
        if world.fault_strikes(world.knobs.process.duplicate) {
            let n = message_number(&payload).unwrap_or(usize::MAX);
            world.lock_ledger().record_queued_event(n);
            events.push_event(&payload);
        }
        let most = 1000 * world.knobs.invocation_seconds;
        world.clock.sleep(Duration::from_millis(world.draw_up_to(most))).await;
        let failed = failure_type(world, &payload);
        if let Some(error_type) = failed {
            let request = events.executed.fetch_add(1, Ordering::Relaxed);
            let record = failure_record(world, request, &payload, error_type);
            send_until_confirmed(world, &probe, record).await;
        }
        world.lock_ledger().record_execution(&payload, failed.is_none(), world.clock.now());
    }
}

/// Returns the error type if the function fails.
fn failure_type(world: &SimulationWorld, payload: &str) -> Option<&'static str> {
    let destiny = message_number(payload).and_then(|n| world.messages.get(n)).map(|message| message.destiny);
    let [unavailable, refused, busy, unknown, ..] = ERROR_TYPES;
    match destiny {
        Some(Destiny::AlwaysTransient | Destiny::AlwaysFaulty) => return Some(unavailable),
        Some(Destiny::AlwaysPermanent) => return Some(unknown),
        _ => {}
    }
    let target = &world.knobs.target;
    if world.fault_strikes(target.transient) {
        Some(if world.random_fraction() < 0.5 { busy } else { refused })
    } else if world.fault_strikes(target.panic) {
        // The process died without reporting an error.
        Some("")
    } else {
        None
    }
}

/// Builds the record that Lambda sends to the failure destination.
fn failure_record(world: &SimulationWorld, request: u64, payload: &str, error_type: &str) -> Content {
    let timestamp = world.clock.now().to_rfc3339_opts(SecondsFormat::Millis, true);
    let (seed, request) = (world.knobs.seed, request);
    let response = if error_type.is_empty() {
        String::new()
    } else {
        format!(
            r#","responsePayload":{{"errorMessage":"the simulated target says no: é","errorType":"{error_type}"}}"#
        )
    };
    let body = format!(
        r#"{{"version":"1.0","timestamp":"{timestamp}","requestContext":{{"requestId":"{:08x}-{:04x}-4000-8000-{request:012x}","functionArn":"{FUNCTION_ARN}:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":1}},"requestPayload":{payload},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}}{response}}}"#,
        seed & 0xffff_ffff,
        seed >> 32 & 0xffff,
    );
    Content { body, ..Content::default() }
}

async fn send_until_confirmed(world: &SimulationWorld, probe: &Probe<'_>, content: Content) {
    let message = OutgoingMessage::new(content).expect("a record of a small payload");
    for batch in pack_batches(std::slice::from_ref(&message)) {
        while !probe.send_batch(batch).await.iter().all(Result::is_ok) {
            world.clock.sleep(Duration::from_millis(100)).await;
        }
    }
}

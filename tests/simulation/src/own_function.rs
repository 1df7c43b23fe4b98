//! A user's own function as the target: the product's protocol with a simulated runtime instead of a process. The
//! runtime parses each event with its own parser and responds as Lambda's runtimes do.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redeliver_aws::targets::{
    FunctionInvocation, FunctionResponse, FunctionRuntime, HandlerEvent, OwnFunction,
};
use redeliver_core::handler::{BodyForm, Handler as _, HandlerError, Invocation};
use redeliver_core::message::{Attribute, AttributeValue, Attributes};
use redeliver_core::ports::Clock as _;
use serde_json::{Value, json};

use crate::ledger::{BrokenInvariant, CallId};
use crate::target::{Act, DETAILS, SimulatedCall};
use crate::world::SimulationWorld;

/// The simulated runtime of one process.
pub struct SimulatedRuntime<'a> {
    world: &'a SimulationWorld,
    handler_event: HandlerEvent,
    calls: Mutex<Calls>,
}

/// The running calls, in the order in which they started.
#[derive(Default)]
struct Calls {
    running: Vec<RunningCall>,
    /// True once a call has been cut off. This aborts the calls that were waiting for the same invocation.
    has_cut_off: bool,
}

struct RunningCall {
    id: CallId,
    record: HandlerRecord,
    act: Act,
    /// True once an event has contained the record.
    has_started: bool,
    answer: Option<RecordResult>,
}

/// The handler's view of a record.
#[derive(Clone, Debug, PartialEq)]
struct HandlerRecord {
    sqs_message_id: String,
    body: String,
    attributes: Attributes,
    receive_count: Option<u32>,
    message_group_id: Option<String>,
}

/// A record in an event, with the handler's action.
struct EventRecord {
    call: CallId,
    record: HandlerRecord,
    act: Act,
}

/// The handler's result for a record.
#[derive(Clone)]
enum RecordResult {
    /// Success, with the body that the handler received.
    Done(String),
    Failed(FunctionFailure),
}

/// The arguments of [`crate::ledger::Ledger::record_failure`].
#[derive(Clone, Copy)]
struct FunctionFailure {
    kind: &'static str,
    error_type: &'static str,
    after: Option<u64>,
    unavailable: bool,
}

impl FunctionFailure {
    fn transient(error_type: &'static str) -> Self {
        Self { kind: "transient", error_type, after: None, unavailable: false }
    }
}

/// A guard for a running call. If it is dropped before the call ends, the call was cut off.
struct CallGuard<'a> {
    runtime: &'a SimulatedRuntime<'a>,
    call: CallId,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if self.runtime.end_call(self.call).is_some() {
            self.runtime.lock_calls().has_cut_off = true;
        }
    }
}

impl<'a> SimulatedRuntime<'a> {
    /// Creates a runtime that has no calls yet.
    #[must_use]
    pub fn new(world: &'a SimulationWorld, handler_event: HandlerEvent) -> Self {
        Self { world, handler_event, calls: Mutex::default() }
    }

    fn lock_calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_call(&self, call: CallId) -> Option<RunningCall> {
        let mut calls = self.lock_calls();
        let index = calls.running.iter().position(|one| one.id == call)?;
        Some(calls.running.remove(index))
    }
}

/// Calls the function for a message, and reports the handler's own result to the ledger instead of the product's
/// interpretation.
pub(crate) async fn call_function(
    function: &OwnFunction<SimulatedRuntime<'_>>,
    invocation: Invocation<'_>,
    mut calling: SimulatedCall<'_>,
    act: Act,
) -> Result<(), HandlerError> {
    let runtime = &function.runtime;
    let SimulatedRuntime { world, .. } = *runtime;
    let call = calling.call;
    let record = HandlerRecord::from_invocation(&invocation);
    runtime.lock_calls().running.push(RunningCall {
        id: call,
        record,
        act,
        has_started: false,
        answer: None,
    });
    let guard = CallGuard { runtime, call };
    let outcome = function.invoke(invocation).await;
    let answer = runtime.end_call(call).and_then(|call| call.answer);
    drop(guard);
    // All calls in an invocation return at the same time. The delay shows the ledger which result reached the circuit
    // breaker first.
    world.take_a_moment().await;
    match answer {
        Some(RecordResult::Done(body)) => {
            world.lock_ledger().record_processed(call, &body, world.clock.now())
        }
        Some(RecordResult::Failed(FunctionFailure { kind, error_type, after, unavailable })) => {
            world.lock_ledger().record_failure(call, kind, error_type, after, unavailable);
        }
        // Another call had made the invocation and was cut off.
        None if runtime.lock_calls().has_cut_off && is_timeout(&outcome) => {
            world.lock_ledger().record_failure(call, "transient", "Timeout", None, false);
        }
        None => world
            .lock_ledger()
            .report_violation(format!("a handler was never called, but reported: {outcome:?}")),
    }
    world.cross_network().await;
    calling.record_return();
    outcome
}

fn is_timeout(outcome: &Result<(), HandlerError>) -> bool {
    outcome.as_ref().is_err_and(|error| error.error_type.name() == "Timeout")
}

impl FunctionRuntime for SimulatedRuntime<'_> {
    async fn run_handler(&self, event: FunctionInvocation<'_>) -> Result<FunctionResponse, HandlerError> {
        let Self { world, .. } = *self;
        let records = match self.match_records(&event) {
            Ok(records) => records,
            Err(why) => {
                world.lock_ledger().report_violation(format!("an event of a handler: {why}: {}", event.json));
                return pending().await;
            }
        };
        world.take_a_moment().await;
        world.delay_slow_call().await;
        if records.iter().any(|given| given.act == Act::Hang) {
            return pending().await;
        }
        if records.iter().any(|given| given.act == Act::Panic) {
            self.record_shared_failure(&records, FunctionFailure::transient("Runtime.Exited"));
            return Err(HandlerError::transient("Runtime.Exited", DETAILS));
        }
        Ok(self.random_response(&records))
    }
}

/// Reads events.
impl SimulatedRuntime<'_> {
    /// Matches the records in an event with the calls that have just started, in order.
    fn match_records(&self, event: &FunctionInvocation<'_>) -> Result<Vec<EventRecord>, BrokenInvariant> {
        let records = parse_records(&event.json).ok_or("it cannot be read")?;
        let is_one = self.handler_event == HandlerEvent::Record;
        if records.is_empty() || (is_one && records.len() > 1) {
            return Err(format!("it has {} records", records.len()));
        }
        let mut calls = self.lock_calls();
        let mut waiting = calls.running.iter_mut().filter(|call| !call.has_started);
        let mut given = Vec::with_capacity(records.len());
        for record in records {
            let call = waiting.by_ref().find(|call| call.record.sqs_message_id == record.sqs_message_id);
            let call =
                call.ok_or_else(|| format!("no call is running for {record:?}, or not in this order"))?;
            if record != call.record {
                return Err(format!("the record is not {:?}", call.record));
            }
            call.has_started = true;
            given.push(EventRecord { call: call.id, record, act: call.act });
        }
        Ok(given)
    }

    fn record_shared_failure(&self, records: &[EventRecord], failure: FunctionFailure) {
        self.record_results(records, |_| RecordResult::Failed(failure));
    }

    fn record_results(&self, records: &[EventRecord], answer: impl Fn(&EventRecord) -> RecordResult) {
        let mut calls = self.lock_calls();
        for given in records {
            // The call might have been cut off in the meantime.
            if let Some(call) = calls.running.iter_mut().find(|call| call.id == given.call) {
                call.answer = Some(answer(given));
            }
        }
    }
}

impl HandlerRecord {
    fn from_invocation(Invocation { message, record, .. }: &Invocation<'_>) -> Self {
        let mut attributes = message.attributes.clone();
        // A plain message keeps `Redeliver`: its handler reads the attempt from it.
        if let (BodyForm::Plain { .. }, Some(own)) = (&message.form, record.attributes.get("Redeliver")) {
            attributes.insert("Redeliver".to_owned(), own.clone());
        }
        Self {
            sqs_message_id: record.sqs_message_id.clone(),
            body: message.body.to_owned(),
            attributes,
            receive_count: Some(record.receive_count),
            message_group_id: record.message_group_id.clone(),
        }
    }

    fn parse(record: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let attribute = |(name, attribute_json): (&String, &Value)| {
            let value = match (attribute_json["stringValue"].as_str(), attribute_json["binaryValue"].as_str())
            {
                (Some(text), None) => AttributeValue::Text(text.to_owned()),
                (None, Some(base64)) => AttributeValue::Binary(STANDARD.decode(base64).ok()?),
                _ => return None,
            };
            Some((name.clone(), Attribute { data_type: text(&attribute_json["dataType"])?, value }))
        };
        let attributes = record["messageAttributes"].as_object()?.iter().map(attribute);
        let system = &record["attributes"];
        Some(Self {
            sqs_message_id: text(&record["messageId"])?,
            body: text(&record["body"])?,
            attributes: attributes.collect::<Option<_>>()?,
            receive_count: system["ApproximateReceiveCount"].as_str()?.parse().ok(),
            message_group_id: text(&system["MessageGroupId"]),
        })
    }
}

fn parse_records(event: &str) -> Option<Vec<HandlerRecord>> {
    let event: Value = serde_json::from_str(event).ok()?;
    event["Records"].as_array()?.iter().map(HandlerRecord::parse).collect()
}

/// Writes responses.
impl SimulatedRuntime<'_> {
    fn random_response(&self, records: &[EventRecord]) -> FunctionResponse {
        let Self { world, .. } = *self;
        let target = &world.knobs.target;
        if world.fault_strikes(target.unclear) {
            return self.invalid_response(records);
        }
        let failing = records.iter().find(|given| given.act != Act::Succeed);
        let Some(failing) = failing else {
            self.record_results(records, |given| RecordResult::Done(given.record.body.clone()));
            return self.success_response();
        };
        // One response for all records: their common result, or the result of the first failure.
        let all_fail_so = records.iter().all(|given| given.act == failing.act);
        let is_list = records.len() > 1 || world.random_fraction() < 0.3;
        let is_in_list = is_list && matches!(failing.act, Act::Fail("transient", _, None));
        if (all_fail_so && !is_in_list) || world.fault_strikes(target.throws) {
            let (answer, failure) = self.error_response(failing.act);
            self.record_shared_failure(records, failure);
            return answer;
        }
        self.failure_list(records)
    }

    /// Returns a response that reports no failure, which counts as a success.
    fn success_response(&self) -> FunctionResponse {
        self.pick_response(&[
            "null",
            "{}",
            "",
            " \n",
            r#""done""#,
            "17",
            r#"[{"itemIdentifier":"nobody"}]"#,
            r#"{"batchItemFailures":[]}"#,
            r#"{"batchItemFailures":null,"redeliver":null}"#,
            r#"{"statusCode":500,"body":"{}"}"#,
        ])
    }

    /// Returns a response that cannot be interpreted, so that all records have failed.
    fn invalid_response(&self, records: &[EventRecord]) -> FunctionResponse {
        if self.world.random_fraction() < 0.1 {
            self.record_shared_failure(records, FunctionFailure::transient("Function.ResponseSizeTooLarge"));
            return FunctionResponse::TooLarge;
        }
        self.record_shared_failure(records, FunctionFailure::transient("Runtime.InvalidResponse"));
        let known = &records[0].record.sqs_message_id;
        let and_unknown =
            json!({"batchItemFailures": [{"itemIdentifier": known}, {"itemIdentifier": "nobody"}]});
        self.pick_response(&[
            "done",
            "{",
            r#"{"batchItemFailures":[]} {}"#,
            &and_unknown.to_string(),
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{}]}"#,
            r#"{"batchItemFailures":{}}"#,
            r#"{"batchItemFailures":[],"batchItemFailures":[]}"#,
            r#"{"redeliver":{}}"#,
            r#"{"redeliver":{"outcome":"success"}}"#,
            r#"{"redeliver":{"outcome":"snooze"}}"#,
            r#"{"redeliver":{"outcome":"transient","delay_seconds":4294967296}}"#,
            r#"{"redeliver":{"outcome":"transient","delay_seconds":-1}}"#,
        ])
    }

    /// Returns a response that reports all records as failed with this error.
    fn error_response(&self, act: Act) -> (FunctionResponse, FunctionFailure) {
        let Self { world, .. } = *self;
        let (outcome, error_type, after) = match act {
            Act::Fail(kind, error_type, after) => (kind, error_type, after),
            Act::Unavailable(error_type) => ("unavailable", error_type, None),
            Act::Succeed | Act::Panic | Act::Hang => unreachable!("not a failure of a handler's own"),
        };
        let after = after.map(|seconds| seconds.min(u32::MAX.into()));
        let unavailable = outcome == "unavailable";
        let kind = if unavailable { "transient" } else { outcome };
        let is_named = world.random_fraction() < 0.7;
        if (outcome, after) == ("transient", None) && world.random_fraction() < 0.5 {
            let mut thrown = json!({"errorMessage": DETAILS, "stackTrace": ["at pay (orders.js:1)"]});
            if is_named {
                thrown["errorType"] = error_type.into();
            }
            let error_type = if is_named { error_type } else { "Runtime.UnknownReason" };
            return (
                FunctionResponse::Error(thrown.to_string().into()),
                FunctionFailure::transient(error_type),
            );
        }
        let mut words = json!({"outcome": outcome, "details": DETAILS});
        if let Some(seconds) = after {
            words["delay_seconds"] = seconds.into();
        }
        if is_named {
            words["type"] = error_type.into();
        }
        let without_name = match outcome {
            "permanent" => "Permanent",
            "snooze" => "Snooze",
            "unavailable" => "Unavailable",
            _ => "Transient",
        };
        let error_type = if is_named { error_type } else { without_name };
        // Other members belong to the handler.
        let answer = render_response(&json!({"redeliver": words, "statusCode": 200}));
        (answer, FunctionFailure { kind, error_type, after, unavailable })
    }

    /// Returns a `batchItemFailures` response that lists the failures in reverse order. If copies have the same
    /// identifier, the last entry counts for all of them.
    fn failure_list(&self, records: &[EventRecord]) -> FunctionResponse {
        let Self { world, .. } = *self;
        let mut list = Vec::new();
        let mut failures = HashMap::new();
        for EventRecord { record: HandlerRecord { sqs_message_id: id, .. }, act, .. } in records.iter().rev()
        {
            let (Act::Fail(_, error_type, _) | Act::Unavailable(error_type)) = *act else { continue };
            let (entry, error_type) = if world.random_fraction() < 0.5 {
                (json!({"itemIdentifier": id}), "BatchItemFailure")
            } else {
                let error = json!({"type": error_type, "details": DETAILS});
                (json!({"itemIdentifier": id, "error": error}), error_type)
            };
            list.push(entry);
            failures.insert(id.clone(), FunctionFailure::transient(error_type));
        }
        self.record_results(records, |EventRecord { record, .. }| {
            match failures.get(&record.sqs_message_id) {
                Some(failure) => RecordResult::Failed(*failure),
                None => RecordResult::Done(record.body.clone()),
            }
        });
        render_response(&json!({ "batchItemFailures": list }))
    }

    fn pick_response(&self, answers: &[&str]) -> FunctionResponse {
        let index = usize::try_from(self.world.draw_up_to(answers.len() as u64 - 1)).unwrap_or(0);
        FunctionResponse::Response(answers[index].to_owned().into())
    }
}

fn render_response(answer: &Value) -> FunctionResponse {
    FunctionResponse::Response(answer.to_string().into())
}

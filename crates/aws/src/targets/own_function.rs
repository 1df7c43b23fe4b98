//! The user's own function, in any language, as the target: its runtime is a child process that uses our Runtime API.
//!
//! ```text
//!    Lambda's Runtime API
//!       ▲  next, response: the batch
//!       │  forwarded: the first init error, extensions, telemetry
//!    /opt/redeliver, the message-processor ──► SQS: hand-offs, re-sends, verdicts
//!    the function's Runtime API, on a port of 127.0.0.1
//!       ▲  next, response, error: one invocation of the handler
//!       │
//!    the runtime (python3 …, node …, java …): a child process in its own process group
//! ```
//!
//! If the deadline cuts off a call, its process and that process's Runtime API are stopped, and the next call starts
//! new ones. A process that is still starting is kept running. If the first start fails, Lambda receives the runtime's
//! init error, and the message-processor exits with the runtime's exit code. If a later start fails, its messages fail
//! as `unavailable`.
//!
//! Other data from Lambda (the function's ARN, the trace, events from other services, the end of a SnapStart restore)
//! is received through [`Guest`].

mod answer;
mod event;
mod exception;
mod process;
mod processes;
mod runtime_api;
mod taken_as_success;

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use redeliver_core::events::Event as DomainEvent;
use redeliver_core::handler::{CallLogs, FailureKind, Handler, HandlerError, Invocation, Message};
use redeliver_core::lock;
use redeliver_core::message::Timestamp;
use redeliver_core::ports::Observer;
use redeliver_core::yield_now;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use uuid::Uuid;

pub use answer::FunctionResponse;
use answer::{outcomes_per_record, return_value, single_outcome};
pub use process::{OutputReader, RuntimeCommand};
pub use processes::{FunctionExit, Processes};
use taken_as_success::shape_taken_as_success;

use super::invoke::client_context;
use crate::lambda::{Context, Diagnostic, Guest};
use crate::settings::function_version;

/// `HANDLER_EVENT`: the kind of event passed to the handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandlerEvent {
    /// An SQS event with one record.
    #[default]
    Record,
    /// An SQS event with all due records of the batch.
    Batch,
}

impl FromStr for HandlerEvent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "record" => Ok(Self::Record),
            "batch" => Ok(Self::Batch),
            _ => Err("must be record or batch"),
        }
    }
}

impl HandlerEvent {
    /// Returns the maximum number of concurrent calls: one if each record has its own invocation, and unlimited if all
    /// records share one.
    #[must_use]
    pub const fn max_concurrency(self) -> NonZeroUsize {
        match self {
            Self::Record => NonZeroUsize::MIN,
            Self::Batch => NonZeroUsize::MAX,
        }
    }
}

/// The user's function. Its handler receives an SQS event with one message or a batch, and its response determines the
/// outcome of each message.
pub struct OwnFunction<R = Processes> {
    /// The runtime that runs the function's code.
    pub runtime: R,
    handler_event: HandlerEvent,
    function: Option<String>,
    /// `:ACCOUNT:NAME`, the end of the source queue's ARN; `None` if unknown.
    source_queue: Option<String>,
    /// Records whose calls started together and share an invocation.
    together: Mutex<Vec<WaitingRecord>>,
    observer: Option<Arc<dyn Observer>>,
    /// The shapes of responses that look like failure reports but count as successes.
    shapes_taken_as_success: Mutex<BTreeSet<&'static str>>,
}

/// A runtime that runs the user's function, one invocation per call.
pub trait FunctionRuntime: Send + Sync {
    /// Calls the handler. Dropping the future ends the call.
    ///
    /// # Errors
    /// If the handler did not respond.
    fn run_handler(
        &self,
        event: FunctionInvocation<'_>,
    ) -> impl Future<Output = Result<FunctionResponse, HandlerError>> + Send;
}

/// One invocation of the user's function.
#[derive(Clone, Debug)]
pub struct FunctionInvocation<'a> {
    /// The event itself.
    pub json: String,
    /// The message's X-Ray header; `None` to use the Lambda invocation's header.
    pub trace_id: Option<&'a str>,
    /// The client context as JSON.
    pub client_context: Option<&'a str>,
    /// The request id in the handler's context.
    pub request_id: String,
    /// The deadline.
    pub end: Timestamp,
}

impl FunctionInvocation<'_> {
    fn new(json: String, end: Timestamp) -> Self {
        let request_id = Uuid::new_v4().to_string();
        Self { json, trace_id: None, client_context: None, request_id, end }
    }
}

/// A record that waits for an invocation to start.
#[derive(Debug)]
struct WaitingRecord {
    /// The batch's deadline, which also identifies the batch.
    end: Timestamp,
    sqs_message_id: String,
    record: String,
    logs: Option<CallLogs>,
    answer: oneshot::Sender<Result<(), HandlerError>>,
}

/// A guard held by the first of several simultaneous calls while it waits for the others. Dropping it removes their
/// records, since no other call would start the invocation.
struct GatheringGuard<'a> {
    together: &'a Mutex<Vec<WaitingRecord>>,
    end: Timestamp,
}

impl GatheringGuard<'_> {
    fn take_records(&self) -> Vec<WaitingRecord> {
        let is_in_batch = |waiting: &mut WaitingRecord| waiting.end == self.end;
        lock(self.together)
            .extract_if(.., is_in_batch)
            .filter(|waiting| !waiting.answer.is_closed())
            .collect()
    }
}

impl Drop for GatheringGuard<'_> {
    fn drop(&mut self) {
        lock(self.together).retain(|waiting| waiting.end != self.end);
    }
}

impl<R: FunctionRuntime> OwnFunction<R> {
    /// Creates a function with this runtime. Its version is read from the environment.
    #[must_use]
    pub fn new(runtime: R, handler_event: HandlerEvent) -> Self {
        Self {
            runtime,
            handler_event,
            function: function_version(),
            source_queue: None,
            together: Mutex::default(),
            observer: None,
            shapes_taken_as_success: Mutex::default(),
        }
    }

    /// Sets the observer, which receives an event for each shape of response that looks like a failure report but
    /// counts as a success.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Returns the shapes of all responses so far that look like failure reports but count as successes.
    #[must_use]
    pub fn shapes_taken_as_success(&self) -> Vec<&'static str> {
        lock(&self.shapes_taken_as_success).iter().copied().collect()
    }

    /// Sets the URL of the source queue (`https://HOST/ACCOUNT/NAME`).
    #[must_use]
    pub fn with_source_queue(self, url: Option<&str>) -> Self {
        let end_of_arn = |url: &str| {
            let mut segments = url.rsplit('/');
            let (name, account) = (segments.next()?, segments.next()?);
            Some(format!(":{account}:{name}"))
        };
        Self { source_queue: url.and_then(end_of_arn), ..self }
    }

    /// Returns the maximum number of concurrent calls.
    #[must_use]
    pub const fn max_concurrency(&self) -> NonZeroUsize {
        self.handler_event.max_concurrency()
    }

    async fn call_with_record(&self, invocation: &Invocation<'_>) -> Result<(), HandlerError> {
        let client_context = client_context(invocation.message);
        let trace = invocation.trace_context().map(|trace| trace.xray_header_for_lambda(None));
        let event = FunctionInvocation {
            trace_id: trace.as_deref().or(invocation.record.trace_header.as_deref()),
            client_context: client_context.as_deref(),
            ..FunctionInvocation::new(
                event::encode_event([&*event::encode_record(invocation)]),
                invocation.end,
            )
        };
        let answer = self.call_runtime(event, invocation.logs).await?;
        let id = &*invocation.record.sqs_message_id;
        let outcome = single_outcome(&answer, id);
        if outcome.is_ok() {
            self.report_shape_taken_as_success(&answer, &[id]);
        }
        outcome
    }

    /// Reports, once per shape, a response that looks like a failure report but counts as a success for all records.
    fn report_shape_taken_as_success(&self, answer: &FunctionResponse, ids: &[&str]) {
        let FunctionResponse::Response(body) = answer else { return };
        let Some(shape) = shape_taken_as_success(body, ids) else { return };
        let is_new = lock(&self.shapes_taken_as_success).insert(shape);
        if let (true, Some(observer)) = (is_new, &self.observer) {
            observer.observe(&DomainEvent::AnswerTakenAsSuccess { shape });
        }
    }

    /// Combines simultaneous calls into one invocation, which the first call starts.
    async fn call_in_batch(&self, invocation: &Invocation<'_>) -> Result<(), HandlerError> {
        let (answer, answered) = oneshot::channel();
        let sqs_message_id = invocation.record.sqs_message_id.clone();
        let (record, end) = (event::encode_record(invocation), invocation.end);
        let logs = invocation.logs.cloned();
        let is_first = {
            let mut together = lock(&self.together);
            let is_first = !together.iter().any(|waiting| waiting.end == end);
            together.push(WaitingRecord { end, sqs_message_id, record, logs, answer });
            is_first
        };
        if is_first {
            let gathering = GatheringGuard { together: &self.together, end };
            // Lets the other calls add their records.
            yield_now().await;
            let records = gathering.take_records();
            drop(gathering);
            self.call_with_records(records, end).await;
        }
        let broken_off = || HandlerError::transient("Timeout", "the invocation was cut off");
        answered.await.unwrap_or_else(|_| Err(broken_off()))
    }

    /// Calls the handler, and records the call's request id in `logs`: the handler's log lines carry that id but are in
    /// our log stream.
    async fn call_runtime<'a>(
        &self,
        event: FunctionInvocation<'_>,
        logs: impl IntoIterator<Item = &'a CallLogs> + Clone,
    ) -> Result<FunctionResponse, HandlerError> {
        let set = |id: Option<&str>| logs.clone().into_iter().for_each(|logs| logs.set_request_id(id));
        set(Some(&event.request_id));
        let answer = self.runtime.run_handler(event).await;
        // The function did not start, so no log line has the id.
        if answer.as_ref().is_err_and(|error| matches!(error.kind, FailureKind::Unavailable(_))) {
            set(None);
        }
        answer
    }

    async fn call_with_records(&self, records: Vec<WaitingRecord>, end: Timestamp) {
        let event = event::encode_event(records.iter().map(|waiting| &*waiting.record));
        let ids: Vec<_> = records.iter().map(|waiting| &*waiting.sqs_message_id).collect();
        let logs = records.iter().filter_map(|waiting| waiting.logs.as_ref());
        let outcomes = match self.call_runtime(FunctionInvocation::new(event, end), logs).await {
            Ok(answer) => {
                let outcomes = outcomes_per_record(&answer, &ids);
                if outcomes.iter().all(Result::is_ok) {
                    self.report_shape_taken_as_success(&answer, &ids);
                }
                outcomes
            }
            Err(error) => ids.iter().map(|_| Err(error.clone())).collect(),
        };
        for (waiting, outcome) in records.into_iter().zip(outcomes) {
            // The receiver no longer exists if its call was dropped.
            let _ = waiting.answer.send(outcome);
        }
    }
}

impl<R: FunctionRuntime> Handler for OwnFunction<R> {
    fn function_version(&self) -> Option<&str> {
        self.function.as_deref()
    }

    /// Passes the body as the event, as in an asynchronous invocation.
    async fn handle(&self, message: &Message<'_>) -> Result<(), HandlerError> {
        let answer = self
            .runtime
            .run_handler(FunctionInvocation::new(message.body.to_owned(), Timestamp::MAX_UTC))
            .await?;
        single_outcome(&answer, "")
    }

    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), HandlerError> {
        match self.handler_event {
            HandlerEvent::Record => self.call_with_record(&invocation).await,
            HandlerEvent::Batch => self.call_in_batch(&invocation).await,
        }
    }
}

impl<R> fmt::Debug for OwnFunction<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnFunction").field("handler_event", &self.handler_event).finish_non_exhaustive()
    }
}

impl Guest for OwnFunction {
    fn begin_invocation(&self, function_arn: &str, trace_id: Option<&str>) {
        self.runtime.set_invocation(function_arn, trace_id);
    }

    fn is_own_queue(&self, queue_arn: &str) -> bool {
        self.source_queue.as_ref().is_none_or(|end| queue_arn.ends_with(end.as_str()))
    }

    async fn handle_other_event(
        &self,
        event: &str,
        context: &Context,
        end: Timestamp,
    ) -> Option<Result<Box<RawValue>, Diagnostic>> {
        let failed = |error: HandlerError| Diagnostic {
            error_type: error.error_type.name().into_owned(),
            error_message: error.details,
        };
        let client_context = context.client_context.as_ref();
        let client_context = client_context.and_then(|context| serde_json::to_string(context).ok());
        let event = FunctionInvocation {
            client_context: client_context.as_deref(),
            request_id: context.request_id.clone(),
            ..FunctionInvocation::new(event.to_owned(), end)
        };
        let answered = self.runtime.run_handler(event).await;
        Some(answered.and_then(return_value).map_err(failed))
    }

    async fn resume_after_restore(&self) {
        self.runtime.resume_after_restore().await;
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;

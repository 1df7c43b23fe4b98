//! Runs a function in Lambda: event → records → function → `batchItemFailures`.

mod event;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use chrono::DateTime;
use futures_util::FutureExt as _;
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{BoxFuture, Error, LambdaEvent, Runtime, SnapStartResource, service_fn};
pub use lambda_runtime::{Context, Diagnostic};
use redeliver_core::events::Event;
use redeliver_core::message::Timestamp;
use redeliver_core::polling::take_waiting_records;
use redeliver_core::ports::{Function, Observer, UnreadableMessage};
use serde::Serialize;
use serde_json::value::RawValue;

#[cfg(feature = "targets")]
pub(crate) use event::FromObject;
pub use event::{NotAnSqsEvent, Records, parse_records};

use crate::otlp::Exporter;

/// The user's own function in the same Lambda environment. It needs data from each invocation.
pub trait Guest: Send + Sync + 'static {
    /// Called at the start of each invocation with the function's ARN and the X-Ray trace header.
    fn begin_invocation(&self, function_arn: &str, trace_id: Option<&str>);
    /// True for the queue whose messages redeliver handles. The guest handles batches from other queues, as it would
    /// without redeliver.
    fn is_own_queue(&self, queue_arn: &str) -> bool;
    /// Handles an event that is not a batch from the source queue. `end` is the deadline. Returns `None` if the guest
    /// accepts no other events; the invocation then fails with `NotAnSqsEvent`.
    fn handle_other_event(
        &self,
        event: &str,
        context: &Context,
        end: Timestamp,
    ) -> impl Future<Output = Option<Result<Box<RawValue>, Diagnostic>>> + Send;
    /// Called after Lambda restores the snapshot.
    fn resume_after_restore(&self) -> impl Future<Output = ()> + Send;
}

/// The absence of a guest.
impl Guest for () {
    fn begin_invocation(&self, _: &str, _: Option<&str>) {}

    fn is_own_queue(&self, _: &str) -> bool {
        true
    }

    async fn handle_other_event(
        &self,
        _: &str,
        _: &Context,
        _: Timestamp,
    ) -> Option<Result<Box<RawValue>, Diagnostic>> {
        None
    }

    async fn resume_after_restore(&self) {}
}

/// Serves invocations until the process is stopped.
///
/// # Errors
/// If Lambda's Runtime API fails.
pub async fn run_function(
    function: impl Function,
    observer: impl Observer,
    exporter: Option<Exporter>,
    guest: Arc<impl Guest>,
) -> Result<(), Error> {
    struct Hooks<G>(Arc<G>);
    impl<G: Guest> SnapStartResource for Hooks<G> {
        fn after_restore(&self) -> BoxFuture<'_, Result<(), Error>> {
            Box::pin(async {
                self.0.resume_after_restore().await;
                Ok(())
            })
        }
    }
    let (function, observer, exporter) = (&function, &observer, exporter.as_ref());
    let hooks = Arc::new(Hooks(Arc::clone(&guest)));
    let service = service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let LambdaEvent { payload, context } = event;
        guest.begin_invocation(&context.invoked_function_arn, context.xray_trace_id.as_deref());
        let answer = handle_invocation(function, observer, &*guest, payload.get(), &context).await;
        if let Some((exporter, tracer)) = exporter.zip(function.tracer()) {
            exporter.export_spans(tracer, invocation_deadline(&context).unwrap_or_default()).await;
        }
        answer
    });
    Runtime::new(service).layer(TracingLayer::new()).register_snapstart_resource(hooks).run().await
}

/// Handles one invocation. `context.deadline` is in milliseconds since the epoch.
async fn handle_invocation(
    function: &impl Function,
    observer: &impl Observer,
    guest: &impl Guest,
    event: &str,
    context: &Context,
) -> Result<InvocationResponse, InvocationError> {
    let deadline = invocation_deadline(context)
        .ok_or_else(|| invocation_error("InvalidDeadline", "the invocation's deadline is not a time"))?;
    // An error fails the invocation, and SQS redelivers the whole batch.
    let is_own = |records: &Records| records.queue_arn.as_deref().is_none_or(|arn| guest.is_own_queue(arn));
    let Records { mut readable, unreadable, .. } = match parse_records(event) {
        Ok(records) if is_own(&records) => records,
        Ok(_) | Err(NotAnSqsEvent::NoRecords) => {
            let other = guest.handle_other_event(event, context, deadline).await;
            return match other {
                None => Err(event_error(&NotAnSqsEvent::NoRecords)),
                Some(answer) => answer.map(InvocationResponse::Guest).map_err(InvocationError::Guest),
            };
        }
        Err(error) => return Err(event_error(&error)),
    };
    for UnreadableMessage { sqs_message_id, .. } in &unreadable {
        let sqs_message_id = sqs_message_id.clone();
        observer.observe(&Event::UnreadableRecord { sqs_message_id });
    }
    let waiting = take_waiting_records(function, &mut readable, &unreadable);
    function.begin_invocation(&context.request_id);
    // The runtime also catches panics, but it logs the panic message, which may contain payload data.
    let processed = AssertUnwindSafe(function.batch_item_failures(readable, deadline)).catch_unwind().await;
    let panicked = |_| invocation_error("Panic", "the function panicked; SQS delivers the whole batch again");
    let failed = processed.map_err(panicked)?;
    let unreadable = unreadable.into_iter().map(|record| record.sqs_message_id);
    let waiting = waiting.into_iter().map(|record| record.sqs_message_id);
    Ok(InvocationResponse::Batch(BatchResponse::new(failed.into_iter().chain(unreadable).chain(waiting))))
}

fn invocation_deadline(context: &Context) -> Option<Timestamp> {
    DateTime::from_timestamp_millis(i64::try_from(context.deadline).unwrap_or(i64::MAX))
}

/// An error that fails an invocation.
enum InvocationError {
    Ours(Diagnostic),
    /// An error from the user's function. The function's own runtime logs it.
    Guest(Diagnostic),
}

fn event_error(error: &NotAnSqsEvent) -> InvocationError {
    let error_type = match error {
        NotAnSqsEvent::NoRecords => "NotAnSqsEvent",
        NotAnSqsEvent::NoMessageId(_) => "RecordWithoutMessageId",
    };
    invocation_error(error_type, error)
}

/// Creates an error with an explicit type; without it, Lambda would show the Rust type of the error.
fn invocation_error(error_type: &str, error: impl fmt::Display) -> InvocationError {
    InvocationError::Ours(Diagnostic { error_type: error_type.to_owned(), error_message: error.to_string() })
}

/// Formats the error for the runtime's log.
impl fmt::Debug for InvocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(diagnostic) => diagnostic.fmt(f),
            Self::Guest(_) => f.write_str("the function's own error"),
        }
    }
}

impl From<InvocationError> for Diagnostic {
    fn from(failed: InvocationError) -> Self {
        let (InvocationError::Ours(diagnostic) | InvocationError::Guest(diagnostic)) = failed;
        diagnostic
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum InvocationResponse {
    Batch(BatchResponse),
    Guest(Box<RawValue>),
}

/// A partial batch response ("Using Lambda with Amazon SQS: implementing partial batch responses").
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchResponse {
    batch_item_failures: Vec<BatchItemFailure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchItemFailure {
    item_identifier: String,
}

impl BatchResponse {
    /// Lists each failed record once.
    fn new(failed: impl Iterator<Item = String>) -> Self {
        let failed: BTreeSet<_> = failed.collect();
        let batch_item_failures =
            failed.into_iter().map(|item_identifier| BatchItemFailure { item_identifier }).collect();
        Self { batch_item_failures }
    }
}

#[cfg(test)]
mod tests;

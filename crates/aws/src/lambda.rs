//! A function in Lambda: event → records → function → `batchItemFailures`.

mod event;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;

use chrono::DateTime;
use futures_util::FutureExt as _;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use redeliver_core::events::Event;
use redeliver_core::ports::{Function, Observer};
use serde::Serialize;
use serde_json::value::RawValue;

pub use event::{NotAnSqsEvent, Records, records};

/// Serves invocations until the process is stopped.
///
/// # Errors
/// If Lambda's Runtime API fails.
pub async fn run_function(function: impl Function, observer: impl Observer) -> Result<(), Error> {
    let (function, observer) = (&function, &observer);
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        invoke(function, observer, event.payload.get(), event.context.deadline).await
    }))
    .await
}

/// One invocation. The deadline is in milliseconds since the epoch.
async fn invoke(
    function: &impl Function,
    observer: &impl Observer,
    event: &str,
    deadline: u64,
) -> Result<Response, Error> {
    // An error here fails the invocation, and SQS delivers all of the batch again: nothing of it is known to be done.
    let Records { readable, unreadable } = records(event)?;
    for sqs_message_id in &unreadable {
        let sqs_message_id = sqs_message_id.clone();
        observer.observe(&Event::UnreadableRecord { sqs_message_id });
    }
    let millis = i64::try_from(deadline).unwrap_or(i64::MAX);
    let deadline =
        DateTime::from_timestamp_millis(millis).ok_or("the invocation's deadline is not a time")?;
    // The runtime catches panics too, but it logs their text, which may hold payload.
    let processed = AssertUnwindSafe(function.process(readable, deadline)).catch_unwind().await;
    let failed = processed.map_err(|_| "the function panicked; SQS delivers the whole batch again")?.failed;
    Ok(Response::new(failed.into_iter().chain(unreadable)))
}

/// "Using Lambda with Amazon SQS: implementing partial batch responses".
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    batch_item_failures: Vec<BatchItemFailure>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchItemFailure {
    item_identifier: String,
}

impl Response {
    /// Each failed record once.
    fn new(failed: impl Iterator<Item = String>) -> Self {
        let failed: BTreeSet<_> = failed.collect();
        let batch_item_failures =
            failed.into_iter().map(|item_identifier| BatchItemFailure { item_identifier }).collect();
        Self { batch_item_failures }
    }
}

#[cfg(test)]
mod tests;

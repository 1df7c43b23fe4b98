//! Maps a handler's response to outcomes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use redeliver_core::handler::{ErrorType, HandlerError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::exception::Exception;
use crate::lambda::FromObject;

/// The size limit for a record's error; a larger error is ignored. The error's strings are truncated to a kilobyte when
/// recorded.
const ERROR_BYTES_MAX: usize = 256 << 10;

/// The response to an invocation, as posted by the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionResponse {
    /// The handler's return value, as JSON.
    Response(Bytes),
    /// The error that the handler threw ("Using the Lambda runtime API for custom runtimes", Invocation error).
    Error(Bytes),
    /// The return value exceeds Lambda's limit.
    TooLarge,
}

/// Returns the outcome of each record in an invocation. `ids` are the records' SQS message ids, in order.
pub(super) fn outcomes_per_record(answer: &FunctionResponse, ids: &[&str]) -> Vec<Result<(), HandlerError>> {
    let failed = |error: HandlerError| ids.iter().map(|_| Err(error.clone())).collect();
    match answer {
        FunctionResponse::Error(body) if ids.len() == 1 => {
            failed(Exception::from_json(body).into_innermost().into_error())
        }
        FunctionResponse::Error(body) => failed(Exception::from_json(body).into_error()),
        FunctionResponse::TooLarge => failed(too_large_error()),
        FunctionResponse::Response(body) => match parse_record_outcomes(body, ids) {
            Ok(outcomes) => outcomes,
            Err(details) => failed(HandlerError::transient("Runtime.InvalidResponse", details)),
        },
    }
}

/// Returns the outcome of an invocation with one record.
pub(super) fn single_outcome(answer: &FunctionResponse, id: &str) -> Result<(), HandlerError> {
    outcomes_per_record(answer, &[id]).pop().expect("each record has an outcome")
}

/// Returns, unchanged, the handler's return value for an event that is not from SQS.
pub(super) fn return_value(answer: FunctionResponse) -> Result<Box<RawValue>, HandlerError> {
    match answer {
        FunctionResponse::Response(body) => serde_json::from_slice(&body).map_err(|_| {
            HandlerError::transient("Runtime.InvalidResponse", "the handler's answer is not JSON")
        }),
        FunctionResponse::Error(body) => Err(Exception::from_json(&body).into_error()),
        FunctionResponse::TooLarge => Err(too_large_error()),
    }
}

fn too_large_error() -> HandlerError {
    let details = "the handler's response exceeds Lambda's limit of 6 MB";
    HandlerError::transient("Function.ResponseSizeTooLarge", details)
}

/// The relevant members of a response; all others are ignored.
#[derive(Default, Deserialize)]
#[serde(default)]
struct HandlerResponse<'a> {
    #[serde(borrow)]
    redeliver: Option<&'a RawValue>,
    #[serde(borrow, rename = "batchItemFailures")]
    batch_item_failures: Option<&'a RawValue>,
}

/// Returns the outcomes, or the error in an invalid response. Lambda also fails the whole batch for an invalid response
/// ("Implementing partial batch responses").
fn parse_record_outcomes(body: &[u8], ids: &[&str]) -> Result<Vec<Result<(), HandlerError>>, String> {
    let done = || ids.iter().map(|_| Ok(())).collect();
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(done());
    }
    let FromObject(HandlerResponse { redeliver, batch_item_failures }) = match serde_json::from_slice(body) {
        Ok(object) => object,
        Err(error) => {
            let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
            // An object with a syntax error is not parsed again, since another pass over 6 MB would take as long as
            // everything else. Any other response is parsed again, since a string may contain an unpaired surrogate.
            let is_json =
                (error.is_data() || !is_object) && serde_json::from_slice::<IgnoredAny>(body).is_ok();
            return match (is_json, is_object) {
                (true, true) => {
                    Err("the handler's response has batchItemFailures or redeliver twice".to_owned())
                }
                (true, false) => Ok(done()),
                (false, _) => Err("the handler's answer is not JSON".to_owned()),
            };
        }
    };
    if let Some(redeliver) = redeliver {
        let error = redeliver_error(redeliver)?;
        return Ok(ids.iter().map(|_| Err(error.clone())).collect());
    }
    // A message that was received twice may be in the event twice; in that case, both records fail.
    let mut failed = HashMap::new();
    let known: HashSet<_> = ids.iter().copied().collect();
    for failure in batch_item_failures.map(item_failures).transpose()?.unwrap_or_default() {
        let id = failure.item_identifier.as_deref().filter(|id| !id.is_empty());
        let id = id.ok_or("batchItemFailures has an entry without itemIdentifier")?;
        let id = known.get(id).ok_or("batchItemFailures names a record that was not in the event")?;
        let error = failure.error.filter(|error| error.get().len() <= ERROR_BYTES_MAX);
        let error = error.and_then(|error| serde_json::from_str(error.get()).ok());
        let FromObject(NamedError { r#type, details }) = error.unwrap_or(FromObject(NamedError::default()));
        let error_type = r#type.map_or(ErrorType::Named("BatchItemFailure"), ErrorType::FromTarget);
        let details =
            details.unwrap_or_else(|| "the handler named the record in batchItemFailures".to_owned());
        failed.insert(*id, HandlerError::transient(error_type, details));
    }
    Ok(ids.iter().map(|id| failed.get(id).map_or(Ok(()), |error| Err(error.clone()))).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemFailure {
    item_identifier: Option<String>,
    /// An error in our format, or any value from the handler.
    error: Option<Box<RawValue>>,
}

/// The type and details of an error from the handler.
#[derive(Default, Deserialize)]
struct NamedError {
    r#type: Option<String>,
    details: Option<String>,
}

fn item_failures(text: &RawValue) -> Result<Vec<ItemFailure>, String> {
    let failures: Option<Vec<FromObject<ItemFailure>>> = serde_json::from_str(text.get())
        .map_err(|_| "batchItemFailures is not a list of {\"itemIdentifier\": \"…\"}".to_owned())?;
    Ok(failures.unwrap_or_default().into_iter().map(|FromObject(failure)| failure).collect())
}

/// Parses the member `redeliver`.
fn redeliver_error(text: &RawValue) -> Result<HandlerError, String> {
    #[derive(Deserialize)]
    struct RedeliverReport {
        outcome: ReportedOutcome,
        delay_seconds: Option<u32>,
        r#type: Option<String>,
        details: Option<String>,
    }
    #[derive(Clone, Copy, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum ReportedOutcome {
        Permanent,
        Transient,
        Snooze,
        Unavailable,
    }
    let FromObject(RedeliverReport { outcome, delay_seconds, r#type, details }) = serde_json::from_str(text.get()).map_err(|_| {
        "redeliver is not {\"outcome\": \"permanent\", \"transient\", \"snooze\" or \"unavailable\"} with a whole \
         number as delay_seconds and strings as type and details"
            .to_owned()
    })?;
    let delay = delay_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let named_or = |name| r#type.clone().map_or(ErrorType::Named(name), ErrorType::FromTarget);
    let details = details.as_deref().unwrap_or_default();
    let later = |error: HandlerError| delay.map_or(error.clone(), |delay| error.retry_after(delay));
    match (outcome, delay) {
        (ReportedOutcome::Permanent, _) => Ok(HandlerError::permanent(named_or("Permanent"), details)),
        (ReportedOutcome::Transient, _) => Ok(later(HandlerError::transient(named_or("Transient"), details))),
        (ReportedOutcome::Unavailable, _) => {
            Ok(later(HandlerError::unavailable(named_or("Unavailable"), details)))
        }
        (ReportedOutcome::Snooze, Some(delay)) => {
            Ok(HandlerError::snooze(named_or("Snooze"), details, delay))
        }
        (ReportedOutcome::Snooze, None) => {
            Err("redeliver has the outcome snooze without delay_seconds".to_owned())
        }
    }
}

#[cfg(test)]
mod tests;

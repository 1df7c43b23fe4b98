//! The record of a failed invocation, which Lambda sends to a destination ("Capturing records of Lambda asynchronous
//! invocations", AWS Lambda Developer Guide).

use std::ops::Range;

use chrono::DateTime;
use thiserror::Error;
use uuid::Uuid;

use super::read_payload;
use crate::function_arn::format_version;
use crate::handler::{ErrorType, HandlerError};
use crate::json::members::{MalformedBody, Member, parse_members, unchecked_members};
use crate::message::Timestamp;
use crate::message::metadata::parse_rfc3339;

/// A failed asynchronous invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedInvocation<'a> {
    /// `requestContext.requestId`, unique to each invocation.
    pub request_id: Uuid,
    /// `requestContext.functionArn`: the version or alias that failed, not yet checked against the allowed functions.
    pub function_arn: String,
    /// `timestamp`: the time at which the invocation failed.
    pub failed_at: Timestamp,
    /// Number of retries made before this invocation, from the envelope; 0 without an envelope.
    pub retries_made: u32,
    /// Time of the first failure, from the envelope, in whole seconds; never later than `failed_at`.
    pub first_failed_at: Timestamp,
    /// The original payload, byte for byte.
    pub payload: &'a str,
    /// `responsePayload.errorType` and `errorMessage`, if the function returned them.
    pub error: HandlerError,
}

/// The reason why a body is not a record of a failed invocation. The error message names members, but never contains
/// their values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotADestinationRecord {
    #[error("not a destination record: {0}")]
    Malformed(#[from] MalformedBody),
    /// A required member is missing.
    #[error("not a destination record: {0} is missing")]
    Missing(String),
    /// A member is not in Lambda's format.
    #[error("not a destination record: {0} is not {1}")]
    Wrong(String, &'static str),
    #[error(
        "the record reports a success: remove the retry queue from the function's on-success destination"
    )]
    Success,
}

impl<'a> FailedInvocation<'a> {
    /// Parses a record.
    ///
    /// # Errors
    /// Returns the first missing or invalid member.
    pub fn parse(body: &'a str) -> Result<Self, NotADestinationRecord> {
        let record = RecordObject::read_object(body, 0..body.len(), "")?;
        let context =
            RecordObject::read_object(body, record.value_range("requestContext")?, "/requestContext")?;
        let condition = context.string_value("condition")?;
        if condition == "Success" {
            return Err(NotADestinationRecord::Success);
        }
        let (retry, payload) = read_payload(&body[record.value_range("requestPayload")?]);
        let failed_at = parse_rfc3339(&record.string_value("timestamp")?)
            .filter(|moment| moment.timestamp() >= 0)
            .ok_or_else(|| record.wrong_member("timestamp", "an RFC 3339 time since 1970"))?;
        let request_id = Uuid::parse_str(&context.string_value("requestId")?);
        let first_failed_at = retry.map_or(failed_at.timestamp(), |retry| retry.initial_timestamp);
        let function_arn = context.string_value("functionArn")?;
        let response = record.value_range("responsePayload").map_or("", |at| &body[at]);
        let function = executed_version(&record).and_then(|version| format_version(&function_arn, &version));
        Ok(Self {
            request_id: request_id.map_err(|_| context.wrong_member("requestId", "a UUID"))?,
            function_arn,
            failed_at,
            retries_made: retry.map_or(0, |retry| retry.attempt),
            first_failed_at: DateTime::from_timestamp(first_failed_at, 0).unwrap_or(failed_at).min(failed_at),
            payload,
            error: HandlerError { function, ..response_error(response, &condition) },
        })
    }
}

/// Returns `responseContext.executedVersion`, which Lambda omits if the function was not invoked.
fn executed_version(record: &RecordObject<'_>) -> Option<String> {
    let response = RecordObject::read_object(
        record.body,
        record.value_range("responseContext").ok()?,
        "/responseContext",
    )
    .ok()?;
    response.string_value("executedVersion").ok()
}

/// Reads the error from the function's response, which may be any JSON value.
fn response_error(response: &str, condition: &str) -> HandlerError {
    let members = unchecked_members(response).unwrap_or_default();
    let response_text = |name: &str| {
        let (_, value) = members.iter().rfind(|(known, _)| **known == *name.as_bytes())?;
        serde_json::from_str::<String>(value.get()).ok().filter(|text| !text.is_empty())
    };
    let error_type = match response_text("errorType") {
        Some(error_type) => ErrorType::FromTarget(error_type),
        None if condition == "EventAgeExceeded" => "Lambda.EventAgeExceeded".into(),
        None => "Lambda.FunctionError".into(),
    };
    HandlerError::transient(error_type, response_text("errorMessage").unwrap_or_default())
}

/// An object in the body, without duplicate members.
struct RecordObject<'a> {
    body: &'a str,
    pointer: &'static str,
    members: Vec<Member<'a>>,
}

impl<'a> RecordObject<'a> {
    fn read_object(
        body: &'a str,
        at: Range<usize>,
        pointer: &'static str,
    ) -> Result<Self, NotADestinationRecord> {
        match parse_members(body, at, pointer) {
            Ok(members) => Ok(Self { body, pointer, members }),
            Err(MalformedBody::NotAnObject) if !pointer.is_empty() => {
                Err(NotADestinationRecord::Wrong(pointer.to_owned(), "an object"))
            }
            Err(malformed) => Err(malformed.into()),
        }
    }

    fn value_range(&self, name: &str) -> Result<Range<usize>, NotADestinationRecord> {
        let member = self.members.iter().find(|member| *member.name == *name.as_bytes());
        let missing = || NotADestinationRecord::Missing(format!("{}/{name}", self.pointer));
        member.map(|member| member.value.clone()).ok_or_else(missing)
    }

    fn string_value(&self, name: &str) -> Result<String, NotADestinationRecord> {
        serde_json::from_str(&self.body[self.value_range(name)?])
            .map_err(|_| self.wrong_member(name, "a string"))
    }

    fn wrong_member(&self, name: &str, rule: &'static str) -> NotADestinationRecord {
        NotADestinationRecord::Wrong(format!("{}/{name}", self.pointer), rule)
    }
}

//! The checks for failed asynchronous invocations: the records in the retry queue and the resulting invocations.

use chrono::{DateTime, TimeDelta, Utc};
use redeliver_core::message::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::copies::StatedFailure;
use super::invocations::MessageWork;
use super::sends::{Send, check_no_delay};
use super::{BrokenInvariant, Ledger, hash_body, time_delta};
use crate::lambda::FUNCTION_ARN;
use crate::messages::message_number;
use crate::policy::{DelayKey, FailureClass};

/// The content of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AsyncRecord {
    hash: u64,
    failed_at: DateTime<Utc>,
    first_failed_at: DateTime<Utc>,
    retries_made: u32,
    error_type: String,
    request_id: String,
}

#[derive(Deserialize)]
struct RetryEnvelope<'a> {
    #[serde(rename = "_retry_metadata")]
    metadata: AsyncRetryMembers,
    #[serde(rename = "_original_payload", borrow)]
    original: &'a RawValue,
}

#[derive(Clone, Copy, Deserialize)]
struct AsyncRetryMembers {
    attempt: u32,
    initial_timestamp: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailureRecord<'a> {
    timestamp: String,
    request_context: AsyncRequestContext,
    #[serde(borrow)]
    request_payload: &'a RawValue,
    response_payload: Option<AsyncResponsePayload>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AsyncRequestContext {
    request_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AsyncResponsePayload {
    error_type: String,
}

impl AsyncRecord {
    fn parse_record(body: &str) -> Option<Self> {
        let record: FailureRecord<'_> = serde_json::from_str(body).ok()?;
        let failed_at = DateTime::parse_from_rfc3339(&record.timestamp).ok()?.to_utc();
        let retry = serde_json::from_str::<RetryEnvelope<'_>>(record.request_payload.get()).ok();
        let retry = retry.map(|envelope| envelope.metadata);
        let first = retry.and_then(|retry| DateTime::from_timestamp(retry.initial_timestamp, 0));
        let seconds = DateTime::from_timestamp(failed_at.timestamp(), 0)?;
        Some(Self {
            hash: hash_body(body),
            failed_at,
            first_failed_at: first.unwrap_or(seconds),
            retries_made: retry.map_or(0, |retry| retry.attempt),
            error_type: record
                .response_payload
                .map_or("Lambda.FunctionError".to_owned(), |response| response.error_type),
            request_id: record.request_context.request_id,
        })
    }
}

impl Ledger {
    /// Records that an event for message `n` was added to Lambda's queue.
    pub fn record_queued_event(&mut self, n: usize) {
        if let Some(subject) = self.subjects.get_mut(n) {
            subject.in_lambda += 1;
        }
    }

    /// Returns true if Lambda has executed all events.
    #[must_use]
    pub fn is_lambda_idle(&self) -> bool {
        self.subjects.iter().all(|subject| subject.in_lambda == 0)
    }

    /// Records the execution of an event. If it failed, its record is already in the retry queue.
    pub fn record_execution(&mut self, payload: &str, succeeded: bool, now: Timestamp) {
        let Some(n) = message_number(payload).filter(|n| *n < self.subjects.len()) else { return };
        let subject = &mut self.subjects[n];
        subject.in_lambda -= 1;
        if succeeded {
            subject.processed += 1;
            let body = subject.produced.content.body.clone();
            self.tracker.record_processed(&body, now);
        }
    }

    /// Records and checks an event that Lambda accepts from the async-retry-handler.
    pub fn record_repeated_invocation(&mut self, function_arn: &str, payload: &str, now: Timestamp) {
        match self.check_invocation(function_arn, payload, now) {
            Ok(n) => {
                self.record_queued_event(n);
                if let Some(Err(violation)) = self.current_work(n).map(MessageWork::record_accepted_event) {
                    self.report_violation(format!("message {n}: {violation}"));
                }
            }
            Err(violation) => self.report_violation(format!("an invocation: {violation}")),
        }
    }

    fn check_invocation(
        &self,
        function_arn: &str,
        payload: &str,
        now: Timestamp,
    ) -> Result<usize, BrokenInvariant> {
        let n = message_number(payload)
            .filter(|n| *n < self.subjects.len())
            .ok_or("its payload belongs to no message")?;
        if function_arn != format!("{FUNCTION_ARN}:$LATEST") {
            return Err(format!("message {n}: the function is {function_arn}"));
        }
        let envelope: RetryEnvelope<'_> =
            serde_json::from_str(payload).map_err(|error| format!("message {n}: no envelope: {error}"))?;
        let original = &self.subjects[n].produced.content.body;
        if envelope.original.get() != original.trim() {
            return Err(format!("message {n}: the bytes of its payload were changed"));
        }
        let AsyncRetryMembers { attempt, initial_timestamp } = envelope.metadata;
        let fits = |record: &AsyncRecord| {
            (record.retries_made + 1, record.first_failed_at.timestamp()) == (attempt, initial_timestamp)
                && self.failure_class(record) != FailureClass::Permanent
                && record.retries_made < self.knobs.policy.max_attempts
                && self.record_age_limit(record).is_none_or(|limit| now - self.time_tolerance() <= limit)
                && now + self.clock_skew() >= self.due_time(record)
        };
        let records = &self.subjects[n].records;
        if records.iter().any(fits) {
            Ok(n)
        } else {
            Err(format!("message {n}: attempt {attempt} does not follow at {now} from {records:?}"))
        }
    }

    /// Stores Lambda's record of a failure.
    pub(super) fn check_record(&mut self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        let record =
            AsyncRecord::parse_record(&send.content.body).ok_or("the simulator writes readable records")?;
        self.subjects[send.n].records.push(record);
        Ok(())
    }

    /// Checks a hop of a record.
    pub(super) fn check_record_hop(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        let delay = TimeDelta::seconds(send.content.delay.get().into());
        let follows = |record: &AsyncRecord| {
            record.hash == send.hash
                && self.failure_class(record) != FailureClass::Permanent
                && record.retries_made < self.knobs.policy.max_attempts
                && send.at + delay <= self.due_time(record) + self.time_tolerance()
        };
        if delay > TimeDelta::zero() && self.subjects[send.n].records.iter().any(follows) {
            Ok(())
        } else {
            Err(format!("a wait of {delay} does not follow from {:?}", self.subjects[send.n].records))
        }
    }

    /// Checks the verdict on a record that was given up on.
    pub(super) fn check_record_verdict(&self, send: Send<'_>) -> Result<(), BrokenInvariant> {
        check_no_delay(send)?;
        let failure = StatedFailure::from_attributes(&send.content.attributes).ok_or("without a verdict")?;
        failure.check_size(false)?;
        let max_attempts = self.knobs.policy.max_attempts;
        let follows = |record: &AsyncRecord| {
            let permanent = self.failure_class(record) == FailureClass::Permanent;
            let exhausted = record.retries_made >= max_attempts;
            let written =
                (failure.attempt_count(), failure.text_member("type"), failure.text_member("stage"));
            // The decision precedes the send, but the deciding process's clock might be ahead.
            let latest = || self.due_time(record).max(send.at + self.clock_skew());
            record.hash == send.hash
                && written == (Some(record.retries_made), record.error_type.as_str(), "async-retry-handler")
                && failure
                    .first_sent_time()
                    .is_some_and(|first| first == record.first_failed_at || record.retries_made == 0)
                && match failure.text_member("verdict") {
                    "NON_RETRYABLE_ERROR" => permanent,
                    _ if permanent => false,
                    "RETRY_ATTEMPT_EXCEEDED" => {
                        exhausted
                            && failure.text_member("explanation")
                                == format!("Max retry attempts {max_attempts} exceeded")
                    }
                    _ if exhausted => false,
                    "MESSAGE_EXPIRED" => self.record_age_limit(record).is_some_and(|limit| latest() > limit),
                    _ => false,
                }
        };
        if self.subjects[send.n].records.iter().any(follows) {
            Ok(())
        } else {
            Err(format!("{failure:?} does not follow from {:?}", self.subjects[send.n].records))
        }
    }

    /// Returns the due time of the next invocation, to the second. Call this last, because it seeds a generator and a
    /// message can have many records.
    fn due_time(&self, record: &AsyncRecord) -> DateTime<Utc> {
        let key =
            DelayKey { message_id: &record.request_id, generation: 0, attempt: record.retries_made + 1 };
        record.failed_at + time_delta(self.knobs.policy.exact_delay(key, None))
    }

    fn failure_class(&self, record: &AsyncRecord) -> FailureClass {
        self.knobs.policy.failure_class("transient", &record.error_type)
    }

    fn record_age_limit(&self, record: &AsyncRecord) -> Option<DateTime<Utc>> {
        self.knobs.policy.max_age_seconds.map(|age| record.first_failed_at + TimeDelta::seconds(age.into()))
    }
}

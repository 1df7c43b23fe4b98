//! The strategy for failed asynchronous invocations: records of the retry queue, and the resulting invocations.

use chrono::{DateTime, TimeDelta, Utc};
use redeliver_core::message::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::copies::Failure;
use super::invocations::Work;
use super::sends::{Send, no_delay};
use super::{Ledger, Violation, hash, seconds};
use crate::lambda::FUNCTION_ARN;
use crate::messages::number;
use crate::policy::{Class, Key};

/// The content of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    hash: u64,
    failed_at: DateTime<Utc>,
    first_failed_at: DateTime<Utc>,
    retries_made: u32,
    error_type: String,
    request_id: String,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "_retry_metadata")]
    metadata: Retry,
    #[serde(rename = "_original_payload", borrow)]
    original: &'a RawValue,
}

#[derive(Clone, Copy, Deserialize)]
struct Retry {
    attempt: u32,
    initial_timestamp: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Destination<'a> {
    timestamp: String,
    request_context: Context,
    #[serde(borrow)]
    request_payload: &'a RawValue,
    response_payload: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    request_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    error_type: String,
}

impl Record {
    fn read(body: &str) -> Option<Self> {
        let record: Destination<'_> = serde_json::from_str(body).ok()?;
        let failed_at = DateTime::parse_from_rfc3339(&record.timestamp).ok()?.to_utc();
        let retry = serde_json::from_str::<Envelope<'_>>(record.request_payload.get()).ok();
        let retry = retry.map(|envelope| envelope.metadata);
        let first = retry.and_then(|retry| DateTime::from_timestamp(retry.initial_timestamp, 0));
        let seconds = DateTime::from_timestamp(failed_at.timestamp(), 0)?;
        Some(Self {
            hash: hash(body),
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
    /// An event of message `n` was added to Lambda's queue.
    pub fn queued(&mut self, n: usize) {
        if let Some(subject) = self.subjects.get_mut(n) {
            subject.in_lambda += 1;
        }
    }

    /// True if Lambda has executed all events.
    #[must_use]
    pub fn is_lambda_idle(&self) -> bool {
        self.subjects.iter().all(|subject| subject.in_lambda == 0)
    }

    /// An event was executed; a failure has been sent to the retry queue.
    pub fn executed(&mut self, payload: &str, succeeded: bool, now: Timestamp) {
        let Some(n) = number(payload).filter(|n| *n < self.subjects.len()) else { return };
        let subject = &mut self.subjects[n];
        subject.in_lambda -= 1;
        if succeeded {
            subject.processed += 1;
            let body = subject.produced.content.body.clone();
            self.local.processed(&body, now);
        }
    }

    /// Lambda accepts an event from the async-retry handler.
    pub fn invoked_again(&mut self, function_arn: &str, payload: &str, now: Timestamp) {
        match self.check_invocation(function_arn, payload, now) {
            Ok(n) => {
                self.queued(n);
                if let Some(Err(violation)) = self.work(n).map(Work::invoked) {
                    self.report(format!("message {n}: {violation}"));
                }
            }
            Err(violation) => self.report(format!("an invocation: {violation}")),
        }
    }

    fn check_invocation(
        &self,
        function_arn: &str,
        payload: &str,
        now: Timestamp,
    ) -> Result<usize, Violation> {
        let n = number(payload)
            .filter(|n| *n < self.subjects.len())
            .ok_or("its payload belongs to no message")?;
        if function_arn != format!("{FUNCTION_ARN}:$LATEST") {
            return Err(format!("message {n}: of {function_arn}"));
        }
        let envelope: Envelope<'_> =
            serde_json::from_str(payload).map_err(|error| format!("message {n}: no envelope: {error}"))?;
        let original = &self.subjects[n].produced.content.body;
        if envelope.original.get() != original.trim() {
            return Err(format!("message {n}: its payload has other bytes"));
        }
        let Retry { attempt, initial_timestamp } = envelope.metadata;
        let fits = |record: &Record| {
            (record.retries_made + 1, record.first_failed_at.timestamp()) == (attempt, initial_timestamp)
                && self.class(record) != Class::Permanent
                && record.retries_made < self.knobs.policy.max_attempts
                && self.limit(record).is_none_or(|limit| now - self.tolerance() <= limit)
                && now + self.skew() >= self.due(record)
        };
        let records = &self.subjects[n].records;
        if records.iter().any(fits) {
            Ok(n)
        } else {
            Err(format!("message {n}: attempt {attempt} does not follow at {now} from {records:?}"))
        }
    }

    /// Lambda's record of a failure.
    pub(super) fn recorded(&mut self, send: Send<'_>) -> Result<(), Violation> {
        no_delay(send)?;
        let record = Record::read(&send.content.body).ok_or("the simulator writes readable records")?;
        self.subjects[send.n].records.push(record);
        Ok(())
    }

    /// A record hops.
    pub(super) fn record_hop(&self, send: Send<'_>) -> Result<(), Violation> {
        let delay = TimeDelta::seconds(send.content.delay.get().into());
        let follows = |record: &Record| {
            record.hash == send.hash
                && self.class(record) != Class::Permanent
                && record.retries_made < self.knobs.policy.max_attempts
                && send.at + delay <= self.due(record) + self.tolerance()
        };
        if delay > TimeDelta::zero() && self.subjects[send.n].records.iter().any(follows) {
            Ok(())
        } else {
            Err(format!("a wait of {delay} does not follow from {:?}", self.subjects[send.n].records))
        }
    }

    /// A record is given up.
    pub(super) fn record_verdict(&self, send: Send<'_>) -> Result<(), Violation> {
        no_delay(send)?;
        let failure = Failure::of(&send.content.attributes).ok_or("without a verdict")?;
        failure.fits(false)?;
        let max_attempts = self.knobs.policy.max_attempts;
        let follows = |record: &Record| {
            let permanent = self.class(record) == Class::Permanent;
            let exhausted = record.retries_made >= max_attempts;
            let written = (failure.attempts(), failure.text("type"), failure.text("stage"));
            // Decided before it was sent, by a clock that may be ahead.
            let latest = || self.due(record).max(send.at + self.skew());
            record.hash == send.hash
                && written == (Some(record.retries_made), record.error_type.as_str(), "async-retry-handler")
                && failure
                    .first_sent_time()
                    .is_some_and(|first| first == record.first_failed_at || record.retries_made == 0)
                && match failure.text("verdict") {
                    "NON_RETRYABLE_ERROR" => permanent,
                    _ if permanent => false,
                    "RETRY_ATTEMPT_EXCEEDED" => {
                        exhausted
                            && failure.text("explanation")
                                == format!("Max retry attempts {max_attempts} exceeded")
                    }
                    _ if exhausted => false,
                    "MESSAGE_EXPIRED" => self.limit(record).is_some_and(|limit| latest() > limit),
                    _ => false,
                }
        };
        if self.subjects[send.n].records.iter().any(follows) {
            Ok(())
        } else {
            Err(format!("{failure:?} does not follow from {:?}", self.subjects[send.n].records))
        }
    }

    /// Due time of the next invocation, to the second. Call it last: it seeds a generator, and an event may have many
    /// records.
    fn due(&self, record: &Record) -> DateTime<Utc> {
        let key = Key { message_id: &record.request_id, generation: 0, attempt: record.retries_made + 1 };
        record.failed_at + seconds(self.knobs.policy.delay(key, None))
    }

    fn class(&self, record: &Record) -> Class {
        self.knobs.policy.class("transient", &record.error_type)
    }

    fn limit(&self, record: &Record) -> Option<DateTime<Utc>> {
        self.knobs.policy.max_age_seconds.map(|age| record.first_failed_at + TimeDelta::seconds(age.into()))
    }
}

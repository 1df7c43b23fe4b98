//! Asynchronous invocations in this process: the target is called, and a record of each failure is sent to the retry
//! queue, as Lambda sends it to a destination ("Capturing records of Lambda asynchronous invocations").

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redeliver_core::async_retry::{FailedInvocation, read_payload};
use redeliver_core::deliver::deliver;
use redeliver_core::handler::{BodyForm, Handler, HandlerError, Message};
use redeliver_core::message::metadata::format_rfc3339;
use redeliver_core::message::{Attributes, Content, OutgoingMessage};
use redeliver_core::ports::{AsyncInvokeError, AsyncInvoker, Clock, QueueSender};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::tracker::parse_message_id;

/// The ARN of the only function.
pub(crate) const FUNCTION_ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:local";
/// The maximum size of a failure record, excluding its payload. Lambda cannot send a record that exceeds 1 MiB.
const RECORD_BYTES: usize = 4096;
/// The timeout for sending a failure record, including retries.
const RECORD_TIMEOUT: Duration = Duration::from_secs(60);

/// A Lambda function whose on-failure destination is the retry queue, without retries by Lambda itself.
#[derive(Debug)]
pub struct LocalLambda<'a, H, Q, C> {
    handler: H,
    retry_queue: &'a Q,
    clock: &'a C,
    seed: u64,
    invocations: AtomicU64,
}

impl<'a, H, Q, C> LocalLambda<'a, H, Q, C> {
    /// Creates a function. Runs with different seeds have different request ids.
    pub fn new(handler: H, retry_queue: &'a Q, clock: &'a C, seed: u64) -> Self {
        Self { handler, retry_queue, clock, seed, invocations: AtomicU64::new(0) }
    }
}

impl<H: Handler, Q: QueueSender, C: Clock> AsyncInvoker for LocalLambda<'_, H, Q, C> {
    async fn invoke_async(&self, _: &str, payload: &str) -> Result<(), AsyncInvokeError> {
        let (retry, original) = read_payload(payload);
        let message = Message {
            body: original,
            message_id: &parse_message_id(original).unwrap_or_else(|| hash_to_id(original)),
            form: &BodyForm::Envelope,
            retry_attempt: retry.map_or(0, |retry| retry.attempt),
            redrive_generation: 0,
            held_seconds: 0,
            attributes: &Attributes::new(),
        };
        let Err(error) = self.handler.handle(&message).await else {
            return Ok(());
        };
        let content = Content { body: self.failure_record(payload, &error), ..Content::default() };
        let record = OutgoingMessage::new(content).map_err(|_| AsyncInvokeError::TooLarge)?;
        let deadline = self.clock.now() + RECORD_TIMEOUT;
        let outcomes = deliver(self.retry_queue, self.clock, deadline, vec![record]).await;
        // At this point, Lambda would drop the event. Here, the caller invokes the function again.
        outcomes.into_iter().try_for_each(|outcome| match outcome {
            Ok(_) => Ok(()),
            Err(error) => Err(AsyncInvokeError::NotNow { code: error.code }),
        })
    }
}

impl<H, Q, C: Clock> LocalLambda<'_, H, Q, C> {
    /// Builds the failure record, which contains the payload byte for byte.
    fn failure_record(&self, payload: &str, error: &HandlerError) -> String {
        let number = self.invocations.fetch_add(1, Ordering::Relaxed);
        let request_id = Uuid::from_u64_pair(self.seed, number);
        let timestamp = format_rfc3339(self.clock.now());
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let (error_type, message) = (text(&error.error_type.name()), text(&error.details));
        format!(
            r#"{{"version":"1.0","timestamp":"{timestamp}","requestContext":{{"requestId":"{request_id}","functionArn":"{FUNCTION_ARN}:$LATEST","condition":"RetriesExhausted","approximateInvokeCount":1}},"requestPayload":{payload},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}},"responsePayload":{{"errorType":{error_type},"errorMessage":{message}}}}}"#
        )
    }
}

/// Returns the failed invocation's payload from the body of a final record, or the body itself if it is not a failure
/// record.
#[must_use]
pub fn extract_payload(body: &str) -> &str {
    FailedInvocation::parse(body).map_or(body, |failed| failed.payload)
}

/// Derives an id for a payload without one, for the built-in target.
fn hash_to_id(payload: &str) -> String {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    // An id has 128 bits, so two hashes are needed.
    let first = hasher.finish();
    first.hash(&mut hasher);
    Uuid::from_u64_pair(first, hasher.finish()).to_string()
}

/// Checks that a message's body can be a payload.
///
/// # Errors
/// If the body cannot be a payload; the error is the reason.
pub fn check_payload(message: &OutgoingMessage) -> Result<(), String> {
    let body = &message.content().body;
    let reason = if serde_json::from_str::<&RawValue>(body).is_err() {
        "not JSON, the only format of a Lambda payload"
    } else if body.len() > redeliver_core::limits::MESSAGE_BYTES_MAX - RECORD_BYTES {
        "too large: the record of its failure would exceed 1 MiB, the SQS limit on a message"
    } else {
        return Ok(());
    };
    Err(reason.to_owned())
}

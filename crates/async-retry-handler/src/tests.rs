mod annotations;
mod hops;
mod invoked;
mod loop_with_deaths;
mod verdicts;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redeliver_core::failure::FAILURE;
use redeliver_core::message::{Attribute, Attributes};
use redeliver_core::ports::AsyncInvokeError;
use redeliver_embedded::VirtualClock;
use serde_json::Value;

use super::*;
use redeliver_testing::functions::*;

const ORDERS: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders";
const RETRY_ARN: &str = "arn:aws:sqs:us-east-1:000000000000:retry";
/// Three retries, each after 1,000 s.
const POLICY: &str = r#"{"long_delays":true,"max_attempts":3,"max_age_seconds":86400,"backoff":{"kind":"fixed","delay_seconds":1000,"jitter":"none"}}"#;

/// The scripted Lambda's response to an event.
#[derive(Clone)]
enum Response {
    Taken,
    Refused(AsyncInvokeError),
    Hangs,
}

/// A scripted Lambda that records its requests and responds according to the `n` in the payload.
#[derive(Clone)]
struct Lambda {
    answer: fn(usize) -> Response,
    calls: Arc<Mutex<Vec<(String, String)>>>,
    max_concurrent: Arc<Mutex<(usize, usize)>>,
    clock: VirtualClock,
}

impl AsyncInvoker for Lambda {
    async fn invoke_async(&self, function_arn: &str, payload: &str) -> Result<(), AsyncInvokeError> {
        self.calls.lock().unwrap().push((function_arn.to_owned(), payload.to_owned()));
        self.track_concurrency(1);
        self.clock.sleep(Duration::from_millis(10)).await;
        let answer = match (self.answer)(event_number(payload)) {
            Response::Taken => Ok(()),
            Response::Refused(why) => Err(why),
            Response::Hangs => std::future::pending().await,
        };
        self.track_concurrency(-1);
        answer
    }
}

impl Lambda {
    fn track_concurrency(&self, change: isize) {
        let mut counts = self.max_concurrent.lock().unwrap();
        counts.0 = counts.0.strict_add_signed(change);
        counts.1 = counts.1.max(counts.0);
    }
}

/// The handler with its queues.
struct Setup {
    world: FunctionWorld,
    retry: SpyQueue,
    annotation: SpyQueue,
    lambda: Lambda,
    policy: Policy,
}

impl Setup {
    fn new(answer: fn(usize) -> Response) -> Self {
        let world = FunctionWorld::new();
        let (retry, annotation) = (world.add_queue("retry"), world.add_queue("annotation"));
        let clock = world.clock.clone();
        let lambda = Lambda { answer, calls: Arc::default(), max_concurrent: Arc::default(), clock };
        Self { world, retry, annotation, lambda, policy: Policy::from_json(POLICY).unwrap() }
    }

    /// Processes a batch with 30 s until the deadline. Returns the ids of the records reported as failed.
    fn process(&self, records: Vec<ReceivedMessage>) -> Vec<String> {
        self.process_within(Duration::from_secs(30), records)
    }

    fn process_within(&self, time: Duration, records: Vec<ReceivedMessage>) -> Vec<String> {
        let handler = AsyncRetryHandler {
            invoker: self.lambda.clone(),
            retry_queue: self.retry.clone(),
            annotation_queue: self.annotation.clone(),
            clock: self.world.clock.clone(),
            observer: self.world.seen.clone(),
            policy: self.policy.clone(),
            functions: FunctionArns::parse(ORDERS).unwrap(),
        };
        let mut failed = self.world.invoke_function(&handler, records, time);
        failed.sort_unstable();
        failed
    }

    fn calls(&self) -> Vec<(String, String)> {
        self.lambda.calls.lock().unwrap().clone()
    }

    /// Returns the `Failure` attribute of the only verdict.
    fn verdict(&self) -> Value {
        assert!(self.retry.sent_contents().is_empty(), "given up, so it is not sent to the retry queue");
        attribute_document(&self.annotation.only_sent_content().attributes, FAILURE)
    }
}

/// Fails the test: no function may be invoked.
fn panic_if_invoked(_: usize) -> Response {
    panic!("no function may be invoked")
}

fn accept_event(_: usize) -> Response {
    Response::Taken
}

/// Returns Lambda's record of an invocation of `orders` that failed `failed_after` seconds after the test's start.
fn destination_record(n: usize, payload: &str, failed_after: i64) -> String {
    function_destination_record(&format!("{ORDERS}:$LATEST"), n, payload, failed_after)
}

fn function_destination_record(function_arn: &str, n: usize, payload: &str, failed_after: i64) -> String {
    format!(
        r#"{{"version":"1.0","timestamp":"{}","requestContext":{{"requestId":"{}","functionArn":"{function_arn}","condition":"RetriesExhausted","approximateInvokeCount":1}},"requestPayload":{payload},"responseContext":{{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"}},"responsePayload":{{"errorMessage":"order {n} is locked, CANARY","errorType":"OrderLocked"}}}}"#,
        format_time_at(failed_after),
        nth_id(n),
    )
}

fn payload(n: usize) -> String {
    format!(r#"{{ "n":{n}, "x":1e400 }}"#)
}

/// Returns the payload of a retry.
fn wrapped_payload(attempt: u32, initial_after: i64, payload: &str) -> String {
    let initial = start_time().timestamp() + initial_after;
    format!(
        r#"{{"_retry_metadata":{{"attempt":{attempt},"initial_timestamp":{initial}}},"_original_payload":{payload}}}"#
    )
}

/// Returns the event number in a payload.
fn event_number(payload: &str) -> usize {
    let digits = payload.split("\"n\":").nth(1).unwrap();
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Returns the n-th record as the handler receives it.
fn received_record(n: usize, body: impl Into<String>) -> ReceivedMessage {
    ReceivedMessage { queue_arn: RETRY_ARN.to_owned(), ..nth_record(n, body) }
}

/// Returns the n-th record, with a retry that was due a second ago.
fn due_record(n: usize) -> ReceivedMessage {
    received_record(n, destination_record(n, &payload(n), -1001))
}

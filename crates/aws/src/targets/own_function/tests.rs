//! Tests with a process that only reports the address of its Runtime API; the test acts as its runtime.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::pin::pin;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use futures_util::poll;
use redeliver_core::handler::{BodyForm, FailureKind};
use redeliver_core::log_location::LogLocation;
use redeliver_core::message::{Attribute, AttributeValue, Attributes, ReceivedMessage};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use redeliver_core::ports::Clock as _;
use rustix::process::Signal;
use std::num::NonZeroU16;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

use super::*;
use crate::SystemClock;
use crate::tests::loopback::{Loopback, ScriptedResponse};

/// More time than a busy machine needs.
const LONG: Duration = Duration::from_secs(300);

/// A function, and the file to which each of its processes writes its id and its Runtime API's address.
struct TestFunction {
    function: OwnFunction,
    starts: PathBuf,
    _folder: TempDir,
}

impl TestFunction {
    fn new(handler_event: HandlerEvent) -> Self {
        Self::with_script("exec sleep 1000", handler_event, |function| function)
    }

    fn with_script(script: &str, handler_event: HandlerEvent, of: impl Fn(Processes) -> Processes) -> Self {
        Self::with_processes(NonZeroU16::MIN, script, handler_event, of)
    }

    fn with_processes(
        processes_max: NonZeroU16,
        script: &str,
        handler_event: HandlerEvent,
        of: impl Fn(Processes) -> Processes,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let starts = folder.path().join("starts");
        let script = format!("echo \"$AWS_LAMBDA_RUNTIME_API $$\" >> \"$1\"; {script}");
        let words = ["sh", "-c", &script, "sh"].map(Into::into).into_iter().chain([starts.clone().into()]);
        let command = RuntimeCommand::new(words).unwrap();
        let function = OwnFunction::new(of(Processes::new(command, processes_max)), handler_event);
        Self { function, starts, _folder: folder }
    }

    /// Returns the address and the process id of each started process.
    fn started_processes(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(&self.starts).unwrap_or_default();
        let starts = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.split_once(' '));
        starts.map(|(address, id)| (address.to_owned(), id.to_owned())).collect()
    }

    fn signal(&self, signal: Signal) {
        let id = self.started_processes().last().unwrap().1.parse().unwrap();
        rustix::process::kill_process_group(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Waits for the `nth` process and returns its runtime.
    async fn runtime(&self, nth: usize) -> Runtime {
        loop {
            if let Some((address, _)) = self.started_processes().get(nth - 1) {
                return Runtime { client: Client::new(), base: format!("http://{address}/2018-06-01") };
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl std::ops::Deref for TestFunction {
    type Target = OwnFunction;

    fn deref(&self) -> &OwnFunction {
        &self.function
    }
}

/// A message and its record.
struct TestMessage {
    body: String,
    message_id: String,
    attributes: Attributes,
    record: ReceivedMessage,
}

impl TestMessage {
    fn parts(&self) -> (Message<'_>, ReceivedMessage) {
        let message = Message {
            body: &self.body,
            message_id: &self.message_id,
            form: &BodyForm::Plain { idempotency_key: None },
            retry_attempt: 2,
            redrive_generation: 0,
            held_seconds: 0,
            attributes: &self.attributes,
        };
        (message, self.record.clone())
    }
}

fn test_message(n: u32) -> TestMessage {
    let moment = Timestamp::from_timestamp_millis(1_750_000_000_000).unwrap();
    let attribute = |value| Attribute { data_type: "String".to_owned(), value };
    let bytes = Attribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(vec![0, 255]) };
    let attributes = Attributes::from([
        ("kind".to_owned(), attribute(AttributeValue::Text("new \"x\"".to_owned()))),
        ("raw".to_owned(), bytes),
    ]);
    let redeliver = attribute(AttributeValue::Text("{}".to_owned()));
    let record = ReceivedMessage {
        sqs_message_id: format!("sqs-{n}"),
        receipt_handle: "handle".to_owned(),
        body: String::new(),
        attributes: Attributes::from([("Redeliver".to_owned(), redeliver)]),
        sent_at: moment,
        first_received_at: Some(moment + Duration::from_millis(5)),
        receive_count: 3,
        message_group_id: Some("tenant".to_owned()),
        trace_header: Some("Root=1-a;Sampled=1".to_owned()),
        sender_id: Some("AIDA".to_owned()),
        redriven_from: None,
        queue_arn: "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned(),
        omitted: Vec::new(),
    };
    TestMessage { body: format!(r#"{{"n":{n}}}"#), message_id: format!("id-{n}"), attributes, record }
}

fn deadline() -> Timestamp {
    SystemClock.now() + LONG
}

/// A function's runtime, like AWS's runtime interface clients.
struct Runtime {
    client: Client,
    base: String,
}

impl Runtime {
    async fn next_invocation(&self) -> (BTreeMap<String, String>, Value) {
        let response =
            self.client.get(format!("{}/runtime/invocation/next", self.base)).send().await.unwrap();
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        (headers, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.client.post(format!("{}/{path}", self.base)).body(body).send().await.unwrap()
    }

    /// Receives an invocation and responds to it; returns its event.
    async fn respond(&self, answer: &str) -> Value {
        let (headers, event) = self.next_invocation().await;
        let id = &headers["lambda-runtime-aws-request-id"];
        let accepted = self.post(&format!("runtime/invocation/{id}/response"), answer.to_owned()).await;
        assert_eq!(accepted.status(), StatusCode::ACCEPTED);
        event
    }
}

/// Runs both futures and returns the outcome of the call.
async fn run_both<T>(call: impl Future<Output = T>, runtime: impl Future<Output = ()>) -> T {
    let (outcome, ()) = timeout(LONG, async { tokio::join!(call, runtime) }).await.expect("it ends");
    outcome
}

#[tokio::test]
async fn a_handler_gets_the_original_record_and_the_messages_own_headers() {
    let function = TestFunction::new(HandlerEvent::Record);
    function.begin_invocation("arn:aws:lambda:eu-west-1:123456789012:function:orders", Some("Root=1-ours"));
    let one = test_message(1);
    let (message, record) = one.parts();
    let end = deadline();
    let called =
        function.invoke(Invocation { trace: None, logs: None, message: &message, record: &record, end });
    let served = async {
        let runtime = function.runtime(1).await;
        let (headers, event) = runtime.next_invocation().await;
        let id = headers["lambda-runtime-aws-request-id"].clone();
        assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 4);
        assert_eq!(headers["lambda-runtime-deadline-ms"], end.timestamp_millis().to_string());
        assert_eq!(
            headers["lambda-runtime-invoked-function-arn"],
            "arn:aws:lambda:eu-west-1:123456789012:function:orders"
        );
        assert_eq!(headers["lambda-runtime-trace-id"], "Root=1-a;Sampled=1");
        let context: Value = serde_json::from_str(&headers["lambda-runtime-client-context"]).unwrap();
        assert_eq!(context, json!({ "custom": { "Idempotency-Key": "id-1", "X-Redeliver-Attempt": "2" } }));
        let text = |value: &str| json!({"stringValue": value, "stringListValues": [], "binaryListValues": [], "dataType": "String"});
        assert_eq!(
            event,
            json!({"Records": [{
                "messageId": "sqs-1",
                "receiptHandle": "handle",
                "body": "{\"n\":1}",
                "attributes": {
                    "ApproximateReceiveCount": "3",
                    "AWSTraceHeader": "Root=1-a;Sampled=1",
                    "SentTimestamp": "1750000000000",
                    "SenderId": "AIDA",
                    "ApproximateFirstReceiveTimestamp": "1750000000005",
                    "MessageGroupId": "tenant",
                },
                "messageAttributes": {
                    "Redeliver": text("{}"),
                    "kind": text("new \"x\""),
                    "raw": {
                        "binaryValue": "AP8=", "stringListValues": [], "binaryListValues": [], "dataType": "Binary",
                    },
                },
                "md5OfBody": "082c26c8a6bc75226a31da5495cc9292",
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:orders",
                "awsRegion": "eu-west-1",
            }]})
        );
        let other = runtime.post("runtime/invocation/another/response", "null").await;
        assert_eq!(other.status(), StatusCode::BAD_REQUEST, "it is not the id of an invocation");
        let first = runtime.post(&format!("runtime/invocation/{id}/error"), r#"{"errorType":"E"}"#).await;
        assert_eq!(first.status(), StatusCode::ACCEPTED);
        let second = runtime.post(&format!("runtime/invocation/{id}/response"), "null").await;
        assert_eq!(second.status(), StatusCode::BAD_REQUEST, "the invocation already has a response");
    };
    let error = run_both(called, served).await.unwrap_err();
    assert_eq!(error.error_type.name(), "E");
}

/// The handler's log lines have this request id and are in the environment's log stream.
#[tokio::test]
async fn a_calls_log_location_has_the_request_id_from_the_handlers_context() {
    let stream = || LogLocation::in_stream(Some("/aws/lambda/orders".to_owned()), Some("s".to_owned()));
    let ours = || stream().with_request_id(Some("ours"));
    for handler_event in [HandlerEvent::Record, HandlerEvent::Batch] {
        let function = TestFunction::new(handler_event);
        let one = test_message(1);
        let (message, record) = one.parts();
        let logs = CallLogs::new(ours());
        let invocation = Invocation {
            trace: None,
            logs: Some(&logs),
            message: &message,
            record: &record,
            end: deadline(),
        };
        let served = async {
            let runtime = function.runtime(1).await;
            let (headers, _) = runtime.next_invocation().await;
            let id = &headers["lambda-runtime-aws-request-id"];
            // The location is set before the response, since a call that is cut off has no response.
            assert_eq!(logs.location(), stream().with_request_id(Some(id)));
            runtime.post(&format!("runtime/invocation/{id}/error"), r#"{"errorType":"E"}"#).await;
        };
        run_both(function.invoke(invocation), served).await.unwrap_err();
        assert!(logs.location().request_id().is_some_and(|id| id != "ours"));
    }
    let command = command(&["sh", "-c", "exit 1"]);
    let function = OwnFunction::new(Processes::new(command, NonZeroU16::MIN), HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let logs = CallLogs::new(ours());
    let invocation =
        Invocation { trace: None, logs: Some(&logs), message: &message, record: &record, end: deadline() };
    function.invoke(invocation).await.unwrap_err();
    assert_eq!(logs.location(), stream(), "no log line of a function that does not start has the id");
}

#[tokio::test]
async fn a_handler_receives_the_trace_from_the_messages_traceparent() {
    let function = TestFunction::new(HandlerEvent::Record);
    let mut one = test_message(1);
    let parent = Attribute::string("00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01");
    one.attributes.insert("traceparent".to_owned(), parent);
    one.record.trace_header = Some("Root=1-a;Sampled=1;Lineage=a:1".to_owned());
    let (message, record) = one.parts();
    let called = function.invoke(Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record,
        end: deadline(),
    });
    let served = async {
        let runtime = function.runtime(1).await;
        let (headers, _) = runtime.next_invocation().await;
        let id = &headers["lambda-runtime-aws-request-id"];
        runtime.post(&format!("runtime/invocation/{id}/response"), "null").await;
        headers["lambda-runtime-trace-id"].clone()
    };
    let (outcome, trace) = tokio::join!(called, served);
    assert_eq!(outcome, Ok(()));
    assert_eq!(
        trace,
        "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a:1"
    );
}

#[test]
fn a_record_has_its_redrive_source_and_only_attributes_from_sqs() {
    let one = test_message(1);
    let (message, record) = one.parts();
    let record = ReceivedMessage {
        first_received_at: None,
        message_group_id: None,
        trace_header: None,
        sender_id: None,
        redriven_from: Some("arn:aws:sqs:eu-west-1:123456789012:dlq".to_owned()),
        ..record
    };
    let json = event::encode_record(&Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record,
        end: deadline(),
    });
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        json["attributes"],
        json!({
            "ApproximateReceiveCount": "3",
            "SentTimestamp": "1750000000000",
            "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:123456789012:dlq",
        })
    );
}

#[tokio::test]
async fn calls_started_together_share_an_invocation_but_not_an_outcome() {
    let function = TestFunction::new(HandlerEvent::Batch);
    let all = [1, 2, 3].map(test_message);
    let messages = all.each_ref().map(TestMessage::parts);
    let end = deadline();
    let calls = messages.iter().map(|(message, record)| {
        function.invoke(Invocation { trace: None, logs: None, message, record, end })
    });
    let served = async {
        let runtime = function.runtime(1).await;
        let event = runtime.respond(r#"{"batchItemFailures":[{"itemIdentifier":"sqs-2"}]}"#).await;
        let ids: Vec<_> =
            event["Records"].as_array().unwrap().iter().map(|record| record["messageId"].clone()).collect();
        assert_eq!(ids, ["sqs-1", "sqs-2", "sqs-3"]);
    };
    let outcomes = run_both(join_all(calls), served).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
}

#[tokio::test]
async fn a_call_dropped_before_its_invocation_is_not_in_the_event() {
    let function = TestFunction::new(HandlerEvent::Batch);
    let all = [1, 2, 3].map(test_message);
    let [first, second, third] = all.each_ref().map(TestMessage::parts);
    let end = deadline();
    let call =
        |(message, record)| function.invoke(Invocation { trace: None, logs: None, message, record, end });
    let mut first_call = Box::pin(call((&first.0, &first.1)));
    let mut dropped = Box::pin(call((&second.0, &second.1)));
    assert!(poll!(&mut first_call).is_pending() && poll!(&mut dropped).is_pending());
    drop(dropped);
    let mut waiting_call = Box::pin(call((&third.0, &third.1)));
    assert!(poll!(&mut waiting_call).is_pending());
    let served = async {
        let event = function.runtime(1).await.respond("null").await;
        let records = event["Records"].as_array().unwrap();
        let ids: Vec<_> = records.iter().map(|record| record["messageId"].clone()).collect();
        assert_eq!(ids, ["sqs-1", "sqs-3"], "the dropped call's message is handed off as cut off");
    };
    assert_eq!(run_both(join_all([first_call, waiting_call]), served).await, [Ok(()), Ok(())]);
}

#[tokio::test]
async fn a_call_dropped_as_it_starts_does_not_block_later_calls() {
    let function = TestFunction::new(HandlerEvent::Batch);
    let all = [1, 2, 3].map(test_message);
    let [first, second, third] = all.each_ref().map(TestMessage::parts);
    let end = deadline();
    let call =
        |(message, record)| function.invoke(Invocation { trace: None, logs: None, message, record, end });
    let mut dropped = Box::pin(call((&first.0, &first.1)));
    let mut waiting_call = Box::pin(call((&second.0, &second.1)));
    assert!(poll!(&mut dropped).is_pending() && poll!(&mut waiting_call).is_pending());
    drop(dropped);
    let error = timeout(LONG, waiting_call).await.expect("it ends").unwrap_err();
    assert_eq!(error.error_type.name(), "Timeout");
    let served = async {
        let event = function.runtime(1).await.respond("null").await;
        assert_eq!(event["Records"][0]["messageId"], "sqs-3");
        assert_eq!(event["Records"].as_array().unwrap().len(), 1);
    };
    assert_eq!(run_both(call((&third.0, &third.1)), served).await, Ok(()));
}

#[tokio::test]
async fn a_response_over_six_megabytes_is_refused_and_fails_the_record() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let answered = async |bytes| {
        let called = function.invoke(Invocation {
            trace: None,
            logs: None,
            message: &message,
            record: &record,
            end: deadline(),
        });
        let mut status = None;
        let served = async {
            let runtime = function.runtime(1).await;
            let (headers, _) = runtime.next_invocation().await;
            let path = format!("runtime/invocation/{}/response", headers["lambda-runtime-aws-request-id"]);
            status = Some(runtime.post(&path, vec![b' '; bytes]).await.status());
        };
        let outcome = run_both(called, served).await;
        (status.unwrap(), outcome.map_err(|error| error.error_type.name().into_owned()))
    };
    assert_eq!(answered(6_291_556).await, (StatusCode::ACCEPTED, Ok(())));
    let too_large = Err("Function.ResponseSizeTooLarge".to_owned());
    assert_eq!(answered(6_291_557).await, (StatusCode::PAYLOAD_TOO_LARGE, too_large));
}

/// The response from aws-lambda-ric 4.1 for a handler wrapped in `awslambda.streamifyResponse`.
#[tokio::test]
async fn a_failed_streamed_response_yields_the_error_from_its_trailers() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let answered = async |text: &str, trailers: &str| {
        let called = function.invoke(Invocation {
            trace: None,
            logs: None,
            message: &message,
            record: &record,
            end: deadline(),
        });
        let served = async {
            let runtime = function.runtime(1).await;
            let (headers, _) = runtime.next_invocation().await;
            let id = &headers["lambda-runtime-aws-request-id"];
            let authority = runtime.base.strip_prefix("http://").unwrap().split('/').next().unwrap();
            let mut stream = TcpStream::connect(authority).await.unwrap();
            let chunk =
                if text.is_empty() { String::new() } else { format!("{:x}\r\n{text}\r\n", text.len()) };
            let request = format!(
                "POST /2018-06-01/runtime/invocation/{id}/response HTTP/1.1\r\nHost: {authority}\r\n\
                 Lambda-Runtime-Function-Response-Mode: streaming\r\n\
                 Trailer: Lambda-Runtime-Function-Error-Type, Lambda-Runtime-Function-Error-Body\r\n\
                 Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n{chunk}0\r\n{trailers}\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut accepted = String::new();
            stream.read_to_string(&mut accepted).await.unwrap();
            assert!(accepted.starts_with("HTTP/1.1 202 "), "{accepted}");
        };
        let outcome = run_both(called, served).await;
        outcome.map_err(|error| (error.error_type.name().into_owned(), error.details))
    };
    let body = BASE64_STANDARD.encode(
        r#"{"errorType":"CardDeclined","errorMessage":"no funds","trace":["CardDeclined: no funds","    at index.js:3:9"]}"#,
    );
    let typed = "Lambda-Runtime-Function-Error-Type: CardDeclined\r\n";
    let both = format!("{typed}Lambda-Runtime-Function-Error-Body: {body}\r\n");
    let declined = |details: &str| Err(("CardDeclined".to_owned(), details.to_owned()));
    for text in ["", r#"{"ok":true}"#, "half an ans"] {
        assert_eq!(answered(text, &both).await, declined("no funds (at index.js:3:9)"), "{text}");
    }
    assert_eq!(answered("", typed).await, declined(""));
    let no_base64 = format!("{typed}Lambda-Runtime-Function-Error-Body: %\r\n");
    assert_eq!(answered("", &no_base64).await, declined(""));
    assert_eq!(answered(r#"{"ok":true}"#, "").await, Ok(()));
}

#[tokio::test]
async fn a_function_exit_fails_one_message_and_the_next_call_restarts_it() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    let served = async {
        let runtime = function.runtime(1).await;
        runtime.next_invocation().await;
        function.signal(Signal::KILL);
    };
    let error = run_both(function.invoke(invocation), served).await.unwrap_err();
    assert_eq!(error.error_type.name(), "Runtime.Exited");
    assert_eq!(error.details, "the function's process ended: signal: 9 (SIGKILL)");
    assert_eq!(error.kind, FailureKind::Transient);

    let served = async { drop(function.runtime(2).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), served).await, Ok(()));
}

#[tokio::test]
async fn a_function_exit_between_calls_does_not_use_up_an_attempt() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    let first = async { drop(function.runtime(1).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), first).await, Ok(()));
    function.signal(Signal::KILL);
    let second = async { drop(function.runtime(2).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), second).await, Ok(()));
}

#[tokio::test]
async fn a_response_counts_even_if_the_function_then_exits() {
    let own = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let mut call = pin!(own.invoke(Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record,
        end: deadline()
    }));
    let taken = async {
        let runtime = own.runtime(1).await;
        let (headers, _) = runtime.next_invocation().await;
        (runtime, headers["lambda-runtime-aws-request-id"].clone())
    };
    let (runtime, id) = tokio::select! {
        outcome = &mut call => panic!("{outcome:?}"),
        taken = taken => taken,
    };
    // The call observes the response and the exit at the same time.
    let accepted = runtime.post(&format!("runtime/invocation/{id}/response"), "null").await;
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    own.signal(Signal::KILL);
    wait_until(|| !is_running(&own.started_processes()[0].1)).await;
    assert_eq!(call.await, Ok(()));
}

#[tokio::test]
async fn calls_run_concurrently_up_to_the_process_limit() {
    let all = [1, 2].map(test_message);
    let messages = all.each_ref().map(TestMessage::parts);
    let end = deadline();
    let both = async |own: &TestFunction, served| {
        let calls = messages.iter().map(|(message, record)| {
            own.invoke(Invocation { trace: None, logs: None, message, record, end })
        });
        assert_eq!(run_both(join_all(calls), served).await, [Ok(()), Ok(())]);
    };
    let one = TestFunction::new(HandlerEvent::Record);
    let in_turn = async {
        let runtime = one.runtime(1).await;
        for _ in &messages {
            tokio::select! {
                _ = runtime.respond("null") => {}
                _ = one.runtime(2) => panic!("a second process was started"),
            }
        }
    };
    both(&one, in_turn.boxed_local()).await;

    let script = "exec sleep 1000";
    let two =
        TestFunction::with_processes(NonZeroU16::new(2).unwrap(), script, HandlerEvent::Record, |own| own);
    let at_once = async {
        let (first, second) = tokio::join!(two.runtime(1), two.runtime(2));
        tokio::join!(first.respond("null"), second.respond("null"));
    };
    both(&two, at_once.boxed_local()).await;
}

#[tokio::test]
async fn a_function_receives_sigterm_once_its_call_has_ended() {
    let own = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let call = own.invoke(Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record,
        end: deadline(),
    });
    let served = async {
        let runtime = own.runtime(1).await;
        let (headers, _) = runtime.next_invocation().await;
        let mut end = pin!(own.runtime.stop_all());
        assert!(poll!(&mut end).is_pending(), "a call is under way");
        let path = format!("runtime/invocation/{}/response", headers["lambda-runtime-aws-request-id"]);
        assert_eq!(runtime.post(&path, "null").await.status(), StatusCode::ACCEPTED);
        end.await;
    };
    assert_eq!(run_both(call, served).await, Ok(()));
}

fn command(words: &[&str]) -> RuntimeCommand {
    RuntimeCommand::new(words.iter().map(Into::into)).unwrap()
}

#[test]
fn another_wrapper_runs_the_runtimes_command() {
    let ours = command(&["python3", "-m", "awslambdaric", "app.handler"]);
    let words = ["/opt/other", "python3", "-m", "awslambdaric", "app.handler"];
    assert_eq!(ours.clone().with_wrapper(Some("/opt/other".to_owned())), command(&words));
    assert_eq!(ours.clone().with_wrapper(None), ours);
}

/// The runtime interface client for Node.js reads the variable; the client for Python reads the last word.
#[test]
fn the_handler_is_the_commands_last_word_outside_lambda() {
    let variables = command(&["node_modules/.bin/aws-lambda-ric", "--flag", "index.handler"]);
    let variables = BTreeMap::from_iter(variables.with_lambda_variables("orders").variables);
    assert_eq!(variables["_HANDLER"], "index.handler");
    assert_eq!(variables["AWS_LAMBDA_FUNCTION_NAME"], "orders");
}

/// If it inherited the variable, a runtime whose bootstrap runs the wrapper would start redeliver endlessly.
#[tokio::test]
async fn a_function_does_not_inherit_the_wrapper_variable() {
    let command = command(&["sh", "-c", "exit ${AWS_LAMBDA_EXEC_WRAPPER:+1}"]);
    let variables = vec![("AWS_LAMBDA_EXEC_WRAPPER", "/opt/redeliver".into())];
    let processes = Processes::new(RuntimeCommand { variables, ..command }, NonZeroU16::MIN);
    assert_eq!(processes.start_first_process().await.unwrap().unwrap_err().describe_exit(), "exit status: 0");
}

#[tokio::test]
async fn a_function_that_never_starts_is_unavailable_after_two_tries() {
    let function = TestFunction::with_script("exit 1", HandlerEvent::Record, |function| function);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    let error = timeout(LONG, function.invoke(invocation)).await.expect("it ends").unwrap_err();
    assert_eq!(
        (error.error_type.name().as_ref(), error.kind),
        ("Runtime.ExitError", FailureKind::Unavailable(None))
    );
    assert_eq!(function.started_processes().len(), 2);

    let missing = RuntimeCommand::new(["/no/such/program".into()]).unwrap();
    let missing = OwnFunction::new(Processes::new(missing, NonZeroU16::MIN), HandlerEvent::Record);
    let error = missing.invoke(invocation).await.unwrap_err();
    assert_eq!(error.error_type.name(), "Runtime.NotStarted");
    assert_eq!(error.details, "the function cannot be started: No such file or directory (os error 2)");
}

#[tokio::test]
async fn child_processes_end_with_their_function() {
    let script = "sleep 1000 & echo \"- $!\" >> \"$1\"; exec sleep 1000";
    let function = TestFunction::with_script(script, HandlerEvent::Record, |function| function);
    let one = test_message(1);
    let (message, record) = one.parts();
    let called = function.invoke(Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record,
        end: deadline(),
    });
    let served = async {
        function.runtime(1).await.next_invocation().await;
        wait_until(|| function.started_processes().len() == 2).await;
        // Kills only the process itself, as a crash would.
        let id = rustix::process::Pid::from_raw(function.started_processes()[0].1.parse().unwrap()).unwrap();
        rustix::process::kill_process(id, Signal::KILL).unwrap();
    };
    assert_eq!(run_both(called, served).await.unwrap_err().error_type.name(), "Runtime.Exited");
    let left = &function.started_processes()[1].1;
    wait_until(|| !is_running(left)).await;
}

#[tokio::test]
async fn concurrent_batches_use_separate_invocations() {
    let function = TestFunction::new(HandlerEvent::Batch);
    let all = [1, 2].map(test_message);
    let messages = all.each_ref().map(TestMessage::parts);
    let ends = [deadline(), deadline() + Duration::from_secs(1)];
    let calls = messages.iter().zip(ends).map(|((message, record), end)| {
        function.invoke(Invocation { trace: None, logs: None, message, record, end })
    });
    let served = async {
        let runtime = function.runtime(1).await;
        for _ in 0..2 {
            let event = runtime.respond("null").await;
            assert_eq!(event["Records"].as_array().unwrap().len(), 1);
        }
    };
    assert_eq!(run_both(join_all(calls), served).await, [Ok(()), Ok(())]);
}

#[tokio::test]
async fn a_cut_off_call_kills_the_functions_child_processes() {
    let script = "sleep 1000 & echo \"- $!\" >> \"$1\"; wait";
    let function = TestFunction::with_script(script, HandlerEvent::Record, |function| function);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    {
        let mut call = pin!(function.invoke(invocation));
        let taken = async {
            function.runtime(1).await.next_invocation().await;
            wait_until(|| function.started_processes().len() == 2).await;
        };
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = taken => {}
        }
    }
    let started = function.started_processes();
    wait_until(|| started.iter().all(|(_, id)| !is_running(id))).await;
    assert!(lock(&function.runtime.idle).is_empty());
}

/// If each batch restarted it, a slow function would never become ready.
#[tokio::test]
async fn a_function_still_starting_when_its_call_is_dropped_is_kept() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    {
        let mut call = pin!(function.invoke(invocation));
        tokio::select! {
            outcome = &mut call => panic!("{outcome:?}"),
            () = wait_until(|| !function.started_processes().is_empty()) => {}
        }
    }
    let served = async { drop(function.runtime(1).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), served).await, Ok(()));
    assert_eq!(function.started_processes().len(), 1, "it was started once");
}

/// A wrapper may send traces after each call, or the runtime may collect garbage. A restart would take longer.
#[tokio::test]
async fn a_function_that_is_still_busy_after_responding_is_not_killed() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    let served = async { drop(function.runtime(1).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), served).await, Ok(()));

    let soon = Invocation { end: SystemClock.now() + Duration::from_millis(20), ..invocation };
    let outcome = timeout(LONG, function.invoke(soon)).await.expect("it ends at its deadline");
    assert_eq!(outcome.unwrap_err().kind, FailureKind::NotStarted);
    let served = async { drop(function.runtime(1).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), served).await, Ok(()));
    assert_eq!(function.started_processes().len(), 1, "it was started once");
}

/// AWS's runtime for Node.js sends requests in this order after an error in a stream.
#[tokio::test]
async fn a_task_request_made_before_the_response_still_gets_the_next_task() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    let calls = async {
        assert_eq!(function.invoke(invocation).await, Ok(()));
        function.invoke(invocation).await
    };
    let served = async {
        let runtime = function.runtime(1).await;
        let (headers, _) = runtime.next_invocation().await;
        let id = &headers["lambda-runtime-aws-request-id"];
        let answered = async {
            // Meanwhile, the runtime requests the next task.
            tokio::time::sleep(Duration::from_millis(50)).await;
            runtime.post(&format!("runtime/invocation/{id}/response"), "null").await
        };
        let ((headers, _), _) = tokio::join!(runtime.next_invocation(), answered);
        let id = &headers["lambda-runtime-aws-request-id"];
        runtime.post(&format!("runtime/invocation/{id}/response"), "null").await;
    };
    assert_eq!(run_both(calls, served).await, Ok(()));
    assert_eq!(function.started_processes().len(), 1, "it was started once");
}

/// If the function were kept, each later message would wait for it until the message's own deadline.
#[tokio::test]
async fn a_function_that_never_requests_another_task_is_killed() {
    let function = TestFunction::new(HandlerEvent::Record);
    let one = test_message(1);
    let (message, record) = one.parts();
    let invocation =
        Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
    let served = async { drop(function.runtime(1).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), served).await, Ok(()));

    let long_ago = SystemClock.now() - Duration::from_secs(31);
    let answered_at = lock(&function.runtime.idle)[0].answered_at.replace(long_ago);
    assert!(answered_at.is_some_and(|at| at > long_ago), "{answered_at:?}");
    let soon = Invocation { end: SystemClock.now() + Duration::from_millis(20), ..invocation };
    let outcome = timeout(LONG, function.invoke(soon)).await.expect("it ends at its deadline");
    assert_eq!(outcome.unwrap_err().kind, FailureKind::NotStarted);
    let served = async { drop(function.runtime(2).await.respond("null").await) };
    assert_eq!(run_both(function.invoke(invocation), served).await, Ok(()));
    assert_eq!(function.started_processes().len(), 2, "a new process was started");
}

#[tokio::test]
async fn the_first_init_error_and_extension_requests_are_forwarded_to_lambda() {
    let answer = || ScriptedResponse::new(202, &[("x-own", "1")], "up");
    let lambda = Loopback::start([answer(), answer()]).await;
    let address = lambda.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let own = TestFunction::with_script("exec sleep 1000", HandlerEvent::Record, |own| {
        own.with_runtime_api(Some(&address))
    });
    let began = async {
        let runtime = own.runtime(1).await;
        let error = runtime.client.post(format!("{}/runtime/init/error", runtime.base));
        let error = error.header("lambda-runtime-function-error-type", "Runtime.Import");
        let response = error.body(r#"{"errorType":"Import"}"#).send().await.unwrap();
        assert_eq!(
            (response.status(), response.headers()["x-own"].to_str().unwrap()),
            (StatusCode::ACCEPTED, "1")
        );
        let other = runtime.client.put(format!("{}/extension/register?a=b", runtime.base)).body("x").send();
        assert_eq!(other.await.unwrap().text().await.unwrap(), "up");
        own.signal(Signal::TERM);
    };
    let ended = run_both(own.runtime.start_first_process(), began).await.unwrap().unwrap_err();
    assert_eq!(ended.describe_exit(), "signal: 15 (SIGTERM)");
    let requests = lambda.requests();
    let lines: Vec<_> = requests.iter().map(|request| request.line.as_str()).collect();
    assert_eq!(
        lines,
        ["POST /2018-06-01/runtime/init/error HTTP/1.1", "PUT /2018-06-01/extension/register?a=b HTTP/1.1"]
    );
    assert_eq!(
        requests.iter().map(|request| &request.body[..]).collect::<Vec<_>>(),
        [br#"{"errorType":"Import"}"#, &b"x"[..]]
    );
    assert_eq!(requests[0].header("lambda-runtime-function-error-type"), ["Runtime.Import"]);
    assert_eq!(requests[0].header("host"), [&*address], "Lambda's host, not ours");
}

#[tokio::test]
async fn a_later_init_error_fails_messages_and_is_not_sent_to_lambda() {
    let lambda = Loopback::start([]).await;
    let address = lambda.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let own = TestFunction::with_script("exec sleep 1000", HandlerEvent::Record, |own| {
        own.with_runtime_api(Some(&address))
    });
    let one = test_message(1);
    let (message, record) = one.parts();
    let call = own.invoke(Invocation {
        trace: None,
        logs: None,
        message: &message,
        record: &record,
        end: deadline(),
    });
    let failed = async {
        let runtime = own.runtime(1).await;
        runtime.post("runtime/init/error", r#"{"errorType":"Import","errorMessage":"no module"}"#).await;
        own.signal(Signal::KILL);
    };
    let error = run_both(call, failed).await.unwrap_err();
    assert_eq!((error.error_type.name().as_ref(), error.details.as_str()), ("Import", "no module"));
    assert_eq!(error.kind, FailureKind::Unavailable(None));
    assert!(lambda.requests().is_empty(), "an init error would end the environment");
}

#[tokio::test]
async fn the_snapshot_is_restored_before_the_first_invocation() {
    let own = TestFunction::new(HandlerEvent::Record);
    let is_restored = Cell::new(false);
    let restore = async {
        let runtime = own.runtime(1).await;
        let url = format!("{}/runtime/restore/next", runtime.base);
        assert_eq!(runtime.client.get(url).send().await.unwrap().status(), StatusCode::OK);
        // The function's hooks have run by the time it requests an invocation.
        assert!(!is_restored.get(), "Lambda waits for them");
        runtime.respond("null").await;
    };
    let lambda = async {
        own.runtime.start_first_process().await.unwrap().unwrap();
        own.resume_after_restore().await;
        is_restored.set(true);
        let one = test_message(1);
        let (message, record) = one.parts();
        own.invoke(Invocation {
            trace: None,
            logs: None,
            message: &message,
            record: &record,
            end: deadline(),
        })
        .await
    };
    assert_eq!(run_both(lambda, restore).await, Ok(()));
}

/// Returns a function that hangs, with a time limit of 1 ms.
fn hanging_function() -> TestFunction {
    TestFunction::with_script("exec sleep 1000", HandlerEvent::Record, |own| {
        own.with_time_limit(Duration::from_millis(1))
    })
}

#[tokio::test]
async fn a_call_outside_lambda_has_its_own_time_limit() {
    let own = hanging_function();
    let asks = async {
        let runtime = own.runtime(1).await;
        tokio::spawn(async move { runtime.next_invocation().await });
    };
    run_both(own.runtime.start_first_process(), asks).await.unwrap().unwrap();
    let one = test_message(1);
    let (message, record) = one.parts();
    let error = own
        .invoke(Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() })
        .await
        .unwrap_err();
    assert_eq!(error.error_type.name(), "Timeout");
    assert!(lock(&own.runtime.idle).is_empty(), "the hanging process is killed");
}

#[tokio::test]
async fn a_call_outside_lambda_that_times_out_during_startup_counts_as_not_started() {
    let own = hanging_function();
    let one = test_message(1);
    let (message, record) = one.parts();
    for _ in 0..20 {
        let call = own.invoke(Invocation {
            trace: None,
            logs: None,
            message: &message,
            record: &record,
            end: deadline(),
        });
        assert_eq!(call.await.unwrap_err().kind, FailureKind::NotStarted);
    }
    wait_until(|| !own.started_processes().is_empty()).await;
    assert_eq!(own.started_processes().len(), 1, "a starting process is not started again");
}

#[tokio::test]
async fn a_functions_own_queue_is_recognized_by_account_and_name() {
    let own = |url| {
        let command = command(&["true"]);
        OwnFunction::new(Processes::new(command, NonZeroU16::MIN), HandlerEvent::Record)
            .with_source_queue(url)
    };
    let orders = own(Some("https://sqs.eu-west-1.amazonaws.com/123456789012/orders"));
    for (arn, is_own) in [
        ("arn:aws:sqs:eu-west-1:123456789012:orders", true),
        ("arn:aws:sqs:eu-west-1:123456789012:other-orders", false),
        ("arn:aws:sqs:eu-west-1:999999999999:orders", false),
        ("arn:aws:sqs:eu-west-1:123456789012:refunds", false),
    ] {
        assert_eq!(orders.is_own_queue(arn), is_own, "{arn}");
        assert!(own(None).is_own_queue(arn), "its own queue is unknown");
    }
}

#[tokio::test]
async fn a_non_sqs_event_is_passed_on_and_its_response_returned() {
    let own = TestFunction::new(HandlerEvent::Record);
    own.begin_invocation("arn:aws:lambda:eu-west-1:123456789012:function:orders", Some("Root=1-ours"));
    let end = deadline();
    let mut context = Context::default();
    context.request_id = "lambdas-own".to_owned();
    let served = async {
        let runtime = own.runtime(1).await;
        let (headers, event) = runtime.next_invocation().await;
        assert_eq!(event, json!({ "source": "aws.events" }));
        assert_eq!(headers["lambda-runtime-deadline-ms"], end.timestamp_millis().to_string());
        assert_eq!(headers["lambda-runtime-trace-id"], "Root=1-ours", "there is no message with a trace");
        // The id is the same for each retry of an asynchronous invocation.
        assert_eq!(headers["lambda-runtime-aws-request-id"], "lambdas-own");
        runtime.post("runtime/invocation/lambdas-own/response", r#"{"ok":true}"#).await;
    };
    let answer =
        run_both(own.handle_other_event(r#"{"source":"aws.events"}"#, &context, end), served).await.unwrap();
    assert_eq!(answer.unwrap().get(), r#"{"ok":true}"#);
}

async fn wait_until(condition: impl Fn() -> bool) {
    let polling = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, polling).await.expect("the condition becomes true");
}

fn is_running(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A runtime whose handler always returns this response.
struct FixedResponse(&'static str);

impl super::FunctionRuntime for FixedResponse {
    async fn run_handler(&self, _: FunctionInvocation<'_>) -> Result<super::FunctionResponse, HandlerError> {
        Ok(super::FunctionResponse::Response(self.0.into()))
    }
}

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<DomainEvent>>);

impl Observer for RecordingObserver {
    fn observe(&self, event: &DomainEvent) {
        lock(&self.0).push(event.clone());
    }
}

/// Makes two calls that receive this response; returns their outcomes and the reported shapes.
async fn outcomes_and_shapes(
    answer: &'static str,
    handler_event: HandlerEvent,
) -> ([bool; 2], Vec<&'static str>) {
    let noted = Arc::new(RecordingObserver::default());
    let observer: Arc<dyn Observer> = noted.clone();
    let function = OwnFunction::new(FixedResponse(answer), handler_event).with_observer(observer);
    let one = test_message(1);
    let (message, record) = one.parts();
    let call = || {
        let invocation =
            Invocation { trace: None, logs: None, message: &message, record: &record, end: deadline() };
        function.invoke(invocation)
    };
    let outcomes = [call().await.is_ok(), call().await.is_ok()];
    let shapes = function.shapes_taken_as_success();
    let events: Vec<_> = shapes.iter().map(|shape| DomainEvent::AnswerTakenAsSuccess { shape }).collect();
    assert_eq!(*lock(&noted.0), events, "{answer}");
    (outcomes, shapes)
}

/// The event is the only evidence that the handler meant to fail messages.
#[tokio::test]
async fn a_response_that_resembles_a_report_is_reported_once_per_shape() {
    for handler_event in [HandlerEvent::Record, HandlerEvent::Batch] {
        for (answer, shape) in [
            (r#"{"batch_item_failures":[{"item_identifier":"sqs-1"}]}"#, Some("batch_item_failures")),
            (r#"[{"itemIdentifier":"sqs-1"}]"#, Some("list")),
            (r#"{"statusCode":500}"#, Some("statusCode")),
            (r#"{"statusCode":200}"#, None),
        ] {
            let expected = ([true; 2], Vec::from_iter(shape));
            assert_eq!(outcomes_and_shapes(answer, handler_event).await, expected, "{answer}");
        }
    }
}

#[tokio::test]
async fn a_response_that_counts_as_a_failure_is_not_reported() {
    for handler_event in [HandlerEvent::Record, HandlerEvent::Batch] {
        for answer in [
            r#"["sqs-1""#,
            r#"{"batchItemFailures":null,"batchItemFailures":null,"statusCode":500}"#,
            r#"{"batchItemFailures":"sqs-1"}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"sqs-1"}],"statusCode":500}"#,
        ] {
            let expected = ([false; 2], Vec::new());
            assert_eq!(outcomes_and_shapes(answer, handler_event).await, expected, "{answer}");
        }
    }
}

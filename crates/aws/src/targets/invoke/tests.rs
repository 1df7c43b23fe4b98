use aws_credential_types::credential_fn::provide_credentials_fn;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_credential_types::provider::error::CredentialsError;
use redeliver_core::decide::{CallOutcome, call_outcome};
use redeliver_core::handler::FailureKind;
use redeliver_core::message::metadata::HELD_SECONDS_MAX;
use redeliver_core::message::{Attributes, ReceivedMessage};
use redeliver_core::policy::Policy;

use super::*;
use crate::clock::manual::ManualClock;
use crate::targets::Target;
use crate::tests::loopback::{ClosingServer, Loopback, REFUSED_URL, ScriptedResponse, sdk_config, timeouts};
use crate::tests::record;

const LONG: Duration = Duration::from_secs(60);
const ARN: &str = "arn:aws:lambda:eu-central-1:123456789012:function:orders:live";

fn message(body: &str) -> Message<'_> {
    static NONE: Attributes = Attributes::new();
    Message {
        body,
        message_id: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        form: &BodyForm::Envelope,
        retry_attempt: 0,
        redrive_generation: 0,
        held_seconds: 0,
        attributes: &NONE,
    }
}

async fn call(server: &Loopback, timeout: Duration, body: &str) -> Result<(), HandlerError> {
    LambdaTarget::new(&server.sdk_config(), ARN.to_owned(), timeout).handle(&message(body)).await
}

/// Returns the target's error for an error from Lambda itself, whose message must not be repeated.
async fn lambda_error(status: u16, code: &str) -> HandlerError {
    let headers = [("x-amzn-errortype", code), ("content-type", "application/json")];
    let server = Loopback::start([ScriptedResponse::new(status, &headers, r#"{"Message":"CANARY"}"#)]).await;
    let error = call(&server, LONG, "{}").await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "the policy retries, not the SDK");
    assert!(!format!("{error:?}").contains("CANARY"), "{error:?}");
    error
}

#[tokio::test]
async fn the_function_is_invoked_synchronously_with_the_unchanged_body() {
    let body = "{ \"data\" : {\"n\":1e400,\"é\":\"\\u00e9😀\",\"n\":0.10}}\n";
    let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
    assert_eq!(call(&server, LONG, body).await, Ok(()));
    let request = server.request();
    assert_eq!(request.body, body.as_bytes());
    assert_eq!(request.header("x-amz-invocation-type"), ["RequestResponse"]);
    let path = format!("/2015-03-31/functions/{}/invocations", ARN.replace(':', "%3A"));
    assert_eq!(request.line, format!("POST {path} HTTP/1.1"));
}

#[tokio::test]
async fn the_function_receives_the_messages_trace() {
    let xray = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1;Lineage=a:1";
    for (trace_header, sent) in [(Some(xray), vec![xray]), (None, vec![])] {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
        let target = LambdaTarget::new(&server.sdk_config(), ARN.to_owned(), LONG);
        let record = ReceivedMessage { trace_header: trace_header.map(str::to_owned), ..record(None) };
        let invocation = Invocation {
            trace: None,
            logs: None,
            message: &message("{}"),
            record: &record,
            end: Timestamp::MAX_UTC,
        };
        assert_eq!(target.invoke(invocation).await, Ok(()));
        assert_eq!(server.request().header("x-amzn-trace-id"), sent);
    }
}

#[tokio::test]
async fn a_function_in_another_region_is_called_there() {
    // The scripted server's configuration is for eu-central-1.
    let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
    let arn = ARN.replace("eu-central-1", "us-east-1");
    let target = LambdaTarget::new(&server.sdk_config(), arn, LONG);
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    let request = server.request();
    let signature = request.header("authorization").concat();
    assert!(signature.contains("/us-east-1/lambda/aws4_request"), "{signature}");
}

#[tokio::test]
async fn a_function_error_is_transient_and_has_its_type_and_message() {
    let body = r#"{"errorType":"OrderLocked","errorMessage":"order 7 is locked","stackTrace":[]}"#;
    let server =
        Loopback::start([ScriptedResponse::new(200, &[("X-Amz-Function-Error", "Unhandled")], body)]).await;
    let error = call(&server, LONG, "{}").await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::FromTarget("OrderLocked".to_owned()));
    assert_eq!((error.kind, error.details.as_str()), (FailureKind::Transient, "order 7 is locked"));
    assert_eq!(error.error_type.loggable_name(), "FromTarget");
}

#[tokio::test]
async fn a_function_error_has_the_version_behind_the_alias() {
    let headers = [("X-Amz-Function-Error", "Unhandled"), ("X-Amz-Executed-Version", "7")];
    let server = Loopback::start([ScriptedResponse::new(200, &headers, "{}")]).await;
    assert_eq!(call(&server, LONG, "{}").await.unwrap_err().function.as_deref(), Some("orders:7"));
    assert_eq!(lambda_error(500, "ServiceException").await.function, None);
}

/// The processor's own log contains no output from the function.
#[tokio::test]
async fn a_function_error_has_the_log_location_of_its_own_invocation() {
    let ours = || {
        let location = LogLocation::in_stream(Some("/aws/lambda/mp".to_owned()), Some("stream".to_owned()));
        location.with_request_id(Some("ours"))
    };
    let theirs = "7b1c7d3e-0191-4f3a-8f00-0123456789ab";
    let id = ("x-amzn-requestid", theirs);
    let failed = ("X-Amz-Function-Error", "Unhandled");
    for (answer, expected) in [
        (
            ScriptedResponse::new(200, &[failed, id], "{}"),
            LogLocation::default().with_request_id(Some(theirs)),
        ),
        (ScriptedResponse::new(200, &[failed], "{}"), LogLocation::default()),
        (ScriptedResponse::new(429, &[id], r#"{"Type":"User"}"#), ours()),
    ] {
        let server = Loopback::start([answer]).await;
        let target = LambdaTarget::new(&server.sdk_config(), ARN.to_owned(), LONG);
        let (record, logs, message) = (record(None), CallLogs::new(ours()), message("{}"));
        let end = Timestamp::MAX_UTC;
        let invocation =
            Invocation { trace: None, logs: Some(&logs), message: &message, record: &record, end };
        target.invoke(invocation).await.unwrap_err();
        assert_eq!(logs.location(), expected);
    }
}

/// Python's `RecursionError` has a stack trace of a thousand frames.
#[test]
fn a_function_error_with_a_long_stack_trace_keeps_its_type_and_message() {
    let place = r#""  File \"/var/task/orders.py\", line 17, in walk\n    return walk(child)\n""#;
    let places = vec![place; 1000].join(",");
    let payload =
        format!(r#"{{"errorMessage":"too deep","errorType":"RecursionError","stackTrace":[{places}]}}"#);
    let error = function_error(payload.as_bytes());
    assert_eq!(error.error_type, ErrorType::FromTarget("RecursionError".to_owned()));
    assert_eq!(error.details, "too deep");
}

#[tokio::test]
async fn a_response_that_only_looks_like_an_error_is_a_success() {
    let body = r#"{"errorType":"OrderLocked"}"#;
    assert_eq!(
        call(&Loopback::start([ScriptedResponse::new(200, &[], body)]).await, LONG, "{}").await,
        Ok(())
    );
}

#[test]
fn an_unreadable_function_error_is_transient() {
    let unreadable: [&[u8]; 6] = [b"", b"null", b"CANARY", b"[1]", b"{\"errorType\":7}", b"\xff"];
    for payload in unreadable {
        let error = function_error(payload);
        assert_eq!(error.error_type, ErrorType::Named("Lambda.FunctionError"));
        assert_eq!((error.kind, error.details.as_str()), (FailureKind::Transient, ""));
    }
    let untyped = function_error(br#"{"errorMessage":"2020 Task timed out after 3.00 seconds"}"#);
    assert_eq!(untyped.error_type, ErrorType::Named("Lambda.FunctionError"));
    assert_eq!(untyped.details, "2020 Task timed out after 3.00 seconds");
    let silent = function_error(br#"{"errorType":"Runtime.ExitError","errorMessage":null}"#);
    assert_eq!(silent.error_type, ErrorType::FromTarget("Runtime.ExitError".to_owned()));
    assert_eq!(silent.details, "");
}

#[tokio::test]
async fn an_error_from_lambda_is_transient_unless_the_payload_caused_it() {
    for (status, code, name) in [
        (429, "TooManyRequestsException", "Lambda.Throttled"),
        (403, "AccessDeniedException", "Lambda.AccessDenied"),
        (404, "ResourceNotFoundException", "Lambda.NotFound"),
        (502, "KMSAccessDeniedException", "Lambda.Kms"),
        (502, "KMSDisabledException", "Lambda.Kms"),
        (502, "KMSNotFoundException", "Lambda.Kms"),
        (500, "ServiceException", "Lambda.Service"),
        (502, "EC2ThrottledException", "Lambda.Service"),
        (502, "InvalidRuntimeException", "Lambda.Service"),
        (409, "SnapStartNotReadyException", "Lambda.Service"),
        (415, "UnsupportedMediaTypeException", "Lambda.Service"),
        (409, "ResourceConflictException", "Lambda.Service"),
        (400, "SomethingNewException", "Lambda.Service"),
    ] {
        let error = lambda_error(status, code).await;
        assert_eq!((error.error_type, error.kind), (name.into(), FailureKind::Transient), "{code}");
        assert_eq!(error.details, format!("Lambda answered {code}"));
    }
}

#[tokio::test]
async fn retry_after_from_a_throttled_function_is_honored() {
    for (value, expected) in [
        ("7", FailureKind::TransientAfter(Duration::from_secs(7))),
        ("0", FailureKind::TransientAfter(Duration::ZERO)),
        ("soon", FailureKind::Transient),
    ] {
        let headers = [("x-amzn-errortype", "TooManyRequestsException"), ("Retry-After", value)];
        let server = Loopback::start([ScriptedResponse::new(429, &headers, "{}")]).await;
        let error = call(&server, LONG, "{}").await.unwrap_err();
        assert_eq!((error.error_type, error.kind), ("Lambda.Throttled".into(), expected), "{value}");
    }
}

#[tokio::test]
async fn a_payload_that_lambda_rejects_is_a_permanent_error() {
    for (status, code, name) in [
        (400, "InvalidRequestContentException", "Lambda.InvalidRequestContent"),
        (413, "RequestTooLargeException", "Lambda.RequestTooLarge"),
        (413, "SerializedRequestEntityTooLargeException", "Lambda.RequestTooLarge"),
    ] {
        let error = lambda_error(status, code).await;
        assert_eq!((error.error_type, error.kind), (name.into(), FailureKind::Permanent), "{code}");
        assert_eq!(error.details, format!("Lambda answered {code}"));
    }
}

#[tokio::test]
async fn a_function_timeout_is_transient_and_not_retried() {
    for timeout in timeouts() {
        let server = Loopback::start([ScriptedResponse::hang()]).await;
        let error = call(&server, timeout, "{}").await.unwrap_err();
        match server.requests().len() {
            0 => {}
            requests => {
                assert_eq!((error.error_type, error.kind), ("Lambda.Timeout".into(), FailureKind::Transient));
                return assert_eq!(requests, 1);
            }
        }
    }
    panic!("no request arrived");
}

#[tokio::test]
async fn a_connection_lost_after_the_request_is_not_retried_by_the_target() {
    let server = Loopback::start([ScriptedResponse::closed()]).await;
    let error = call(&server, LONG, "{}").await.unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Lambda.ConnectionLost".into(), FailureKind::Transient));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_and_missing_credentials_differ_from_a_lost_connection() {
    let server = Loopback::start([]).await;
    let broken = SharedCredentialsProvider::new(provide_credentials_fn(|| async {
        Err(CredentialsError::not_loaded("none here"))
    }));
    let no_credentials = server.sdk_config().into_builder().credentials_provider(broken).build();
    for config in [sdk_config(REFUSED_URL), no_credentials] {
        let target = LambdaTarget::new(&config, ARN.to_owned(), LONG);
        let error = target.handle(&message("{}")).await.unwrap_err();
        assert_eq!((error.error_type, error.kind), ("Lambda.Connect".into(), FailureKind::Transient));
    }
    assert_eq!(server.connections(), 0);
}

/// Calls a target whose clock is stopped, so that waits never end.
async fn call_with_stopped_clock(server: &Loopback) -> Result<(), HandlerError> {
    let target = LambdaTarget::with_clock(&server.sdk_config(), ARN.to_owned(), LONG, ManualClock::default());
    let message = message("{}");
    let outcome = tokio::time::timeout(LONG / 2, target.handle(&message)).await;
    outcome.expect("the call does not wait for the body")
}

#[tokio::test]
async fn a_lambda_success_or_refusal_is_known_from_the_response_head() {
    for answer in [
        ScriptedResponse::unfinished(200, 10),
        ScriptedResponse::dripping(200),
        ScriptedResponse::cut_off(200),
    ] {
        assert_eq!(call_with_stopped_clock(&Loopback::start([answer]).await).await, Ok(()));
    }
    let code = [("x-amzn-errortype", "RequestTooLargeException"), ("content-type", "application/json")];
    let error = call_with_stopped_clock(
        &Loopback::start([ScriptedResponse::unfinished_with_headers(413, &code, 10)]).await,
    )
    .await
    .unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Lambda.RequestTooLarge".into(), FailureKind::Permanent));
}

#[tokio::test]
async fn a_function_error_whose_body_is_lost_is_not_a_success() {
    let failed = [("X-Amz-Function-Error", "Unhandled")];
    let server =
        Loopback::start([ScriptedResponse::unfinished_with_headers(200, &failed, 10).then_closed()]).await;
    let error = call(&server, LONG, "{}").await.unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Lambda.ConnectionLost".into(), FailureKind::Transient));
}

#[tokio::test]
async fn a_connection_is_reused_unless_idle_for_over_20_seconds() {
    let server =
        Loopback::start((0..4).map(|_| ScriptedResponse::keep_alive(200, &[], r#"{"done":true}"#))).await;
    let clock = ManualClock::default();
    let target = LambdaTarget::with_clock(&server.sdk_config(), ARN.to_owned(), LONG, clock.clone());
    for (idle, connections) in [(0, 1), (20_000, 1), (20_001, 2), (0, 2)] {
        clock.advance(Duration::from_millis(idle));
        assert_eq!(target.handle(&message("{}")).await, Ok(()));
        assert_eq!(server.connections(), connections, "{idle}");
    }
}

#[tokio::test]
async fn a_connection_closed_during_a_freeze_gets_no_request() {
    let server = ClosingServer::start(200);
    let target = LambdaTarget::new(&sdk_config(server.url()), ARN.to_owned(), LONG);
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    tokio::task::yield_now().await;
    server.close_unnoticed();
    assert_eq!(target.handle(&message("{}")).await, Ok(()));
    server.join();
}

#[tokio::test]
async fn a_lambda_endpoint_that_never_starts_tls_hits_the_connect_timeout() {
    let server = Loopback::start([]).await;
    let endpoint = server.url().replace("http://", "https://");
    let config = server.sdk_config().into_builder().endpoint_url(endpoint).build();
    // A TLS ClientHello is not an HTTP request: the server waits indefinitely.
    let target = LambdaTarget::new(&config, ARN.to_owned(), LONG);
    let call = tokio::time::timeout(LONG / 4, target.handle(&message("{}"))).await;
    let error = call.expect("the call does not wait for its own timeout").unwrap_err();
    assert_eq!((error.error_type, error.kind), ("Lambda.Connect".into(), FailureKind::Transient));
}

/// The payload is JSON, and the context has the values that an HTTP target receives as headers.
#[tokio::test]
async fn a_plain_message_arrives_as_json_with_its_key_in_the_client_context() {
    for (body, payload) in
        [("{ \"n\" : 1e400 }", "{ \"n\" : 1e400 }"), ("a \"b\"\n", r#""a \"b\"\n""#), ("", r#""""#)]
    {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
        let target = LambdaTarget::new(&server.sdk_config(), ARN.to_owned(), LONG);
        let form = &BodyForm::Plain { idempotency_key: Some("o-\"17".to_owned()) };
        let plain = Message { form, retry_attempt: 2, ..message(body) };
        assert_eq!(target.handle(&plain).await, Ok(()));
        let request = server.request();
        assert_eq!(str::from_utf8(&request.body).unwrap(), payload);
        let [context] = &*request.header("x-amz-client-context") else { panic!("{request:?}") };
        let context: serde_json::Value = serde_json::from_slice(&STANDARD.decode(context).unwrap()).unwrap();
        let custom = serde_json::json!({ "Idempotency-Key": "o-\"17", "X-Redeliver-Attempt": "2" });
        assert_eq!(context, serde_json::json!({ "custom": custom }));
    }
    let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
    assert_eq!(call(&server, LONG, "{}").await, Ok(()));
    assert!(server.request().header("x-amz-client-context").is_empty(), "an envelope has the values itself");
}

async fn call_with_modes(
    server: &Loopback,
    modes: FunctionModes,
    group: Option<&str>,
    message: &Message<'_>,
) -> Result<(), HandlerError> {
    let target = LambdaTarget::new(&server.sdk_config(), ARN.to_owned(), LONG).with_modes(modes);
    let record = record(group);
    target
        .invoke(Invocation { trace: None, logs: None, message, record: &record, end: Timestamp::UNIX_EPOCH })
        .await
}

const ISOLATED: FunctionModes = FunctionModes { tenant_isolation: true, durable: false };
const DURABLE: FunctionModes = FunctionModes { tenant_isolation: false, durable: true };

#[tokio::test]
async fn the_group_is_sent_as_tenant_only_with_tenant_isolation() {
    for (modes, sent) in [(ISOLATED, vec!["blue:7@eu"]), (FunctionModes::default(), vec![])] {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
        assert_eq!(call_with_modes(&server, modes, Some("blue:7@eu"), &message("{}")).await, Ok(()));
        assert_eq!(server.request().header("x-amz-tenant-id"), sent);
    }
}

/// If a permitted character were missing, all messages from a tenant whose group contains it would end up in the final
/// DLQ.
#[test]
fn a_tenant_id_allows_exactly_the_characters_that_lambda_allows() {
    let allowed: String = (0..=u8::MAX)
        .map(char::from)
        .filter(|character| tenant_id(Some(&character.to_string())).is_ok())
        .collect();
    let letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    assert_eq!(allowed, format!(" +-./0123456789:=@{letters}"));
}

#[tokio::test]
async fn a_group_that_is_not_a_tenant_id_is_a_permanent_error_without_a_call() {
    let server = Loopback::start([]).await;
    for (group, details) in [
        (None, "the message has no MessageGroupId, which is the tenant id"),
        (
            Some("blue#7"),
            "the MessageGroupId is not a tenant id, which has only letters, digits, spaces and . _ : / = + - @",
        ),
    ] {
        let error = call_with_modes(&server, ISOLATED, group, &message("{}")).await;
        assert_eq!(error, Err(HandlerError::permanent("Lambda.InvalidTenantId", details)));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn copies_of_an_attempt_share_an_execution_and_a_retry_has_its_own() {
    let once_held = Message { retry_attempt: 2, held_seconds: 2, ..message("{}") };
    let most = Message { redrive_generation: 100, retry_attempt: 1000, ..message("{}") };
    let longest = Message { held_seconds: HELD_SECONDS_MAX, ..most };
    for (message, name) in [
        (message("{}"), "6ba7b810-9dad-11d1-80b4-00c04fd430c8-0-0-8619e271"),
        (once_held, "6ba7b810-9dad-11d1-80b4-00c04fd430c8-0-2-2-8619e271"),
        (most, "6ba7b810-9dad-11d1-80b4-00c04fd430c8-100-1000-8619e271"),
        (longest, "6ba7b810-9dad-11d1-80b4-00c04fd430c8-100-1000-1210500-8619e271"),
    ] {
        let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
        assert_eq!(call_with_modes(&server, DURABLE, None, &message).await, Ok(()));
        assert_eq!(server.request().header("x-amz-durable-execution-name"), [name]);
    }
    let server = Loopback::start([ScriptedResponse::new(200, &[], "null")]).await;
    assert_eq!(call(&server, LONG, "{}").await, Ok(()));
    assert!(server.request().header("x-amz-durable-execution-name").is_empty());
}

/// Execution names are unique per account and region: with a shared name, the second function would never run.
#[test]
fn copies_of_an_event_for_two_functions_are_separate_executions() {
    let green = ARN.replace(":live", ":green");
    let names = [ARN, &green].map(|arn| execution_name(&message("{}"), arn));
    assert_eq!(
        names,
        ["8619e271", "0fc66a90"].map(|hash| format!("6ba7b810-9dad-11d1-80b4-00c04fd430c8-0-0-{hash}"))
    );
}

/// Only the next attempt has a different name, so the error must spend an attempt, which an outage would not.
#[tokio::test]
async fn an_execution_that_already_exists_is_retried_and_not_an_outage() {
    let error = lambda_error(409, "DurableExecutionAlreadyStartedException").await;
    assert_eq!((&error.error_type, error.kind), (&"ExecutionAlreadyStarted".into(), FailureKind::Transient));
    assert_eq!(call_outcome(&Policy::default(), &error), CallOutcome::Answer);
}

#[tokio::test]
async fn the_call_span_has_the_function_and_its_region() {
    let target = LambdaTarget::new(&sdk_config("http://127.0.0.1:1"), ARN.to_owned(), LONG);
    let attributes = vec![
        ("faas.invoked_name", "orders".into()),
        ("faas.invoked_provider", "aws".into()),
        ("faas.invoked_region", "eu-central-1".into()),
    ];
    let expected = CallSpan { name: "orders".into(), kind: SpanKind::Client, attributes };
    assert_eq!(Target::Lambda(target).call_span(), expected);
}

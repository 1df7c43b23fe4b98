use std::time::Duration;

use super::*;
use crate::clock::manual::ManualClock;
use crate::targets::CONNECT_TIMEOUT;
use crate::tests::loopback::{ClosingServer, Loopback, REFUSED_URL, ScriptedResponse, sdk_config};

const ARN: &str = "arn:aws:lambda:eu-central-1:123456789012:function:orders:$LATEST";

const LONG: Duration = Duration::from_secs(60);

async fn invoke(server: &Loopback, payload: &str) -> Result<(), AsyncInvokeError> {
    LambdaInvoker::new(&server.sdk_config()).invoke_async(ARN, payload).await
}

fn temporary_error(code: &str) -> Result<(), AsyncInvokeError> {
    Err(AsyncInvokeError::NotNow { code: code.to_owned() })
}

#[tokio::test]
async fn the_event_is_queued_unchanged_for_the_version_that_failed() {
    let payload = "{ \"n\":1e400,\"é\":\"\\u00e9😀\",\"n\":0.10 }";
    let server = Loopback::start([ScriptedResponse::new(202, &[], "")]).await;
    assert_eq!(invoke(&server, payload).await, Ok(()));
    let request = server.request();
    assert_eq!(request.body, payload.as_bytes());
    assert_eq!(request.header("x-amz-invocation-type"), ["Event"]);
    let path = format!("/2015-03-31/functions/{}/invocations", ARN.replace(':', "%3A").replace('$', "%24"));
    assert_eq!(request.line, format!("POST {path} HTTP/1.1"));
}

#[tokio::test]
async fn a_function_in_another_region_is_invoked_there() {
    // The scripted server's configuration is for eu-central-1.
    let server = Loopback::start([ScriptedResponse::new(202, &[], "")]).await;
    let invoker = LambdaInvoker::new(&server.sdk_config());
    assert_eq!(invoker.invoke_async(&ARN.replace("eu-central-1", "us-east-1"), "{}").await, Ok(()));
    let signature = server.request().header("authorization").concat();
    assert!(signature.contains("/us-east-1/lambda/aws4_request"), "{signature}");
}

#[tokio::test]
async fn only_errors_caused_by_the_payload_are_permanent_for_async_invocations() {
    for (status, code, expected) in [
        (413, "RequestTooLargeException", Err(AsyncInvokeError::TooLarge)),
        (413, "SerializedRequestEntityTooLargeException", Err(AsyncInvokeError::TooLarge)),
        (400, "InvalidRequestContentException", Err(AsyncInvokeError::Invalid)),
        (400, "InvalidParameterValueException", temporary_error("InvalidParameterValueException")),
        (429, "TooManyRequestsException", temporary_error("TooManyRequestsException")),
        (403, "AccessDeniedException", temporary_error("AccessDeniedException")),
        (404, "ResourceNotFoundException", temporary_error("ResourceNotFoundException")),
        (502, "KMSAccessDeniedException", temporary_error("KMSAccessDeniedException")),
        (500, "ServiceException", temporary_error("ServiceException")),
    ] {
        let headers = [("x-amzn-errortype", code), ("content-type", "application/json")];
        let server =
            Loopback::start([ScriptedResponse::new(status, &headers, r#"{"Message":"CANARY"}"#)]).await;
        assert_eq!(invoke(&server, "{}").await, expected, "{code}");
        assert_eq!(server.requests().len(), 1, "the message is received again; the SDK does not retry");
    }
}

#[tokio::test]
async fn an_event_that_was_not_queued_is_an_error() {
    // Any status but 202 means that the event was not queued.
    for (status, code) in [(200, "HTTP 200"), (204, "HTTP 204")] {
        assert_eq!(
            invoke(&Loopback::start([ScriptedResponse::new(status, &[], "")]).await, "{}").await,
            temporary_error(code)
        );
    }
    assert_eq!(
        invoke(&Loopback::start([ScriptedResponse::closed()]).await, "{}").await,
        temporary_error("Connection")
    );
    let server = Loopback::start([]).await;
    let nowhere = server.sdk_config().into_builder().endpoint_url(REFUSED_URL).build();
    assert_eq!(LambdaInvoker::new(&nowhere).invoke_async(ARN, "{}").await, temporary_error("Connection"));
}

#[tokio::test]
async fn only_the_connection_attempt_has_a_timeout() {
    // After a timeout, the invocation would be repeated, and the function would run twice.
    let server = Loopback::start([]).await;
    let invoker = LambdaInvoker::new(&server.sdk_config());
    let client = invoker.client.fresh_client();
    let timeouts = client.config().timeout_config().unwrap();
    assert_eq!(timeouts.connect_timeout(), Some(CONNECT_TIMEOUT));
    let response_timeouts =
        (timeouts.read_timeout(), timeouts.operation_timeout(), timeouts.operation_attempt_timeout());
    assert_eq!(response_timeouts, (None, None, None));
}

#[tokio::test]
async fn the_response_head_decides_whether_an_event_is_queued_or_refused() {
    let queued = Loopback::start([ScriptedResponse::unfinished(202, 0)]).await;
    let code = [("x-amzn-errortype", "RequestTooLargeException")];
    let refused = Loopback::start([ScriptedResponse::unfinished_with_headers(413, &code, 10)]).await;
    for (server, expected) in [(queued, Ok(())), (refused, Err(AsyncInvokeError::TooLarge))] {
        let client = LambdaClient::new(&server.sdk_config(), None, ManualClock::default());
        let invoker = LambdaInvoker { client };
        let outcome = tokio::time::timeout(LONG / 2, invoker.invoke_async(ARN, "{}")).await;
        assert_eq!(outcome.expect("the call does not wait for the body"), expected);
    }
}

#[tokio::test]
async fn a_connection_is_reused_unless_idle_for_over_20_seconds() {
    let server = Loopback::start((0..3).map(|_| ScriptedResponse::keep_alive(202, &[], ""))).await;
    let clock = ManualClock::default();
    let invoker = LambdaInvoker { client: LambdaClient::new(&server.sdk_config(), None, clock.clone()) };
    for (idle, connections) in [(0, 1), (20_000, 1), (20_001, 2)] {
        clock.advance(Duration::from_millis(idle));
        assert_eq!(invoker.invoke_async(ARN, "{}").await, Ok(()));
        assert_eq!(server.connections(), connections, "{idle}");
    }
}

#[tokio::test]
async fn a_connection_closed_during_a_freeze_gets_no_request() {
    let server = ClosingServer::start(202);
    let invoker = LambdaInvoker::new(&sdk_config(server.url()));
    assert_eq!(invoker.invoke_async(ARN, "{}").await, Ok(()));
    tokio::task::yield_now().await;
    server.close_unnoticed();
    assert_eq!(invoker.invoke_async(ARN, "{}").await, Ok(()));
    server.join();
}

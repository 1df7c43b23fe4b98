//! The destinations to which the real message-processor sends a message, and those to which it never does.

use std::time::Duration;

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtime_api::LambdaFunction;
use redeliver_tests::settings::bundle_path;
use redeliver_tests::topology::TopologySetup;
use redeliver_tests::wire::Tap;
use serde_json::{Value, json};

use super::{id, new_topology, test_message};
use crate::tls_target::{Certificate, TestAuthority, TlsTarget};

#[tokio::test]
async fn a_proxy_variable_applies_to_the_sdk_and_not_to_messages() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let proxy = Tap::start(&Ministack::shared().endpoint_url()).await;
    target.script_replies(&id(0), [Reply::Status(410)]);
    topology.send_batch([test_message(0, &json!({}))]).await;
    let mut setup = TopologySetup::for_http_target(target.url());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        setup.variables.push((name, proxy.endpoint_url().to_owned()));
    }
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_eq!(target.requests_for(&id(0)).len(), 1, "{}", running.full_log());
    let actions: Vec<_> = proxy.observed_requests().into_iter().map(|request| request.action).collect();
    // Hand-off, verdict and final record: the SDK uses the proxy, so the variables were effective.
    assert_eq!(actions, ["SendMessageBatch"; 3], "{}", running.full_log());
}

/// Calls the target with one message, and returns the reason stated in the hand-off, if there is one.
async fn hand_off_reason(target: &str, variables: &[(&str, String)]) -> Option<Value> {
    let topology = new_topology().await;
    let queues = [
        ("TARGET", target.to_owned()),
        ("SOURCE_QUEUE_URL", topology.source.url.clone()),
        ("INTERMEDIATE_DLQ_URL", topology.intermediate.url.clone()),
        ("ANNOTATION_QUEUE_URL", topology.annotation.url.clone()),
        ("AWS_ENDPOINT_URL", Ministack::shared().endpoint_url()),
    ];
    let variables = queues.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), value.clone()));
    let function = LambdaFunction::new("message-processor", bundle_path("message-processor"), variables);
    let event = json!({ "Records": [{
        "messageId": "11111111-0000-4000-8000-000000000000",
        "receiptHandle": "handle",
        "body": test_message(0, &json!({})),
        "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1735689600000" },
        "messageAttributes": {},
        "eventSourceARN": topology.source.arn,
    }]});
    let outcome = function.invoke(&event, Duration::from_secs(20)).await;
    let output = function.output_lines();
    let done = redeliver_tests::runtime_api::InvocationOutcome::Response(json!({ "batchItemFailures": [] }));
    assert_eq!(outcome, done, "{output:?}");
    let request = topology.client.receive_message().queue_url(&topology.intermediate.url);
    let received = request.message_attribute_names("All").send().await.unwrap().messages.unwrap_or_default();
    received
        .first()
        .map(|message| serde_json::from_str(&super::message_attribute(message, "Failure")).unwrap())
}

#[tokio::test]
async fn a_target_with_an_invalid_certificate_gets_no_message() {
    let authority = TestAuthority::new();
    let trust = [("SSL_CERT_FILE", authority.file.display().to_string())];
    let good = TlsTarget::start(&authority, Certificate::Good).await;
    assert_eq!(hand_off_reason(&good.url, &trust).await, None, "the authority is trusted");
    assert_eq!(good.requests(), 1);
    for (certificate, reason) in [
        (Certificate::OtherName, "certificate of another name"),
        (Certificate::Expired, "expired certificate"),
        (Certificate::SelfSigned, "unknown issuer"),
    ] {
        let target = TlsTarget::start(&authority, certificate).await;
        // The setting that allows http:// must not affect https://.
        let variables = [&trust[..], &[("TARGET_ALLOW_HTTP", "true".to_owned())]].concat();
        let failure = hand_off_reason(&target.url, &variables).await.expect("a hand-off");
        assert_eq!(
            (&failure["type"], &failure["details"], &failure["kind"]),
            (&json!("Http.Tls"), &json!(format!("no TLS connection: {reason}")), &json!("held")),
            "{certificate:?}"
        );
        assert_eq!(target.requests(), 0, "{certificate:?}");
    }
}

#[tokio::test]
async fn a_target_without_a_trusted_authority_gets_no_message() {
    let target = TlsTarget::start(&TestAuthority::new(), Certificate::Good).await;
    let failure = hand_off_reason(&target.url, &[]).await.expect("a hand-off");
    assert_eq!(failure["details"], "no TLS connection: unknown issuer");
    assert_eq!(target.requests(), 0);
}

#[tokio::test]
async fn https_targets_never_fall_back_to_http() {
    let target = HttpTargetServer::start().await;
    let failure =
        hand_off_reason(&target.url().replace("http://", "https://"), &[]).await.expect("a hand-off");
    assert_eq!(failure["details"], "no TLS connection: the target does not speak TLS");
    assert_eq!(target.request_count(), 0);
}

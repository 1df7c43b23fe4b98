//! Where the real message-processor goes with a message, and where nothing can send it.

use std::time::Duration;

use redeliver_tests::http_target::{HttpTarget, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::runtime_api::Function;
use redeliver_tests::settings::bundle;
use redeliver_tests::topology::Setup;
use redeliver_tests::wire::Tap;
use serde_json::{Value, json};

use super::{id, message, topology};
use crate::tls_target::{Authority, Certificate, TlsTarget};

#[tokio::test]
async fn a_proxy_of_the_environment_gets_no_message_only_what_the_sdk_sends_to_aws() {
    let (topology, target) = (topology().await, HttpTarget::start().await);
    let proxy = Tap::start(&Ministack::shared().endpoint_url()).await;
    target.script(&id(0), [Reply::Status(410)]);
    topology.send([message(0, &json!({}))]).await;
    let mut setup = Setup::http(target.url());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        setup.variables.push((name, proxy.endpoint_url().to_owned()));
    }
    let running = topology.run(&setup);
    topology.settle(&running).await;

    assert_eq!(target.requests(&id(0)).len(), 1, "{}", running.log());
    let actions: Vec<_> = proxy.requests().into_iter().map(|request| request.action).collect();
    // Hand-off, verdict and final record: the SDK does take the proxy, so the variables were in force.
    assert_eq!(actions, ["SendMessageBatch"; 3], "{}", running.log());
}

/// The call of one message, and what became of it: the hand-off's reason, if there was one.
async fn called(target: &str, variables: &[(&str, String)]) -> Option<Value> {
    let topology = topology().await;
    let queues = [
        ("TARGET", target.to_owned()),
        ("SOURCE_QUEUE_URL", topology.source.url.clone()),
        ("INTERMEDIATE_DLQ_URL", topology.intermediate.url.clone()),
        ("ANNOTATION_QUEUE_URL", topology.annotation.url.clone()),
        ("AWS_ENDPOINT_URL", Ministack::shared().endpoint_url()),
    ];
    let variables = queues.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), value.clone()));
    let function = Function::new("message-processor", bundle("message-processor"), variables);
    let event = json!({ "Records": [{
        "messageId": "11111111-0000-4000-8000-000000000000",
        "receiptHandle": "handle",
        "body": message(0, &json!({})),
        "attributes": { "ApproximateReceiveCount": "1", "SentTimestamp": "1735689600000" },
        "messageAttributes": {},
        "eventSourceARN": topology.source.arn,
    }]});
    let outcome = function.invoke(&event, Duration::from_secs(20)).await;
    let output = function.output();
    let done = redeliver_tests::runtime_api::Outcome::Response(json!({ "batchItemFailures": [] }));
    assert_eq!(outcome, done, "{output:?}");
    let request = topology.client.receive_message().queue_url(&topology.intermediate.url);
    let received = request.message_attribute_names("All").send().await.unwrap().messages.unwrap_or_default();
    received.first().map(|message| serde_json::from_str(&super::attribute(message, "Failure")).unwrap())
}

#[tokio::test]
async fn a_target_whose_certificate_is_not_good_gets_no_message() {
    let authority = Authority::new();
    let trust = [("SSL_CERT_FILE", authority.file.display().to_string())];
    let good = TlsTarget::start(&authority, Certificate::Good).await;
    assert_eq!(called(&good.url, &trust).await, None, "the authority is trusted");
    assert_eq!(good.requests(), 1);
    for (certificate, what) in [
        (Certificate::OtherName, "certificate of another name"),
        (Certificate::Expired, "expired certificate"),
        (Certificate::SelfSigned, "unknown issuer"),
    ] {
        let target = TlsTarget::start(&authority, certificate).await;
        // What is allowed for http:// allows nothing for https://.
        let variables = [&trust[..], &[("TARGET_ALLOW_HTTP", "true".to_owned())]].concat();
        let failure = called(&target.url, &variables).await.expect("a hand-off");
        assert_eq!(
            (&failure["type"], &failure["details"], &failure["kind"]),
            (&json!("Http.Tls"), &json!(format!("no TLS connection: {what}")), &json!("held")),
            "{certificate:?}"
        );
        assert_eq!(target.requests(), 0, "{certificate:?}");
    }
}

#[tokio::test]
async fn a_target_that_nobody_vouches_for_gets_no_message() {
    let target = TlsTarget::start(&Authority::new(), Certificate::Good).await;
    let failure = called(&target.url, &[]).await.expect("a hand-off");
    assert_eq!(failure["details"], "no TLS connection: unknown issuer");
    assert_eq!(target.requests(), 0);
}

#[tokio::test]
async fn https_to_a_server_without_it_is_not_tried_without_it() {
    let target = HttpTarget::start().await;
    let failure = called(&target.url().replace("http://", "https://"), &[]).await.expect("a hand-off");
    assert_eq!(failure["details"], "no TLS connection: the target does not speak TLS");
    assert_eq!(target.request_count(), 0);
}

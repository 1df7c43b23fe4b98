//! Tests against a scripted server that responds like SNS and EventBridge.

use std::collections::BTreeMap;

use aws_config::retry::RetryConfig;
use percent_encoding::percent_decode_str;
use redeliver_core::message::Timestamp;
use serde_json::Value;

use super::*;
use crate::tests::loopback::{Loopback, Request, ScriptedResponse};

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:letters";
const BUS: &str = "arn:aws:events:eu-west-1:123456789012:event-bus/letters";

fn notice() -> Notice {
    Notice {
        deployment: "redeliver-prod-final-dlq".to_owned(),
        source: "s3://letters/a=b/".to_owned(),
        fingerprint: "0a1b".to_owned(),
        error_type: "RETRY_ATTEMPT_EXCEEDED".to_owned(),
        last_error: Some("HttpStatus.503".to_owned()),
        count: 2,
        first_at: Timestamp::UNIX_EPOCH,
        last_at: Timestamp::UNIX_EPOCH,
    }
}

/// Publishes the notice without retries.
async fn publish(server: &Loopback, arn: &str) -> Result<(), EntryError> {
    let config = server.sdk_config().into_builder().retry_config(RetryConfig::disabled()).build();
    AwsNotifier::new(&config, arn.parse().unwrap()).publish(&notice()).await
}

/// True if the signature contains this region and service. The region must be the ARN's, not the function's.
fn is_signed_for(request: &Request, scope: &str) -> bool {
    request.header("authorization").concat().contains(&format!("/{scope}/aws4_request, "))
}

#[tokio::test]
async fn a_topic_receives_a_subject_an_email_body_and_a_json_document() {
    let published = "<PublishResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><PublishResult>\
         <MessageId>1</MessageId></PublishResult></PublishResponse>";
    let server = Loopback::start([ScriptedResponse::new(200, &[], published)]).await;
    assert_eq!(publish(&server, TOPIC).await, Ok(()));
    let request = server.request();
    assert!(is_signed_for(&request, "eu-west-1/sns"));
    let form = String::from_utf8(request.body).unwrap();
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let form = form.split('&').map(|pair| pair.split_once('=').unwrap());
    let mut form: BTreeMap<_, _> = form.map(|(name, value)| (name.to_owned(), decoded(value))).collect();
    let message: Value = serde_json::from_str(&form.remove("Message").unwrap()).unwrap();
    assert_eq!(message, json!({ "default": notice().to_json(), "email": notice().text() }));
    let expected = [
        ("Action", "Publish"),
        ("MessageStructure", "json"),
        ("Subject", "redeliver-prod-final-dlq: new dead letters: RETRY_ATTEMPT_EXCEEDED (HttpStatus.503)"),
        ("TopicArn", TOPIC),
        ("Version", "2010-03-31"),
    ];
    assert_eq!(form, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

#[tokio::test]
async fn a_bus_receives_the_document_as_an_event() {
    let accepted = r#"{"FailedEntryCount":0,"Entries":[{"EventId":"1"}]}"#;
    let server = Loopback::start([ScriptedResponse::new(200, &[], accepted)]).await;
    assert_eq!(publish(&server, BUS).await, Ok(()));
    let request = server.request();
    assert!(is_signed_for(&request, "eu-west-1/events"));
    assert_eq!(request.header("x-amz-target"), ["AWSEvents.PutEvents"]);
    let entry = json!({
        "Source": "redeliver",
        "DetailType": "Redeliver Cause Appeared",
        "Detail": notice().to_json(),
        "EventBusName": BUS,
    });
    assert_eq!(request.json(), json!({ "Entries": [entry] }));
}

#[tokio::test]
async fn a_rejected_notice_reports_the_services_error_code() {
    let sns = |status, code| {
        let body = format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>CANARY</Message></Error></ErrorResponse>"
        );
        ScriptedResponse::new(status, &[], &body)
    };
    let json = |status, body: Value| ScriptedResponse::new(status, &[], &body.to_string());
    let failed = |code| {
        let entry = json!({ "ErrorCode": code, "ErrorMessage": "CANARY" });
        json(200, json!({ "FailedEntryCount": 1, "Entries": [entry] }))
    };
    let cases = [
        (TOPIC, sns(403, "AuthorizationError"), Fault::Sender, "AuthorizationError"),
        (TOPIC, sns(404, "NotFound"), Fault::Sender, "NotFound"),
        (TOPIC, sns(400, "Throttling"), Fault::Throttled, "Throttling"),
        (TOPIC, ScriptedResponse::new(502, &[], ""), Fault::Service, "HTTP 502"),
        (TOPIC, ScriptedResponse::cut_off(200), Fault::NoAnswer, "UnreadableAnswer"),
        (BUS, failed("InternalFailure"), Fault::Service, "InternalFailure"),
        (BUS, failed("NotAuthorizedForSourceException"), Fault::Sender, "NotAuthorizedForSourceException"),
        (BUS, failed("ThrottlingException"), Fault::Throttled, "ThrottlingException"),
        (
            BUS,
            json(200, json!({ "FailedEntryCount": 0, "Entries": [] })),
            Fault::NoAnswer,
            "UnreadableAnswer",
        ),
        (
            BUS,
            json(200, json!({ "FailedEntryCount": 1, "Entries": [{}] })),
            Fault::NoAnswer,
            "UnreadableAnswer",
        ),
        (BUS, ScriptedResponse::new(200, &[], "<html>"), Fault::NoAnswer, "UnreadableAnswer"),
        (
            BUS,
            json(400, json!({ "__type": "AccessDeniedException" })),
            Fault::Sender,
            "AccessDeniedException",
        ),
        (
            BUS,
            json(400, json!({ "__type": "com.amazonaws.events#ResourceNotFoundException" })),
            Fault::Sender,
            "ResourceNotFoundException",
        ),
    ];
    for (arn, answer, fault, code) in cases {
        let server = Loopback::start([answer]).await;
        assert_eq!(publish(&server, arn).await, Err(EntryError::new(fault, code)), "{code}");
    }
}

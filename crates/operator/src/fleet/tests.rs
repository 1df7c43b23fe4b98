//! Tests the complete survey against canned responses.

use std::collections::{BTreeMap, BTreeSet};

use aws_smithy_cbor::Encoder;
use redeliver_core::message::Timestamp;
use redeliver_testing::loopback::{Loopback, LoopbackBody, LoopbackRequest};
use serde_json::{Value, json};

use super::report::DlqState;
use super::*;
use crate::ExitCode;
use crate::permissions;
use crate::queues::AwsConnection;

type CannedResponse = Option<(u16, LoopbackBody)>;

const ACCOUNT: &str = "123456789012";

fn now() -> Timestamp {
    "2026-11-23T12:00:00Z".parse().unwrap()
}

fn arn(name: &str) -> String {
    format!("arn:aws:sqs:eu-central-1:123456789012:{name}")
}

fn json_response(value: Value) -> CannedResponse {
    Some((200, value.into()))
}

/// Responds with two queues, each on its own page: `orders`, and `orders-dlq` with two waiting messages.
fn sqs_response(body: &str) -> CannedResponse {
    let request: Value = serde_json::from_str(body).unwrap();
    let page = |name: &str, next: Option<&str>| {
        json_response(json!({ "QueueUrls": [format!("https://sqs/123456789012/{name}")], "NextToken": next }))
    };
    match (request["QueueUrl"].as_str(), request["NextToken"].as_str()) {
        (None, None) => page("orders", Some("more")),
        (None, Some("more")) => page("orders-dlq", None),
        (Some("https://sqs/123456789012/orders"), _) => {
            let policy =
                json!({ "deadLetterTargetArn": arn("orders-dlq"), "maxReceiveCount": 3 }).to_string();
            json_response(json!({ "Attributes": { "QueueArn": arn("orders"), "RedrivePolicy": policy } }))
        }
        (Some("https://sqs/123456789012/orders-dlq"), _) => json_response(json!({ "Attributes": {
            "QueueArn": arn("orders-dlq"),
            "ApproximateNumberOfMessages": "2",
            "ApproximateNumberOfMessagesNotVisible": "1",
            "MessageRetentionPeriod": "345600",
        } })),
        other => panic!("{other:?}"),
    }
}

/// Responds with one alarm, on the DLQ.
fn alarms_response() -> CannedResponse {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).str("MetricAlarms").array(1).map(4);
    cbor.str("AlarmName").str("pager").str("StateValue").str("ALARM").str("Namespace").str("AWS/SQS");
    cbor.str("Dimensions").array(1).map(2).str("Name").str("QueueName").str("Value").str("orders-dlq");
    Some((200, LoopbackBody::from_cbor(cbor.into_writer())))
}

/// Responds with the age of the DLQ's oldest message, sent yesterday at noon.
fn ages_response() -> CannedResponse {
    let mut cbor = Encoder::new(Vec::new());
    let at = aws_sdk_cloudwatch::primitives::DateTime::from_secs(now().timestamp() - 120);
    cbor.map(1).str("MetricDataResults").array(1).map(3).str("Id").str("q0");
    cbor.str("Timestamps").array(1).timestamp(&at).str("Values").array(1).double(86_280.0);
    Some((200, LoopbackBody::from_cbor(cbor.into_writer())))
}

const SUBSCRIBER: &str =
    "arn:aws:events:eu-central-1:123456789012:subscriber/large-orders/abcdef1234567890abcdef123";

/// Responds with one subscriber of a custom event bus.
fn subscribers_response() -> CannedResponse {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).str("Subscribers").array(1).map(2);
    cbor.str("SubscriberArn").str(SUBSCRIBER).str("Name").str("large-orders");
    Some((200, LoopbackBody::from_cbor(cbor.into_writer())))
}

/// Responds with the subscriber, whose failures go to the DLQ.
fn subscriber_response() -> CannedResponse {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(3).str("SubscriberArn").str(SUBSCRIBER).str("Name").str("large-orders");
    cbor.str("OnFailureConfiguration").map(1).str("Arn").str(&arn("orders-dlq"));
    Some((200, LoopbackBody::from_cbor(cbor.into_writer())))
}

fn cbor_error_response(status: u16, code: &str) -> CannedResponse {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(2).str("__type").str(code).str("message").str("no");
    Some((status, LoopbackBody::from_cbor(cbor.into_writer())))
}

fn denied_response() -> CannedResponse {
    cbor_error_response(403, "com.amazonaws.cloudwatch#AccessDenied")
}

fn refused_response() -> CannedResponse {
    Some((403, json!({ "__type": "AccessDeniedException", "Message": "no", "message": "no" }).into()))
}

fn requested_action(request: &LoopbackRequest) -> &'static str {
    let actions = [
        "DescribeAlarms",
        "DescribeSubscriber",
        "GetMetricData",
        "ListSubscribers",
        "/functions",
        "/event-source-mappings",
    ];
    let named = actions.into_iter().find(|action| request.0.contains(action));
    named.unwrap_or(if request.1.contains("QueueUrl") { "GetQueueAttributes" } else { "ListQueues" })
}

/// Responds successfully for all services.
fn respond_successfully(request: &LoopbackRequest) -> CannedResponse {
    match requested_action(request) {
        "DescribeAlarms" => alarms_response(),
        "GetMetricData" => ages_response(),
        "ListSubscribers" => subscribers_response(),
        "DescribeSubscriber" => subscriber_response(),
        "/functions" => json_response(json!({ "Functions": [{
            "FunctionName": "mailer",
            "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:mailer",
            "DeadLetterConfig": { "TargetArn": arn("orders-dlq") },
        }] })),
        "/event-source-mappings" => json_response(json!({ "EventSourceMappings": [{
            "State": "Enabled",
            "EventSourceArn": arn("orders-dlq"),
            "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:sweeper",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        }] })),
        _ => sqs_response(&request.1),
    }
}

async fn survey_servers(servers: &[&Loopback]) -> Fleet {
    let connections: Vec<_> = servers
        .iter()
        .map(|server| {
            AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned()))
        })
        .collect();
    gather::survey_connections(&connections, now(), &ProgressBar::hidden()).await
}

#[tokio::test]
async fn each_service_is_queried_once_and_the_responses_are_combined() {
    let server = Loopback::start_with_handler(respond_successfully);
    let fleet = survey_servers(&[&server]).await;
    let expected = json!({
        "at": "2026-11-23T12:00:00Z",
        "regions": [{ "account": "123456789012", "region": "eu-central-1", "profile": null, "queues": 2 }],
        "dlqs": [{
            "name": "orders-dlq",
            "account": "123456789012",
            "region": "eu-central-1",
            "state": "there",
            "fed_by": [
                { "kind": "queue", "name": "orders" },
                { "kind": "function", "name": "mailer" },
                { "kind": "subscriber", "name": "large-orders" },
            ],
            "read_by": ["sweeper"],
            "readers": null,
            "visible": 2,
            "in_flight": 1,
            "delayed": null,
            "retention_seconds": 345_600,
            "oldest_seconds": 86_400,
            "first_deleted_by": "2026-11-26T12:00:00Z",
            "alarms": [{ "name": "pager", "state": "ALARM" }],
            "findings": [],
            "error": null,
        }],
        "queues": [],
        "problems": [],
    });
    assert_eq!(serde_json::to_value(&fleet).unwrap(), expected);
    assert_eq!(fleet.exit_code(), ExitCode::Done);
    let requests = server.requests();
    let mut counts = BTreeMap::new();
    for request in &requests {
        *counts.entry(requested_action(request)).or_insert(0) += 1;
    }
    let expected = [
        ("/event-source-mappings", 1),
        ("/functions", 1),
        ("DescribeAlarms", 1),
        ("DescribeSubscriber", 1),
        ("GetMetricData", 1),
        ("GetQueueAttributes", 2),
        ("ListQueues", 2),
        ("ListSubscribers", 1),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    for (_, list) in requests.iter().filter(|request| requested_action(request) == "ListQueues") {
        assert!(list.contains("\"MaxResults\":1000"), "without it, SQS returns no second page: {list}");
    }
    let metrics = requests.iter().find(|request| requested_action(request) == "GetMetricData").unwrap();
    for word in ["AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", "orders-dlq"] {
        assert!(metrics.1.contains(word), "{word}");
    }
}

#[tokio::test]
async fn a_rejected_request_is_reported_with_its_region_and_the_rest_is_read() {
    for (refuses, answer, problem) in [
        (
            "DescribeAlarms",
            denied_response as fn() -> CannedResponse,
            "cloudwatch:DescribeAlarms: AccessDenied: no",
        ),
        ("GetMetricData", denied_response, "cloudwatch:GetMetricData: AccessDenied: no"),
        ("ListSubscribers", denied_response, "events:ListSubscribers: AccessDenied: no"),
        ("DescribeSubscriber", denied_response, "events:DescribeSubscriber: AccessDenied: no"),
        ("/functions", refused_response, "lambda:ListFunctions: AccessDeniedException: no"),
        (
            "/event-source-mappings",
            refused_response,
            "lambda:ListEventSourceMappings: AccessDeniedException: no",
        ),
    ] {
        let server = Loopback::start_with_handler(move |request| {
            if requested_action(request) == refuses { answer() } else { respond_successfully(request) }
        });
        let fleet = survey_servers(&[&server]).await;
        assert_eq!(fleet.problems, [format!("eu-central-1: {problem}")]);
        assert_eq!(fleet.exit_code(), ExitCode::Incomplete, "{refuses}");
        let dlq = &fleet.dlqs[0];
        assert_eq!((dlq.name.as_str(), dlq.counts.visible), ("orders-dlq", Some(2)));
        assert_eq!(dlq.alarms.is_none(), refuses == "DescribeAlarms");
        assert_eq!(dlq.oldest_seconds.is_none(), refuses == "GetMetricData");
    }
}

/// Emulators, and whatever responds in place of a service missing from a region, do not support subscribers. A
/// subscriber deleted since it was listed no longer sends anything.
#[tokio::test]
async fn missing_event_buses_and_deleted_subscribers_are_not_problems() {
    let unsupported: fn() -> CannedResponse =
        || Some((400, json!({ "error": "Unsupported service" }).into()));
    let gone: fn() -> CannedResponse =
        || cbor_error_response(400, "com.amazonaws.eventbridgev2#ResourceNotFoundException");
    for (action, answer) in [("ListSubscribers", unsupported), ("DescribeSubscriber", gone)] {
        let server = Loopback::start_with_handler(move |request| {
            if requested_action(request) == action { answer() } else { respond_successfully(request) }
        });
        let fleet = survey_servers(&[&server]).await;
        assert_eq!((fleet.problems.as_slice(), fleet.exit_code()), (&[][..], ExitCode::Done), "{action}");
        let feeders: Vec<_> = fleet.dlqs[0].fed_by.iter().map(|feeder| feeder.name.as_str()).collect();
        assert_eq!(feeders, ["orders", "mailer"], "{action}");
    }
}

fn metric_queries(server: &Loopback) -> Vec<(bool, bool)> {
    let queries =
        server.requests().into_iter().filter(|request| requested_action(request) == "GetMetricData");
    queries.map(|(_, body)| (body.contains("q0"), body.contains("q1"))).collect()
}

#[tokio::test]
async fn receives_are_queried_for_a_dlq_that_no_function_reads() {
    let server = Loopback::start_with_handler(|request| match requested_action(request) {
        "/event-source-mappings" => json_response(json!({ "EventSourceMappings": [] })),
        "GetMetricData" if request.1.contains("NumberOfEmptyReceives") => {
            let mut cbor = Encoder::new(Vec::new());
            let at = aws_sdk_cloudwatch::primitives::DateTime::from_secs(now().timestamp() - 120);
            cbor.map(1).str("MetricDataResults").array(1).map(3).str("Id").str("q1");
            cbor.str("Timestamps").array(1).timestamp(&at).str("Values").array(1).double(3.0);
            Some((200, LoopbackBody::from_cbor(cbor.into_writer())))
        }
        _ => respond_successfully(request),
    });
    let fleet = survey_servers(&[&server]).await;
    assert_eq!(fleet.problems, Vec::<String>::new());
    assert_eq!(
        fleet.dlqs[0].readers.as_ref().unwrap().describe(),
        "read by something that is not an event source mapping (a container, or an audit?): 0 messages received and 3 empty \
         receives in the last 15 minutes"
    );
    assert_eq!(fleet.dlqs[0].oldest_seconds, Some(86_400));
}

#[tokio::test]
async fn each_account_is_queried_for_the_ages_of_its_own_queues() {
    const OTHER: &str = "210987654321";
    let own = Loopback::start_with_handler(respond_successfully);
    let other = Loopback::start_with_handler(|(head, body)| {
        let (status, answer) = respond_successfully(&(head.clone(), body.replace(OTHER, ACCOUNT)))?;
        Some((status, answer.with_replaced(ACCOUNT, OTHER)))
    });
    let fleet = survey_servers(&[&own, &other]).await;
    let seen: Vec<_> = fleet.dlqs.iter().map(|dlq| (dlq.account.as_str(), dlq.oldest_seconds)).collect();
    assert_eq!(seen, [(ACCOUNT, Some(86_400)), (OTHER, Some(86_400))]);
    assert_eq!([&own, &other].map(metric_queries), [[(true, false)], [(true, false)]]);
}

#[tokio::test]
async fn a_dlq_seen_by_two_profiles_of_an_account_is_listed_once() {
    let [first, second] = [
        Loopback::start_with_handler(respond_successfully),
        Loopback::start_with_handler(respond_successfully),
    ];
    let fleet = survey_servers(&[&first, &second]).await;
    assert_eq!((fleet.dlqs.len(), fleet.regions.len()), (1, 2));
    assert_eq!([&first, &second].map(|server| metric_queries(server).len()), [1, 0]);
}

#[tokio::test]
async fn an_unreadable_queue_is_listed_with_the_reason() {
    let server = Loopback::start_with_handler(|request| {
        let is_dlq_request =
            requested_action(request) == "GetQueueAttributes" && request.1.contains("orders-dlq");
        if is_dlq_request { refused_response() } else { respond_successfully(request) }
    });
    let fleet = survey_servers(&[&server]).await;
    let dlq = &fleet.dlqs[0];
    let why = "sqs:GetQueueAttributes: AccessDeniedException: no";
    assert_eq!(
        (dlq.state, dlq.error.as_deref(), dlq.counts.visible),
        (DlqState::Unreadable, Some(why), None)
    );
    assert_eq!(fleet.problems, [format!("eu-central-1: orders-dlq: {why}")]);
    assert!(dlq.is_healthy(), "its senders are unknown");
}

#[tokio::test]
async fn a_queue_deleted_during_the_survey_is_missing_and_not_a_problem() {
    let server = Loopback::start_with_handler(|request| {
        if requested_action(request) != "GetQueueAttributes" || !request.1.contains("orders-dlq") {
            return respond_successfully(request);
        }
        let code = "com.amazonaws.sqs#QueueDoesNotExist";
        Some((400, json!({ "__type": code, "message": "The specified queue does not exist." }).into()))
    });
    let fleet = survey_servers(&[&server]).await;
    let codes: Vec<_> = fleet.dlqs[0].findings.iter().map(|finding| finding.code).collect();
    assert_eq!((fleet.dlqs[0].state, codes), (DlqState::Missing, vec![FindingCode::Missing]));
    assert_eq!((fleet.problems.as_slice(), fleet.exit_code()), (&[][..], ExitCode::ProblemsFound));
}

#[tokio::test]
async fn a_throttled_request_is_retried() {
    let mut throttled = false;
    let server = Loopback::start_with_handler(move |request| {
        if requested_action(request) != "GetQueueAttributes" || std::mem::replace(&mut throttled, true) {
            return respond_successfully(request);
        }
        Some((400, json!({ "__type": "ThrottlingException", "message": "Rate exceeded" }).into()))
    });
    let fleet = survey_servers(&[&server]).await;
    assert_eq!((fleet.dlqs.len(), fleet.problems.len()), (1, 0));
}

#[tokio::test]
async fn a_region_without_access_does_not_hide_the_others() {
    let closed = Loopback::start_with_handler(|request| match requested_action(request) {
        "DescribeAlarms" | "GetMetricData" | "ListSubscribers" => denied_response(),
        _ => refused_response(),
    });
    let open = Loopback::start_with_handler(respond_successfully);
    let fleet = survey_servers(&[&closed, &open]).await;
    assert_eq!((fleet.dlqs.len(), fleet.regions.len(), fleet.problems.len()), (1, 1, 5));
    assert_eq!(fleet.exit_code(), ExitCode::Incomplete);
    let nothing = survey_servers(&[&closed]).await;
    assert_eq!(nothing.regions, [], "this is an error, with exit code 1");
}

#[test]
fn a_long_list_of_problems_is_shortened_to_ten() {
    let shortened = |count: u64| {
        let problems = (0..count).map(|n| format!("problem {n}")).collect();
        Fleet { at: now(), regions: Vec::new(), dlqs: Vec::new(), queues: Vec::new(), problems }
            .shortened_problems()
    };
    assert_eq!(shortened(10)[9..], ["problem 9"]);
    assert_eq!(shortened(12)[9..], ["problem 9", "and 2 more problems: see --format json"]);
}

#[tokio::test]
async fn printed_fleet_permissions_match_the_requests() {
    let server = Loopback::start_with_handler(respond_successfully);
    survey_servers(&[&server]).await;
    let used = server.requests().into_iter().map(|request| match requested_action(&request) {
        "/functions" => "lambda:ListFunctions".to_owned(),
        "/event-source-mappings" => "lambda:ListEventSourceMappings".to_owned(),
        action @ ("DescribeAlarms" | "GetMetricData") => format!("cloudwatch:{action}"),
        action @ ("ListSubscribers" | "DescribeSubscriber") => format!("events:{action}"),
        action => format!("sqs:{action}"),
    });
    let policy = permissions::build_policy(
        permissions::PolicyCommand::Fleet,
        &permissions::PolicyNames::with_placeholders(permissions::PolicyCommand::Fleet),
    );
    let printed: BTreeSet<String> = serde_json::from_value(policy["Statement"][0]["Action"].clone()).unwrap();
    assert_eq!(used.collect::<BTreeSet<_>>(), printed);
}

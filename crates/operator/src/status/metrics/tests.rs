use aws_sdk_cloudwatch::primitives::DateTime;
use aws_smithy_cbor::Encoder;
use redeliver_core::message::Timestamp;
use redeliver_testing::loopback::{Loopback, LoopbackBody};
use serde_json::json;

use super::*;

const ARN: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

/// Returns a page with the datapoints of one metric.
pub(in crate::status) fn page(
    id: &str,
    status: &str,
    points: &[(i64, f64)],
    next: Option<&str>,
) -> (u16, LoopbackBody) {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1 + usize::from(next.is_some())).str("MetricDataResults").array(1).map(5);
    cbor.str("Id").str(id).str("StatusCode").str(status);
    cbor.str("Timestamps").array(points.len());
    for (at, _) in points {
        cbor.timestamp(&DateTime::from_secs(*at));
    }
    cbor.str("Values").array(points.len());
    for (_, value) in points {
        cbor.double(*value);
    }
    cbor.str("Messages").array(1).map(2).str("Code").str("C").str("Value").str("why");
    if let Some(next) = next {
        cbor.str("NextToken").str(next);
    }
    (200, LoopbackBody::from_cbor(cbor.into_writer()))
}

/// Returns the CloudWatch response to a caller without permission.
pub fn access_denied() -> (u16, LoopbackBody) {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(2)
        .str("__type")
        .str("com.amazonaws.cloudwatch#AccessDenied")
        .str("message")
        .str("not authorized");
    (403, LoopbackBody::from_cbor(cbor.into_writer()))
}

fn now() -> Timestamp {
    "2026-11-23T00:22:10Z".parse().unwrap()
}

async fn query_target(server: &Loopback, functions: &[&str]) -> Result<TargetPoints, String> {
    let metrics = MetricsClient::for_queue_region(
        &AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned())),
        ARN,
    )
    .await
    .unwrap();
    metrics.query_target_points(functions, now()).await.map_err(|error| error.to_string())
}

fn point(at: i64, value: i64) -> Point {
    (Timestamp::from_timestamp(at, 0).unwrap(), value)
}

#[tokio::test]
async fn paged_points_are_assigned_to_their_functions() {
    let server = Loopback::start_scripted([
        page("q1", "PartialData", &[(1_800_000_300, 4.0)], Some("more")),
        page("q0", "Complete", &[(1_800_000_300, 1.0), (1_800_000_000, 0.0)], Some("yet more")),
        page("q1", "Complete", &[(1_800_000_000, 2.0)], Some("and more")),
        page("q3", "Complete", &[(1_800_000_300, 4320.0)], None),
    ]);
    let found = query_target(&server, &["orders", "bills"]).await.unwrap();
    let orders = vec![point(1_800_000_300, 1), point(1_800_000_000, 0)];
    let circuit_open = vec![orders, vec![point(1_800_000_300, 4), point(1_800_000_000, 2)]];
    let longest_hold_seconds = vec![point(1_800_000_300, 4320)];
    assert_eq!(found, TargetPoints { circuit_open, longest_hold_seconds });
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for (place, body) in &requests {
        assert!(
            place.starts_with("POST /service/GraniteServiceVersion20100801/operation/GetMetricData "),
            "{place}"
        );
        for word in
            ["Redeliver", "CircuitOpen", "LongestHoldSeconds", "Function", "orders", "bills", "Maximum"]
        {
            assert!(body.contains(word), "{word}: {body}");
        }
    }
    assert!(!requests[0].1.contains("NextToken"));
    assert!(requests[1].1.contains("NextTokendmore") && requests[2].1.contains("NextTokenhyet more"));
}

#[tokio::test]
async fn a_function_without_datapoints_gets_an_empty_list() {
    let server = Loopback::start_scripted([page("q0", "Complete", &[], None)]);
    let nothing = TargetPoints { circuit_open: vec![vec![]; 2], longest_hold_seconds: vec![] };
    assert_eq!(query_target(&server, &["orders", "bills"]).await.unwrap(), nothing);
}

#[tokio::test]
async fn a_failed_metric_query_names_the_iam_action() {
    let error = query_target(&Loopback::start_scripted([access_denied()]), &["orders"]).await.unwrap_err();
    assert_eq!(error, "cloudwatch:GetMetricData: AccessDenied: not authorized");
    let error = query_target(&Loopback::start_scripted([page("q0", "Forbidden", &[], None)]), &["orders"])
        .await
        .unwrap_err();
    assert_eq!(error, "cloudwatch:GetMetricData: Forbidden: why");
    let no_such_service = Loopback::start_scripted([(404, json!({ "message": "no such service" }))]);
    let error = query_target(&no_such_service, &["orders"]).await.unwrap_err();
    assert_eq!(error, "cloudwatch:GetMetricData: the response is not from this service (HTTP 404)");
}

#[tokio::test]
async fn message_age_sends_and_deletions_are_assigned_to_their_queue() {
    let server = Loopback::start_scripted([
        page("q0", "Complete", &[(1_800_000_000, 60.0)], Some("more")),
        page("q1", "Complete", &[(1_800_000_000, 7.0)], Some("yet more")),
        page("q5", "Complete", &[(1_800_000_300, 3.0)], None),
    ]);
    let metrics = MetricsClient::for_queue_region(
        &AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned())),
        ARN,
    )
    .await
    .unwrap();
    let found = metrics.query_flows(&["orders", "orders-dlq"], now()).await.unwrap();
    let orders = QueueFlow {
        age_seconds: vec![point(1_800_000_000, 60)],
        sent: vec![point(1_800_000_000, 7)],
        deleted: Vec::new(),
    };
    assert_eq!(found, [orders, QueueFlow { deleted: vec![point(1_800_000_300, 3)], ..QueueFlow::default() }]);
    let (_, body) = &server.requests()[0];
    for word in [
        "AWS/SQS",
        "QueueName",
        "orders-dlq",
        "ApproximateAgeOfOldestMessage",
        "NumberOfMessagesSent",
        "NumberOfMessagesDeleted",
        "Maximum",
        "Sum",
    ] {
        assert!(body.contains(word), "{word}: {body}");
    }
}

#[tokio::test]
async fn receives_are_queried_minute_by_minute() {
    let server = Loopback::start_scripted([
        page("q1", "PartialData", &[(1_800_000_000, 3.0)], Some("more")),
        page("q0", "Complete", &[(1_800_000_060, 20.0)], None),
    ]);
    let metrics = MetricsClient::for_queue_region(
        &AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned())),
        ARN,
    )
    .await
    .unwrap();
    let found = metrics.query_receives(ARN, now()).await.unwrap();
    let expected =
        Receives { messages: vec![point(1_800_000_060, 20)], empty: vec![point(1_800_000_000, 3)] };
    assert_eq!(found, expected);
    let (_, body) = &server.requests()[0];
    for word in ["QueueName", "orders", "NumberOfMessagesReceived", "NumberOfEmptyReceives", "Sum"] {
        assert!(body.contains(word), "{word}: {body}");
    }
}

#[tokio::test]
async fn alarms_are_queried_by_name_prefix() {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).str("MetricAlarms").array(2);
    cbor.map(2).str("AlarmName").str("orders-prod-target-down").str("StateValue").str("ALARM");
    cbor.map(1).str("AlarmName").str("orders-prod-dead-letters");
    let server =
        Loopback::start_scripted([(200, LoopbackBody::from_cbor(cbor.into_writer())), access_denied()]);
    let metrics = MetricsClient::for_queue_region(
        &AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned())),
        ARN,
    )
    .await
    .unwrap();
    let found = metrics.query_alarms("orders-prod-").await.unwrap();
    let expected = [("orders-prod-target-down", "ALARM"), ("orders-prod-dead-letters", "INSUFFICIENT_DATA")];
    assert_eq!(found, expected.map(|(name, state)| (name.to_owned(), state.to_owned())));
    let (_, body) = &server.requests()[0];
    assert!(body.contains("AlarmNamePrefix") && body.contains("orders-prod-"), "{body}");
    let refused = metrics.query_alarms("orders-prod-").await.unwrap_err().to_string();
    assert!(refused.starts_with("cloudwatch:DescribeAlarms: AccessDenied"), "{refused}");
}

use aws_sdk_cloudwatch::primitives::DateTime;
use aws_smithy_cbor::Encoder;
use redeliver_testing::loopback::{Loopback, LoopbackBody};

use super::*;
use crate::queues::AwsConnection;
use crate::queues::cloudwatch::METRICS_MAX;

#[test]
fn the_newest_datapoint_is_used_regardless_of_order() {
    let at = |seconds| Timestamp::from_timestamp(seconds, 0).unwrap();
    let age = |points: &[(i64, i64)]| {
        newest_age(&points.iter().map(|(seconds, value)| (at(*seconds), *value)).collect::<Vec<_>>())
    };
    let expected = Some(OldestMessageAge { seconds: 120, at: at(1_800_000_060) });
    assert_eq!(age(&[(1_800_000_060, 120), (1_800_000_000, 60)]), expected);
    assert_eq!(age(&[(1_800_000_000, 60), (1_800_000_060, 120)]), expected);
    assert_eq!(age(&[]), None);
}

#[tokio::test]
async fn a_rejected_metric_is_an_error_and_not_an_empty_metric() {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).str("MetricDataResults").array(1).map(2).str("Id").str("q0");
    cbor.str("StatusCode").str("Forbidden");
    let server = Loopback::start_scripted([(200, LoopbackBody::from_cbor(cbor.into_writer()))]);
    let connection =
        AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned()));
    let region = RegionClients::open(&connection).await.unwrap();
    let queue = QueueId::from_url("https://sqs/123456789012/dlq", &region.name).unwrap();
    let now = Timestamp::from_timestamp(1_800_000_120, 0).unwrap();
    let error = region.fetch_ages(&[&queue], now).await.unwrap_err();
    assert_eq!(error, "eu-central-1: cloudwatch:GetMetricData: Forbidden");
}

/// Returns a page with one datapoint for the first metric.
fn page(seconds: f64, at: i64, next: Option<&str>) -> (u16, LoopbackBody) {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1 + usize::from(next.is_some())).str("MetricDataResults").array(1).map(3).str("Id").str("q0");
    cbor.str("Timestamps")
        .array(1)
        .timestamp(&DateTime::from_secs(at))
        .str("Values")
        .array(1)
        .double(seconds);
    if let Some(next) = next {
        cbor.str("NextToken").str(next);
    }
    (200, LoopbackBody::from_cbor(cbor.into_writer()))
}

#[tokio::test]
async fn a_request_fetches_500_ages_and_the_newest_datapoint_is_used() {
    let newer = page(120.0, 1_800_000_060, Some("more"));
    let server =
        Loopback::start_scripted([newer, page(60.0, 1_800_000_000, None), page(30.0, 1_800_000_000, None)]);
    let connection =
        AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(server.url().to_owned()));
    let region = RegionClients::open(&connection).await.unwrap();
    let queue = |n: usize| QueueId {
        account: "123456789012".to_owned(),
        region: region.name.clone(),
        name: format!("dlq-{n}"),
    };
    let queues: Vec<_> = (0..=METRICS_MAX).map(queue).collect();
    let now = Timestamp::from_timestamp(1_800_000_120, 0).unwrap();
    let ages = region.fetch_ages(&queues.iter().collect::<Vec<_>>(), now).await.unwrap();
    let age = |n: usize| ages.get(&queues[n]).map(|age| age.seconds);
    assert_eq!((ages.len(), age(0), age(500)), (2, Some(120), Some(30)));
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests[0].1.contains("dlq-499") && !requests[0].1.contains("dlq-500"));
    assert!(requests[2].1.contains("dlq-500") && !requests[2].1.contains("dlq-499"));
}

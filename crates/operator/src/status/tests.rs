//! Tests the complete status against canned responses.

use clap::Parser;
use redeliver_testing::loopback::{Loopback, LoopbackBody};
use serde_json::{Value, json};

use super::metrics::tests::{access_denied, page};
use super::*;
use crate::queues::QueueSelection;
use crate::terminal::layout::TextLayout;
use crate::terminal::output::json_document;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    queues: QueueSelection,
    #[command(flatten)]
    connection: AwsConnection,
}

const MIDNIGHT: i64 = 1_795_392_000;

fn now() -> Timestamp {
    "2026-11-23T00:22:10Z".parse().unwrap()
}

fn queue(name: &str) -> [(u16, LoopbackBody); 2] {
    let arn = format!("arn:aws:sqs:eu-central-1:000000000000:{name}");
    [
        (200, json!({ "QueueUrl": format!("http://127.0.0.1:1/0/{name}") }).into()),
        (200, json!({ "Attributes": { "QueueArn": arn } }).into()),
    ]
}

fn reader_list(functions: &[&str]) -> (u16, LoopbackBody) {
    let mapping = |name: &&str| {
        let arn = format!("arn:aws:lambda:eu-central-1:000000000000:function:{name}");
        json!({ "UUID": "u", "State": "Enabled", "FunctionArn": arn })
    };
    (200, json!({ "EventSourceMappings": functions.iter().map(mapping).collect::<Vec<_>>() }).into())
}

/// Returns the status of the queue `orders` for these responses from Lambda and CloudWatch, and the number of requests
/// it took.
async fn query_orders(answers: impl IntoIterator<Item = (u16, LoopbackBody)>) -> (Status, usize) {
    let server = Loopback::start_scripted(queue("orders").into_iter().chain(answers));
    let arguments = ["program", "--endpoint-url", server.url(), "--region", "eu-central-1"];
    let Program { queues, connection } = Program::parse_from(arguments.iter().chain(&["--queue", "orders"]));
    let open = queues.open_queues(&connection).await.unwrap();
    let status = query_status(&connection, &open, queues.deployment_name(), now()).await.unwrap();
    (status, server.requests().len())
}

fn problems(status: &Status) -> Vec<String> {
    status.problems.iter().map(Problem::to_string).collect()
}

#[test]
fn a_problem_shared_by_several_queues_is_reported_once() {
    let problem = |service, missing, about: &str| Problem {
        service,
        missing,
        about: vec![about.to_owned()],
        why: "no".to_owned(),
    };
    let mut recorded = Vec::new();
    for about in ["a", "b"] {
        Problem::record_problem(
            &mut recorded,
            problem(QueriedService::Lambda, "event source mappings", about),
        );
    }
    Problem::record_problem(&mut recorded, problem(QueriedService::CloudWatch, "outages", "f"));
    let recorded: Vec<_> = recorded.iter().map(Problem::to_string).collect();
    assert_eq!(recorded, ["event source mappings of a, b: no", "outages of f: no"]);
}

#[tokio::test]
async fn the_first_line_shows_a_down_target_and_when_the_outage_started() {
    let functions = reader_list(&["orders-prod-message-processor:live"]);
    let points =
        page("q0", "Complete", &[(MIDNIGHT + 900, 2.0), (MIDNIGHT, 1.0), (MIDNIGHT - 3000, 1.0)], None);
    let (status, _) = query_orders([functions, points]).await;
    assert_eq!(status.problems, []);
    let table = status.render_table(&TextLayout::Whole);
    let mut lines = table.lines();
    assert_eq!(
        lines.next(),
        Some(
            "Target: down since about 2026-11-23 00:00 UTC (22m 10s), last sign about 00:15. \
             Its messages are held"
        )
    );
    assert_eq!(lines.next(), Some(""));
    assert!(lines.next().unwrap().trim_start().starts_with("queue "), "{table}");
    let json: Value = serde_json::from_str(&json_document("status", &status)).unwrap();
    let expected = json!({
        "state": "down",
        "down_since": "2026-11-23T00:00:00Z",
        "or_longer": false,
        "seconds": 1330,
        "last_sign": "2026-11-23T00:15:00Z",
    });
    assert_eq!(json["target"], expected);
}

#[tokio::test]
async fn the_longest_recent_hold_is_shown_below_the_target() {
    let holds = [(MIDNIGHT - 300, 9000.0), (MIDNIGHT + 300, 4320.0), (MIDNIGHT + 900, 60.0)];
    let (status, _) = query_orders([reader_list(&["orders"]), page("q1", "Complete", &holds, None)]).await;
    assert!(
        status
            .render_table(&TextLayout::Whole)
            .starts_with("Target: no outage seen in the last 15 minutes\nLongest hold: 1h 12m\n\n"),
        "{}",
        status.render_table(&TextLayout::Whole)
    );
    let json: Value = serde_json::from_str(&json_document("status", &status)).unwrap();
    assert_eq!(json["longest_hold_seconds"], 4320);
    let first = [(MIDNIGHT + 900, 0.0)];
    let (status, _) = query_orders([reader_list(&["orders"]), page("q1", "Complete", &first, None)]).await;
    assert_eq!(status.longest_hold_seconds, None, "no message was held");
}

#[tokio::test]
async fn an_outage_of_one_of_several_functions_is_shown() {
    let functions = reader_list(&["b:1", "a", "b:2"]);
    let points = page("q1", "Complete", &[(MIDNIGHT + 900, 1.0)], None);
    let (status, requests) = query_orders([functions, points]).await;
    assert!(
        status.render_table(&TextLayout::Whole).starts_with("Target: down since about 2026-11-23 00:15 UTC"),
        "{}",
        status.render_table(&TextLayout::Whole)
    );
    assert_eq!(requests, 4);
}

#[tokio::test]
async fn a_target_without_an_outage_is_shown() {
    let (status, _) = query_orders([reader_list(&["orders"]), page("q0", "Complete", &[], None)]).await;
    assert!(
        status
            .render_table(&TextLayout::Whole)
            .starts_with("Target: no outage seen in the last 15 minutes\n\n"),
        "{}",
        status.render_table(&TextLayout::Whole)
    );
    let json: Value = serde_json::from_str(&json_document("status", &status)).unwrap();
    assert_eq!(json["target"], json!({ "state": "no_outage_seen" }));
    assert!(status.is_complete());
}

#[tokio::test]
async fn a_metric_that_cannot_be_read_is_a_problem_and_the_rest_is_shown() {
    let (status, _) = query_orders([reader_list(&["orders"]), access_denied()]).await;
    assert_eq!(status.target, Some(TargetStatus::Unknown));
    assert_eq!(
        problems(&status),
        ["outages of orders: cloudwatch:GetMetricData: AccessDenied: not authorized"]
    );
    assert!(
        status.render_table(&TextLayout::Whole).starts_with("Target: state unknown\n\n"),
        "{}",
        status.render_table(&TextLayout::Whole)
    );
    assert!(status.queues[0].mappings.is_some());
}

#[tokio::test]
async fn the_target_is_unknown_if_the_queues_mappings_cannot_be_listed() {
    let refused = (403, json!({ "Message": "no", "__type": "AccessDeniedException" }).into());
    let (status, requests) = query_orders([refused, access_denied()]).await;
    assert_eq!(status.target, Some(TargetStatus::Unknown));
    assert_eq!(
        problems(&status),
        ["event source mappings of orders: lambda:ListEventSourceMappings: AccessDeniedException: no"]
    );
    assert_eq!(requests, 4, "CloudWatch is queried only for receives");
}

#[tokio::test]
async fn functions_without_a_circuit_breaker_are_not_queried() {
    for functions in
        [&["a-async-retry-handler"][..], &["a-failed-message-processor"], &["a-final-dlq-annotator:live"]]
    {
        let (status, requests) = query_orders([reader_list(functions)]).await;
        assert_eq!((status.target, requests, status.problems.len()), (None, 3, 0), "{functions:?}");
        assert!(
            !status.render_table(&TextLayout::Whole).contains("Target"),
            "{}",
            status.render_table(&TextLayout::Whole)
        );
    }
}

#[tokio::test]
async fn status_shows_a_container_inferred_from_its_receives() {
    let polls: Vec<_> = (8..=17).map(|minute| (MIDNIGHT + minute * 60, 3.0)).collect();
    let (status, _) = query_orders([reader_list(&[]), page("q1", "Complete", &polls, None)]).await;
    assert_eq!((status.target, status.problems.as_slice()), (None, &[][..]));
    let table = status.render_table(&TextLayout::Whole);
    let (_, readers) = table.split_once("\n\n").unwrap();
    assert_eq!(
        readers,
        "orders: read by something that is not an event source mapping (a container, or an audit?): 0 messages received and 30 \
         empty receives in the last 15 minutes\n"
    );
}

#[tokio::test]
async fn without_cloudwatch_the_readers_of_an_unmapped_queue_are_unknown() {
    let (status, _) = query_orders([reader_list(&[]), access_denied()]).await;
    let expected =
        "orders: its readers are unknown: cloudwatch:GetMetricData: AccessDenied: not authorized\n";
    assert!(
        status.render_table(&TextLayout::Whole).ends_with(expected),
        "{}",
        status.render_table(&TextLayout::Whole)
    );
    assert_eq!(status.problems, [], "the reason is listed with the readers");
    assert!(!status.is_complete(), "the exit code depends on this");
}

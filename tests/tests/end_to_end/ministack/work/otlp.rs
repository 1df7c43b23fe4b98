//! Span export by `redeliver work`.

use std::collections::BTreeMap;

use redeliver_tests::otlp::{ReceivedSpan, SpanReceiver};
use tokio::net::TcpListener;

use super::*;

const PROCESSOR: &str = "message-processor";
const RETRIER: &str = "failed-message-processor";

/// Returns an attribute's value as a string.
fn attribute(attributes: &BTreeMap<String, Value>, name: &str) -> Option<String> {
    let value = attributes.get(name)?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn spans_of_kind<'a>(spans: &'a [ReceivedSpan], function: &str, kind: &str) -> Vec<&'a ReceivedSpan> {
    let is_of = |span: &&ReceivedSpan| {
        span.kind == kind && attribute(&span.attributes, "redeliver.function").as_deref() == Some(function)
    };
    spans.iter().filter(is_of).collect()
}

#[tokio::test]
async fn a_message_that_fails_once_can_be_followed_through_its_traces() {
    let (topology, target, receiver) =
        (new_topology().await, HttpTargetServer::start().await, SpanReceiver::start().await);
    target.script_replies(&id(0), [Reply::Status(500)]);
    let mut command = command(&topology, target.url(), &[&ALL[..], &["--wait", "2s"]].concat());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint()).env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let mut working = RunningWorker::start(command).await;
    topology.send_batch([test_message(0, &json!({}))]).await;
    let give_up = Instant::now() + PATIENCE;
    // Spans are exported while the worker runs, not only when it stops.
    while spans_of_kind(&receiver.received_spans(), PROCESSOR, "SPAN_KIND_CONSUMER").len() < 2 {
        assert!(Instant::now() < give_up, "{:?}", receiver.received_spans());
        sleep(Duration::from_millis(20)).await;
    }
    wait_until_settled(&topology).await;
    working.signal("TERM", "stopping").await;
    let (code, lines) = working.wait_for_exit().await;
    assert_eq!(code, Some(0));

    let spans = receiver.received_spans();
    let mut attempts = spans_of_kind(&spans, PROCESSOR, "SPAN_KIND_CONSUMER");
    attempts.sort_by_key(|attempt| attempt.start_nanos);
    let [first, second] = attempts[..] else { panic!("{spans:?}") };
    let attempt_attribute = |attempt: &ReceivedSpan, name| attribute(&attempt.attributes, name).unwrap();
    let numbers = [first, second].map(|attempt| attempt_attribute(attempt, "redeliver.retry_attempt"));
    assert_eq!(numbers, ["0", "1"]);
    let verdicts = [first, second].map(|attempt| attempt_attribute(attempt, "redeliver.verdict"));
    assert_eq!(verdicts, ["transient", "processed"]);
    let is_last = |attributes: &BTreeMap<String, Value>| {
        attribute(attributes, "redeliver.link").as_deref() == Some("last_attempt")
    };
    let links: Vec<_> = second.links.iter().filter(|link| is_last(&link.attributes)).collect();
    let [link] = links[..] else { panic!("{second:?}") };
    assert_eq!((&link.trace_id, &link.span_id), (&first.trace_id, &first.span_id));
    assert!(!first.links.iter().any(|link| is_last(&link.attributes)), "{first:?}");
    for attempt in [first, second] {
        let calls = spans_of_kind(&spans, PROCESSOR, "SPAN_KIND_CLIENT");
        let calls = calls.iter().filter(|call| call.parent_span_id == attempt.span_id);
        let calls = calls.filter(|call| !call.name.starts_with("send "));
        assert_eq!(calls.map(|call| call.name.as_str()).collect::<Vec<_>>(), ["POST"]);
    }
    let sends = |function| {
        let sends = spans_of_kind(&spans, function, "SPAN_KIND_CLIENT").into_iter();
        let sends = sends.filter(|span| span.name.starts_with("send "));
        sends.map(|send| (attribute(&send.attributes, "redeliver.send").unwrap(), &send.parent_span_id))
    };
    assert_eq!(sends(PROCESSOR).collect::<Vec<_>>(), [("hand-off".to_owned(), &first.span_id)]);
    let [decision] = spans_of_kind(&spans, RETRIER, "SPAN_KIND_CONSUMER")[..] else { panic!("{spans:?}") };
    assert_eq!(decision.parent_span_id, first.span_id);
    assert_eq!(sends(RETRIER).collect::<Vec<_>>(), [("re-send".to_owned(), &decision.span_id)]);

    let mut traces = lines.iter().filter_map(|line| line["trace_id"].as_str()).peekable();
    assert!(traces.peek().is_some(), "{lines:?}");
    assert!(traces.all(|trace| spans.iter().any(|span| span.trace_id == trace)), "{lines:?}");
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_no_message_and_the_process_ends() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    // Nothing accepts the connections: the kernel completes them and buffers requests, but no response comes.
    let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let mut command = command(&topology, target.url(), &[PROCESSOR, "--wait", "1s"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "1");
    let mut working = RunningWorker::start(command).await;
    topology.send_batch([test_message(0, &json!({}))]).await;
    wait_until_called(&target).await;
    topology.send_batch([test_message(1, &json!({}))]).await;
    wait_until_settled(&topology).await;
    working.signal("TERM", "stopping").await;
    let (code, events) = working.wait_for_exit().await;
    assert_eq!(code, Some(0));
    assert_eq!(events.iter().filter(|line| line["event"] == "processed").count(), 2, "{events:?}");
}

#[tokio::test]
async fn an_unknown_otlp_protocol_causes_a_single_warning() {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    let mut command = command(&topology, target.url(), &[PROCESSOR, "--health", "127.0.0.1:0"]);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let mut process = command.spawn().unwrap();
    let mut stderr = BufReader::new(process.stderr.take().unwrap()).lines();
    let warning = next_line(&mut stderr).await;
    assert_eq!((&warning["level"], &warning["event"]), (&json!("WARN"), &json!("otlp")));
    let remark = warning["remark"].as_str().unwrap();
    assert!(remark.contains("set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf"), "{warning}");
    assert_eq!(next_line(&mut stderr).await["event"], "started");
    process.kill().await.unwrap();
}

//! Spans of attempts, as received by a collector and continued by OpenTelemetry's own SDKs.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_sqs::types::MessageAttributeValue;
use axum::Router;
use axum::http::StatusCode;
use futures_util::future::join_all;
use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::otlp::{ReceivedSpan, SpanLink, SpanReceiver};
use redeliver_tests::runtime_api::InvocationOutcome;
use redeliver_tests::runtimes::{LambdaProgram, node_program, python_program, runtimes_folder};
use redeliver_tests::settings::free_address;
use redeliver_tests::topology::{TestTopology, TopologySetup};
use redeliver_tests::wire::serve_router;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{final_records, id, new_topology, test_message};

/// The producer's span.
const TRACE: &str = "5759e988bd862e3fe1be46a994272793";
const SPAN: &str = "53995c3f42cd8ad8";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const CLIENT: &str = "SPAN_KIND_CLIENT";
const CONSUMER: &str = "SPAN_KIND_CONSUMER";

/// Sends a message with the attribute `traceparent` and returns its SQS message id.
async fn send(topology: &TestTopology) -> String {
    let parent = MessageAttributeValue::builder().data_type("String");
    let parent = parent.string_value(format!("00-{TRACE}-{SPAN}-01")).build().unwrap();
    let request = topology.client.send_message().queue_url(&topology.source.url);
    let request = request.message_body(test_message(0, &json!({}))).message_attributes("traceparent", parent);
    request.send().await.unwrap().message_id.unwrap()
}

#[tokio::test]
async fn attempt_traces_link_to_producer_and_previous_attempt() {
    assert_three_attempts_are_traced(false).await;
}

#[tokio::test]
async fn all_attempts_are_in_the_producers_trace_if_it_is_continued() {
    assert_three_attempts_are_traced(true).await;
}

async fn assert_three_attempts_are_traced(continues: bool) {
    let (topology, target, receiver) =
        (new_topology().await, HttpTargetServer::start().await, SpanReceiver::start().await);
    target.script_replies(&id(0), [Reply::Status(500), Reply::Status(500), Reply::Status(500)]);
    let mut setup = TopologySetup::for_http_target(target.url());
    setup.variables.push((ENDPOINT, receiver.endpoint().to_owned()));
    setup.variables.push(("TRACE_CONTINUE", continues.to_string()));
    let mut sqs_message_id = send(&topology).await;
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    // For each attempt: its batch, the attempt, its call, the hand-off, the decision and the send; and finally the dead
    // letter.
    let received = MessageSpans(receiver.wait_for_spans(3 * 6 + 2).await);
    let ids: BTreeSet<_> = received.0.iter().map(|span| &span.span_id).collect();
    assert_eq!((received.0.len(), ids.len()), (20, 20), "each span once, with its own id: {received:#?}");
    let [source, intermediate, annotation, final_dlq] =
        [&topology.source, &topology.intermediate, &topology.annotation, &topology.final_dlq]
            .map(|queue| queue.url.rsplit('/').next().unwrap());
    let requests = target.requests_for(&id(0));
    let port: u16 = target.url().split(&[':', '/'][..]).nth(4).unwrap().parse().unwrap();
    let mut last_attempt = None;
    let mut traces = vec![TRACE.to_owned()];
    for (n, status) in [500, 500, 500].into_iter().enumerate() {
        let error = format!("HttpStatus.{status}");
        let attempt = received.attempt(n);
        assert_eq!((attempt.name.clone(), attempt.kind), (format!("process {source}"), CONSUMER));
        let batch = received.linked_span(attempt, "receive");
        assert_eq!(
            (batch.name.clone(), batch.kind, &batch.parent_span_id),
            (format!("receive {source}"), CLIENT, &String::new())
        );
        assert_attributes(
            batch,
            message_attributes(source, "receive", json!({ "messaging.batch.message_count": 1 })),
        );
        let mut links = vec![format!("receive {}-{}", batch.trace_id, batch.span_id)];
        links.extend(last_attempt.replace(format!("last_attempt {}-{}", attempt.trace_id, attempt.span_id)));
        if continues {
            assert_eq!((attempt.trace_id.as_str(), attempt.parent_span_id.as_str()), (TRACE, SPAN));
        } else {
            links.push(format!("producer {TRACE}-{SPAN}"));
            assert!(!traces.contains(&attempt.trace_id), "{traces:?}");
            assert_eq!(attempt.parent_span_id, "");
        }
        traces.push(attempt.trace_id.clone());
        links.sort();
        assert_eq!(describe_links(attempt), links);
        assert_attributes(
            attempt,
            message_attributes(
                source,
                "process",
                json!({
                    "messaging.message.id": sqs_message_id,
                    "messaging.message.conversation_id": id(0),
                    "redeliver.retry_attempt": n,
                    "redeliver.generation": 0,
                    "redeliver.verdict": "transient",
                    "error.type": error,
                }),
            ),
        );
        assert!(attempt.is_error);

        let call = received.child(attempt, "POST", CLIENT, "message-processor");
        assert_attributes(
            call,
            json!({
                "http.request.method": "POST",
                "http.response.status_code": status,
                "server.address": "127.0.0.1",
                "server.port": port,
                "error.type": status.to_string(),
            }),
        );
        assert_eq!(requests[n].headers["traceparent"], format!("00-{}-{}-01", call.trace_id, call.span_id));
        assert!(call.is_error);

        let hand_off = received.sent_message_id(attempt, intermediate, "hand-off", 0, "message-processor");
        let decision =
            received.child(attempt, &format!("process {intermediate}"), CONSUMER, "failed-message-processor");
        let is_last = n == 2;
        let decided = json!({
            "messaging.message.id": hand_off,
            "messaging.message.conversation_id": id(0),
            "redeliver.decision": if is_last { "RETRY_ATTEMPT_EXCEEDED" } else { "resend" },
        });
        assert_attributes(decision, message_attributes(intermediate, "process", decided));
        let (queue, name, delay) = if is_last { (annotation, "verdict", 0) } else { (source, "re-send", 1) };
        sqs_message_id = received.sent_message_id(decision, queue, name, delay, "failed-message-processor");
    }

    let last = received.attempt(2);
    let dead = received.child(last, &format!("process {annotation}"), CONSUMER, "final-dlq-annotator");
    let died = json!({
        "messaging.message.id": sqs_message_id,
        "messaging.message.conversation_id": id(0),
        "redeliver.dead_letter": "RETRY_ATTEMPT_EXCEEDED",
    });
    assert_attributes(dead, message_attributes(annotation, "process", died));
    let final_id = received.sent_message_id(dead, final_dlq, "final record", 0, "final-dlq-annotator");
    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!(record.message.message_id(), Some(final_id.as_str()));
    let traceparent = format!("00-{}-{}-01", last.trace_id, last.span_id);
    assert_eq!(record.dead_letter["last_attempt_traceparent"], traceparent);
    assert_eq!(
        super::message_attribute(&record.message, "traceparent"),
        format!("00-{TRACE}-{SPAN}-01"),
        "unchanged"
    );
}

/// The spans of one message.
#[derive(Debug)]
struct MessageSpans(Vec<ReceivedSpan>);

impl MessageSpans {
    fn only_span(&self, matches: impl Fn(&ReceivedSpan) -> bool) -> &ReceivedSpan {
        let found: Vec<_> = self.0.iter().filter(|span| matches(span)).collect();
        let [one] = found[..] else { panic!("{found:#?} in {self:#?}") };
        one
    }

    fn attempt(&self, n: usize) -> &ReceivedSpan {
        self.only_span(|span| span.attributes.get("redeliver.retry_attempt") == Some(&json!(n)))
    }

    fn linked_span(&self, span: &ReceivedSpan, role: &str) -> &ReceivedSpan {
        let link = span.links.iter().find(|link| link.attributes["redeliver.link"] == role).unwrap();
        self.only_span(|span| (&span.trace_id, &span.span_id) == (&link.trace_id, &link.span_id))
    }

    fn child(&self, parent: &ReceivedSpan, name: &str, kind: &str, service: &str) -> &ReceivedSpan {
        let child = self.only_span(|span| span.parent_span_id == parent.span_id && span.name == name);
        let identity = (child.trace_id.as_str(), child.kind, child.service.as_str());
        assert_eq!(identity, (parent.trace_id.as_str(), kind, service), "{child:?}");
        child
    }

    /// Returns the SQS message id of the sent message.
    fn sent_message_id(
        &self,
        parent: &ReceivedSpan,
        queue: &str,
        name: &str,
        delay: u32,
        service: &str,
    ) -> String {
        let send = self.child(parent, &format!("send {queue}"), CLIENT, service);
        let sqs_message_id = send.attributes["messaging.message.id"].as_str().unwrap();
        let mut expected = json!({ "messaging.message.id": sqs_message_id, "redeliver.send": name });
        if delay > 0 {
            expected["redeliver.delay_seconds"] = delay.into();
        }
        assert_attributes(send, message_attributes(queue, "send", expected));
        assert!(!send.is_error);
        sqs_message_id.to_owned()
    }
}

/// Returns the links of a span, sorted.
fn describe_links(span: &ReceivedSpan) -> Vec<String> {
    let link = |link: &SpanLink| {
        let role = link.attributes["redeliver.link"].as_str().unwrap();
        format!("{role} {}-{}", link.trace_id, link.span_id)
    };
    let mut links: Vec<_> = span.links.iter().map(link).collect();
    links.sort();
    links
}

/// Checks all attributes of a span.
fn assert_attributes(span: &ReceivedSpan, expected: Value) {
    let expected: BTreeMap<String, Value> = serde_json::from_value(expected).unwrap();
    assert_eq!(span.attributes, expected, "{}", span.name);
}

/// Adds the attributes that every span of a message has.
fn message_attributes(queue: &str, operation: &str, more: Value) -> Value {
    let Value::Object(mut attributes) = more else { panic!("an object") };
    for (name, value) in [
        ("system", "aws_sqs"),
        ("operation.name", operation),
        ("operation.type", operation),
        ("destination.name", queue),
    ] {
        attributes.insert(format!("messaging.{name}"), value.into());
    }
    attributes.into()
}

#[tokio::test]
async fn a_broken_collector_costs_no_message_and_causes_one_warning() {
    let gone = format!("http://{}", free_address());
    // Accepts connections, but never reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = (format!("http://{}", silent.local_addr().unwrap()), silent);
    let refuses = Router::new().fallback(async || StatusCode::SERVICE_UNAVAILABLE);
    let (refusing, _server) = serve_router(refuses).await;
    let refusing = format!("http://{refusing}");
    let warnings = [
        (&gone, "warning: OpenTelemetry: spans are lost: the collector cannot be reached"),
        (&silent.0, "warning: OpenTelemetry: spans are lost: the collector did not answer within 10s"),
        (&refusing, "warning: OpenTelemetry: spans are lost: the collector answered HTTP 503; check its log"),
    ];
    join_all(warnings.map(|(endpoint, warning)| assert_spans_lost_with_warning(endpoint, warning))).await;
}

async fn assert_spans_lost_with_warning(endpoint: &str, warning: &str) {
    let (topology, target) = (new_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(0), [Reply::Status(500), Reply::Status(410)]);
    let mut setup = TopologySetup::for_http_target(target.url());
    setup.variables.push((ENDPOINT, endpoint.to_owned()));
    send(&topology).await;
    let running = topology.start_functions(&setup);
    topology.wait_until_settled(&running).await;

    assert_eq!(target.requests_for(&id(0)).len(), 2, "{}", running.full_log());
    let [record] = &final_records(&topology).await[..] else { panic!("one record\n{}", running.full_log()) };
    assert_eq!(record.error_type, "NON_RETRYABLE_ERROR");
    for mapping in running.mappings() {
        for invocation in mapping.invocations() {
            let all_kept = InvocationOutcome::Response(json!({ "batchItemFailures": [] }));
            assert_eq!(invocation.outcome, all_kept, "{}", running.full_log());
        }
        let output = mapping.function().output_lines();
        let reported: Vec<_> =
            output.iter().filter(|line| line.is_stderr).map(|line| line.text.as_str()).collect();
        assert!(reported.is_empty() || reported == [warning], "{reported:?}");
    }
}

#[tokio::test]
async fn the_opentelemetry_python_sdk_continues_the_calls_trace() {
    assert_trace_continues(|| python_program(&runtimes_folder(), "traced.handler")).await;
}

#[tokio::test]
async fn the_opentelemetry_node_sdk_continues_the_calls_trace() {
    assert_trace_continues(|| node_program(&runtimes_folder(), "traced.handler")).await;
}

/// Checks a function that is unaware of redeliver, with and without redeliver's spans.
async fn assert_trace_continues(function: impl Fn() -> LambdaProgram) {
    for writes_spans in [true, false] {
        let (topology, receiver) = (new_topology().await, SpanReceiver::start().await);
        let LambdaProgram { path, variables } = function().with_layer();
        let mut setup = TopologySetup {
            processor: path,
            processor_variables: variables,
            ..TopologySetup::for_http_target("")
        };
        setup.variables.push((ENDPOINT, receiver.endpoint().to_owned()));
        if !writes_spans {
            setup.variables.push(("OTEL_TRACES_EXPORTER", "none".to_owned()));
        }
        send(&topology).await;
        let running = topology.start_functions(&setup);
        topology.wait_until_settled(&running).await;

        // The batch, the attempt and the call; and the function's own span.
        let count = if writes_spans { 4 } else { 1 };
        let received = MessageSpans(receiver.wait_for_spans(count).await);
        assert_eq!(received.0.len(), count, "{received:#?}");
        let own = received.only_span(|span| span.name == "charge");
        assert_eq!(own.kind, CONSUMER, "{}", running.full_log());
        let (trace, parent) = if writes_spans {
            let call = received.only_span(|span| span.parent_span_id == received.attempt(0).span_id);
            (call.trace_id.as_str(), call.span_id.as_str())
        } else {
            (TRACE, SPAN)
        };
        assert_eq!((own.trace_id.as_str(), own.parent_span_id.as_str()), (trace, parent), "{received:#?}");
        let [link] = &own.links[..] else { panic!("{own:?}") };
        assert_eq!((link.trace_id.as_str(), link.span_id.as_str()), (TRACE, SPAN), "the record's attribute");
        assert!(final_records(&topology).await.is_empty());
    }
}

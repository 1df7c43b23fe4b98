//! Tests `pause` and `resume` against canned responses.

use clap::Parser;
use redeliver_testing::loopback::{Loopback, LoopbackBody};
use serde_json::{Value, json};

use super::*;
use crate::status::access_denied;
use crate::terminal::output::json_document;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    queues: QueueSelection,
    #[command(flatten)]
    connection: AwsConnection,
}

fn queue(name: &str) -> [(u16, Value); 2] {
    let arn = format!("arn:aws:sqs:eu-central-1:000000000000:{name}");
    [
        (200, json!({ "QueueUrl": format!("http://127.0.0.1:1/0/{name}") })),
        (200, json!({ "Attributes": { "QueueArn": arn } })),
    ]
}

fn mapping(uuid: &str, state: &str) -> (u16, Value) {
    let function = "arn:aws:lambda:eu-central-1:000000000000:function:reader";
    (200, json!({ "EventSourceMappings": [{ "UUID": uuid, "State": state, "FunctionArn": function }] }))
}

async fn plan_switch(
    endpoint: &Loopback,
    queues: [&str; 2],
    all: bool,
    wanted: MappingState,
) -> SwitchReport {
    let arguments = ["program", "--endpoint-url", endpoint.url(), "--region", "eu-central-1"];
    let Program { queues, connection } = Program::parse_from(arguments.iter().chain(&queues));
    switch_readers(&queues, &connection, all, wanted, false).await.unwrap()
}

/// Returns the planned changes for the mappings of three queues. `pause --all` disabled all of them, and someone
/// re-enabled one.
async fn planned_changes(all: bool, wanted: MappingState) -> SwitchReport {
    let urls = ["annotation", "final-dlq", "intermediate-dlq", "source"].map(|name| queue(name)[0].clone());
    let attributes =
        ["source", "intermediate-dlq", "annotation", "final-dlq"].map(|name| queue(name)[1].clone());
    let mappings = [mapping("one", "Enabled"), mapping("two", "Disabled"), mapping("three", "Disabled")];
    let endpoint = Loopback::start_scripted(urls.into_iter().chain(attributes).chain(mappings));
    plan_switch(&endpoint, ["--prefix", "orders"], all, wanted).await
}

#[tokio::test]
async fn resume_with_all_enables_each_mapping_that_pause_disabled() {
    let report = planned_changes(true, MappingState::Enabled).await;
    let mappings: Vec<_> =
        report.mappings.iter().map(|changed| (changed.uuid.as_str(), changed.from.as_str())).collect();
    assert_eq!(mappings, [("one", "Enabled"), ("two", "Disabled"), ("three", "Disabled")]);
    assert!(!report.applied);
    let lines = report.describe_changes();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(lines.starts_with("reader at source: is already Enabled\nreader at "), "{lines}");
    assert!(lines.contains(": would be Enabled, is Disabled\n"), "{lines}");
}

#[tokio::test]
async fn without_all_a_pause_covers_only_the_source_queue() {
    let report = planned_changes(false, MappingState::Disabled).await;
    assert_eq!(report.mappings.iter().map(|changed| changed.uuid.as_str()).collect::<Vec<_>>(), ["one"]);
}

#[tokio::test]
async fn a_queue_can_be_paused_by_name() {
    let [url, attributes] = queue("my-orders");
    let endpoint = Loopback::start_scripted([url, attributes, mapping("one", "Enabled")]);
    let report = plan_switch(&endpoint, ["--queue", "my-orders"], false, MappingState::Disabled).await;
    assert_eq!(report.describe_changes(), "reader at my-orders: would be Disabled, is Enabled\n");
    assert_eq!(
        json_document("pause", &report),
        "{\"schema\":\"redeliver.pause/1\",\"applied\":false,\"mappings\":[{\"queue\":\"my-orders\",\"function\":\"reader\",\
         \"uuid\":\"one\",\"from\":\"Enabled\",\"to\":\"Disabled\",\"error\":null}],\
         \"without_mapping\":[]}\n"
    );
}

#[tokio::test]
async fn a_queue_read_by_containers_is_not_paused_but_advice_is_given() {
    let [url, attributes] = queue("my-orders").map(|(status, body)| (status, LoopbackBody::from(body)));
    let mappings = (200, json!({ "EventSourceMappings": [] }).into());
    let endpoint = Loopback::start_scripted([url, attributes, mappings, access_denied()]);
    let report = plan_switch(&endpoint, ["--queue", "my-orders"], false, MappingState::Disabled).await;
    assert_eq!(
        report
            .without_mapping
            .iter()
            .map(|queue| queue.explain_remedy(MappingState::Disabled))
            .collect::<Vec<_>>(),
        ["my-orders: nothing was paused, since it has no event source mapping; its readers are unknown: \
        cloudwatch:GetMetricData: AccessDenied: not authorized. Stop containers where they run, for example with \
        `kubectl scale \
          deployment NAME --replicas 0` or `aws ecs update-service --service NAME --desired-count 0`"]
    );
    assert_eq!(
        (report.mappings.len(), report.describe_changes().as_str(), report.exit_code()),
        (0, "", ExitCode::NotFound)
    );
}

#[test]
fn a_pause_that_fails_for_one_queue_is_not_a_success() {
    let without =
        || UnmappedQueue { queue: "orders".to_owned(), readers: Readers::NobodySeen { minutes: 15 } };
    for (without_mapping, error, expected) in [
        (vec![], None, ExitCode::Done),
        (vec![], Some("no".to_owned()), ExitCode::PartlyDone),
        (vec![without()], None, ExitCode::PartlyDone),
        (vec![without()], Some("no".to_owned()), ExitCode::PartlyDone),
    ] {
        let changed = MappingChange {
            queue: "bills".to_owned(),
            function: "reader".to_owned(),
            uuid: "one".to_owned(),
            from: "Enabled".to_owned(),
            to: "Disabled",
            error,
        };
        let report = SwitchReport { applied: true, mappings: vec![changed], without_mapping };
        assert_eq!(report.exit_code(), expected, "{report:?}");
    }
}

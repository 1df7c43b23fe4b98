use redeliver_testing::loopback::{Body, Loopback};
use serde_json::json;

use super::*;

const ARN: &str = "arn:aws:sqs:eu-central-1:123456789012:p-";

fn connection(endpoint: &Loopback) -> Connection {
    Connection::at(None, Some("eu-central-1".to_owned()), Some(endpoint.url().to_owned()))
}

fn no_such_stack() -> (u16, Body) {
    let error = "<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id p does not exist</Message>\
                 </Error></ErrorResponse>";
    (400, Body::xml(error))
}

fn deployed() -> (u16, Body) {
    let output = |name: &str, queue: &str| {
        format!(
            "<member><OutputKey>{name}</OutputKey><OutputValue>http://127.0.0.1:1/123456789012/p-{queue}</OutputValue></member>"
        )
    };
    let outputs = output("SourceQueueUrl", "source")
        + &output("AnnotationQueueUrl", "annotation")
        + &output("FinalDlqUrl", "final-dlq");
    let stacks = format!(
        "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>p</StackName><CreationTime>\
         2026-01-01T00:00:00Z</CreationTime><StackStatus>UPDATE_COMPLETE</StackStatus><Outputs>{outputs}</Outputs></member>\
         </Stacks></DescribeStacksResult></DescribeStacksResponse>"
    );
    (200, Body::xml(&stacks))
}

fn queue(name: &str) -> (u16, Body) {
    (200, json!({ "Attributes": { "QueueArn": format!("{ARN}{name}") } }).into())
}

fn mapping(state: Option<&str>) -> (u16, Body) {
    let one = |state| json!({ "UUID": "u", "FunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:f", "State": state });
    (200, json!({ "EventSourceMappings": state.map(one).into_iter().collect::<Vec<_>>() }).into())
}

#[tokio::test]
async fn a_stack_that_is_not_deployed_is_not_paused() {
    let endpoint = Loopback::start([no_such_stack()]);
    let found = look(&connection(&endpoint), "p").await;
    assert_eq!((found.exit_code(), found), (0, Preflight::default()));
}

#[tokio::test]
async fn a_mapping_that_is_off_is_found_whichever_queue_it_reads() {
    let queues = ["source", "annotation", "final-dlq"].map(queue);
    let mappings = [Some("Disabled"), Some("Enabled"), None].map(mapping);
    let answers = [deployed(), deployed()].into_iter().chain(queues).chain(mappings);
    let endpoint = Loopback::start(answers);
    let found = look(&connection(&endpoint), "p").await;
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!((found.exit_code(), found.paused.len()), (3, 1));
    assert_eq!(found.lines(), "paused: f at p-source is Disabled; a deployment may enable it\n");
}

#[tokio::test]
async fn a_missing_right_is_a_sentence_with_its_name() {
    let denied =
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
    let endpoint = Loopback::start([(403, Body::xml(denied))]);
    let found = look(&connection(&endpoint), "p").await;
    assert_eq!(found.exit_code(), 1);
    assert_eq!(
        found.problems,
        [
            "it is not known whether p is paused: stack p: AccessDenied: no; check the name, the region and your permission for \
          cloudformation:DescribeStacks"
        ]
    );
}

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
    let found = look(&connection(&endpoint), "p", None).await.unwrap();
    assert_eq!(
        (found.exit_code(), found),
        (ExitCode::Done, Preflight { paused: Some(Vec::new()), ..Preflight::default() })
    );
}

#[tokio::test]
async fn a_mapping_that_is_off_is_found_whichever_queue_it_reads() {
    let queues = ["source", "annotation", "final-dlq"].map(queue);
    let mappings = [Some("Disabled"), Some("Enabled"), None].map(mapping);
    let answers = [deployed(), deployed()].into_iter().chain(queues).chain(mappings);
    let endpoint = Loopback::start(answers);
    let found = look(&connection(&endpoint), "p", None).await.unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    assert_eq!((found.exit_code(), found.paused.as_ref().unwrap().len()), (ExitCode::Found, 1));
    assert_eq!(found.lines(), "paused: f at p-source is Disabled; a deployment may enable it\n");
}

#[tokio::test]
async fn a_missing_right_is_a_sentence_with_its_name() {
    let denied =
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
    let endpoint = Loopback::start([(403, Body::xml(denied))]);
    let found = look(&connection(&endpoint), "p", None).await.unwrap();
    assert_eq!((found.exit_code(), &found.paused), (ExitCode::Incomplete, &None));
    assert_eq!(
        found.problems,
        [
            "it is not known whether p is paused: stack p: AccessDenied: no; check the name, the region and your permission for \
          cloudformation:DescribeStacks"
        ]
    );
}

/// A template with a mapping that runs this many invocations at once.
fn template(concurrency: u64) -> tempfile::NamedTempFile {
    use std::io::Write as _;
    let mapping = json!({ "Type": "AWS::Lambda::EventSourceMapping", "Properties": {
        "FunctionName": { "Ref": "F" }, "ScalingConfig": { "MaximumConcurrency": concurrency } } });
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{}", json!({ "Resources": { "m": mapping } })).unwrap();
    file
}

async fn with_quota(settings: (u16, Body), wanted: u64) -> Preflight {
    let endpoint = Loopback::start([settings, no_such_stack()]);
    look(&connection(&endpoint), "p", Some(template(wanted).path())).await.unwrap()
}

#[tokio::test]
async fn a_new_account_is_told_which_quota_to_ask_for() {
    let ten = || (200, json!({ "AccountLimit": { "ConcurrentExecutions": 10 } }).into());
    let found = with_quota(ten(), 11).await;
    assert_eq!((found.exit_code(), &found.problems), (ExitCode::Found, &Vec::new()));
    assert_eq!(found.concurrency, Some(Concurrency::new(11, 10, "eu-central-1")));
    let lines = found.lines();
    assert!(
        lines.starts_with("concurrency: Lambda runs at most 10 functions at once in this account"),
        "{lines}"
    );
    assert!(lines.contains("--quota-code L-B99A9384 --desired-value 1000 --region eu-central-1"), "{lines}");
    let enough = with_quota(ten(), 10).await;
    assert_eq!((enough.exit_code(), enough.lines()), (ExitCode::Done, String::new()));
}

#[tokio::test]
async fn without_the_right_to_read_the_quota_the_rest_is_done() {
    let denied = (403, json!({ "__type": "AccessDeniedException", "message": "no" }).into());
    let found = with_quota(denied, 30).await;
    assert_eq!(
        found.problems,
        ["the account's concurrency is not known: lambda:GetAccountSettings: AccessDeniedException: no"]
    );
    assert_eq!((found.exit_code(), found.concurrency), (ExitCode::Incomplete, None));
}

#[tokio::test]
async fn a_template_that_is_none_ends_it_before_any_request() {
    let endpoint = Loopback::start::<Body>([]);
    let error = look(&connection(&endpoint), "p", Some(Path::new("no-such.json"))).await.unwrap_err();
    assert!(error.to_string().starts_with("no-such.json: "), "{error}");
    assert_eq!(endpoint.requests().len(), 0);
}

/// A file that is not a template would otherwise want nothing, and all would seem well.
#[tokio::test]
async fn json_that_is_not_a_template_is_refused() {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{{\"max_attempts\":2}}").unwrap();
    let endpoint = Loopback::start::<Body>([]);
    let error = look(&connection(&endpoint), "p", Some(file.path())).await.unwrap_err().to_string();
    assert!(error.ends_with(": not a CloudFormation template: it has no Resources"), "{error}");
}

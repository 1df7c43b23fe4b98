use redeliver_testing::loopback::{Loopback, LoopbackBody};
use serde_json::json;

use super::*;

const ARN: &str = "arn:aws:sqs:eu-central-1:123456789012:p-";

fn connection(endpoint: &Loopback) -> AwsConnection {
    AwsConnection::from_parts(None, Some("eu-central-1".to_owned()), Some(endpoint.url().to_owned()))
}

fn no_such_stack() -> (u16, LoopbackBody) {
    let error = "<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id p does not exist</Message>\
                 </Error></ErrorResponse>";
    (400, LoopbackBody::from_xml(error))
}

const NOT_DEPLOYED: &str = "deployment: it does not exist, so there are no mappings to check; if it should, check its name, the region \
                            and the profile\n";

fn deployed_stack() -> (u16, LoopbackBody) {
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
    (200, LoopbackBody::from_xml(&stacks))
}

fn queue(name: &str) -> (u16, LoopbackBody) {
    (200, json!({ "Attributes": { "QueueArn": format!("{ARN}{name}") } }).into())
}

/// Returns a mapping of the named queue to a function. Its `UUID` is `FUNCTION-QUEUE`.
fn mapping(function: &str, queue: &str, state: &str, types: &[&str]) -> serde_json::Value {
    json!({
        "UUID": format!("{function}-{queue}"),
        "EventSourceArn": format!("arn:aws:sqs:eu-central-1:123456789012:{queue}"),
        "FunctionArn": format!("arn:aws:lambda:eu-central-1:123456789012:function:{function}"),
        "FunctionResponseTypes": types,
        "State": state,
    })
}

const REPORTED: &[&str] = &["ReportBatchItemFailures"];

fn mapping_list(mappings: &[serde_json::Value]) -> (u16, LoopbackBody) {
    (200, json!({ "EventSourceMappings": mappings }).into())
}

/// Returns the findings about a deployment. `source` lists its source queue's mappings, and `of_functions` lists each
/// function's mappings.
async fn preflight_with_mappings(
    source: &[serde_json::Value],
    of_functions: &[&[serde_json::Value]],
) -> Preflight {
    // Another team's function that reads the final DLQ is not a problem.
    let exporter = mapping("export", "p-final-dlq", "Enabled", &[]);
    let mut answers = vec![deployed_stack(), deployed_stack()];
    answers.extend(["source", "annotation", "final-dlq"].map(queue));
    answers.extend([mapping_list(source), mapping_list(&[]), mapping_list(&[exporter])]);
    answers.extend(of_functions.iter().map(|mappings| mapping_list(mappings)));
    let endpoint = Loopback::start_scripted(answers);
    let found = run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), None).await.unwrap();
    assert_eq!(found.problems, Vec::<String>::new());
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 8 + of_functions.len(), "{requests:?}");
    found
}

#[tokio::test]
async fn a_stack_that_is_not_deployed_is_not_paused() {
    let endpoint = Loopback::start_scripted([no_such_stack()]);
    let found = run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), None).await.unwrap();
    assert_eq!(
        (found.exit_code(), found),
        (
            ExitCode::Done,
            Preflight {
                deployed: Some(false),
                paused: Some(Vec::new()),
                event_sources: Some(Vec::new()),
                taken_queues: Some(Vec::new()),
                ..Preflight::default()
            }
        )
    );
}

#[tokio::test]
async fn a_disabled_mapping_is_found() {
    let source = mapping("f", "p-source", "Disabled", REPORTED);
    let found =
        preflight_with_mappings(std::slice::from_ref(&source), &[std::slice::from_ref(&source)]).await;
    assert_eq!((found.exit_code(), found.paused.as_ref().unwrap().len()), (ExitCode::ProblemsFound, 1));
    let advice = "a deployment may enable it: resume first, or pause again afterwards";
    assert_eq!(found.describe_findings(), format!("paused: f at p-source is Disabled; {advice}\n"));
}

#[tokio::test]
async fn valid_mappings_yield_no_findings() {
    let source = mapping("f:live", "p-source", "Enabled", REPORTED);
    // A stream has different response types, and a second queue whose mapping reports failures loses nothing.
    let mut stream = mapping("f:live", "clicks", "Enabled", &[]);
    stream["EventSourceArn"] = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks".into();
    let refunds = mapping("f:live", "refunds", "Disabled", REPORTED);
    let found =
        preflight_with_mappings(std::slice::from_ref(&source), &[&[source.clone(), stream, refunds]]).await;
    assert_eq!((found.exit_code(), found.describe_findings().as_str()), (ExitCode::Done, ""));
}

/// Without `ReportBatchItemFailures`, Lambda deletes messages that a function reports as failed.
#[tokio::test]
async fn each_mapping_that_does_not_report_failures_is_listed_with_a_fix() {
    let source = mapping("f", "p-source", "Enabled", &[]);
    let refunds = mapping("f", "refunds", "Enabled", &[]);
    let found = preflight_with_mappings(std::slice::from_ref(&source), &[&[source.clone(), refunds]]).await;
    let command = |uuid| {
        format!(
            "run `aws lambda update-event-source-mapping --function-response-types ReportBatchItemFailures --uuid {uuid} \
             --region eu-central-1`"
        )
    };
    let lines = [
        format!(
            "event source: f reads p-source without ReportBatchItemFailures, so Lambda deletes messages that redeliver could \
             not pass on; {}\n",
            command("f-p-source")
        ),
        format!(
            "event source: f also reads refunds, without ReportBatchItemFailures: its batches bypass redeliver, and Lambda \
             deletes messages that the handler names in batchItemFailures; give refunds a function of its own, or {}\n",
            command("f-refunds")
        ),
    ];
    assert_eq!((found.exit_code(), found.describe_findings()), (ExitCode::ProblemsFound, lines.concat()));
}

/// With two readers, half of the messages would never reach redeliver.
#[tokio::test]
async fn active_readers_sharing_a_queue_are_reported_and_a_disabled_one_is_not() {
    for other in ["old", "f:live"] {
        let ours = mapping("f", "p-source", "Enabled", REPORTED);
        let theirs = mapping(other, "p-source", "Enabled", &[]);
        let found = preflight_with_mappings(&[ours.clone(), theirs.clone()], &[&[ours], &[theirs]]).await;
        let line = |one: &str, of: &str| {
            format!(
                "event source: {one} shares p-source with {of}, and only one of them gets each message; if this mapping is \
                 not the deployment's, run `aws lambda delete-event-source-mapping --uuid {one}-p-source --region \
                 eu-central-1`\n"
            )
        };
        assert_eq!(found.exit_code(), ExitCode::ProblemsFound);
        assert_eq!(found.describe_findings(), line("f", other) + &line(other, "f"));
    }
    let ours = mapping("f", "p-source", "Enabled", REPORTED);
    let off = mapping("old", "p-source", "Disabled", REPORTED);
    let found = preflight_with_mappings(&[ours.clone(), off], &[&[ours], &[]]).await;
    assert_eq!(found.event_sources, Some(Vec::new()));
}

#[tokio::test]
async fn a_missing_permission_is_reported_by_name() {
    let denied =
        "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>";
    let endpoint = Loopback::start_scripted([(403, LoopbackBody::from_xml(denied))]);
    let found = run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), None).await.unwrap();
    assert_eq!((found.exit_code(), &found.paused), (ExitCode::Incomplete, &None));
    assert_eq!(
        found.problems,
        [
            "could not read all of p: stack p: AccessDenied: no; check the name, the region and your permission for \
          cloudformation:DescribeStacks"
        ]
    );
}

/// Returns a template with a mapping that is limited to `concurrency` concurrent invocations.
fn template(concurrency: u64) -> tempfile::NamedTempFile {
    let mapping = json!({ "Type": "AWS::Lambda::EventSourceMapping", "Properties": {
        "FunctionName": { "Ref": "F" }, "ScalingConfig": { "MaximumConcurrency": concurrency } } });
    template_with_resources(&json!({ "m": mapping }))
}

fn template_with_resources(resources: &serde_json::Value) -> tempfile::NamedTempFile {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{}", json!({ "Resources": resources })).unwrap();
    file
}

/// If such a queue were not found, CloudFormation would fail in the middle of the deployment.
#[tokio::test]
async fn an_existing_queue_that_a_new_stack_would_create_is_found() {
    let queue = |name| json!({ "Type": "AWS::SQS::Queue", "Properties": { "QueueName": name } });
    let named_later = json!({ "Fn::Sub": "${Prefix}-source" });
    let template = template_with_resources(
        &json!({ "a": queue("p-final-dlq".into()), "b": queue("p-source".into()), "c": queue(named_later) }),
    );
    let missing = json!({ "__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no" });
    let endpoint = Loopback::start_scripted([
        (200, json!({ "AccountLimit": { "ConcurrentExecutions": 1000 } }).into()),
        no_such_stack(),
        (200, json!({ "QueueUrl": "http://127.0.0.1:1/123456789012/p-final-dlq" }).into()),
        (400, missing.into()),
    ]);
    let found =
        run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), Some(template.path()))
            .await
            .unwrap();
    assert_eq!((found.exit_code(), &found.problems), (ExitCode::ProblemsFound, &Vec::new()));
    let taken = "name: p-final-dlq exists, so the new stack cannot create it; another stack owns it, or a removed one retained \
                 it: change the prefix or the stage, or delete the queue if its messages are not needed\n";
    assert_eq!(found.describe_findings(), NOT_DEPLOYED.to_owned() + taken);
}

async fn preflight_with_quota(settings: (u16, LoopbackBody), wanted: u64) -> Preflight {
    let endpoint = Loopback::start_scripted([settings, no_such_stack()]);
    run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), Some(template(wanted).path()))
        .await
        .unwrap()
}

#[tokio::test]
async fn an_insufficient_quota_is_reported_with_the_quota_to_request() {
    let ten = || (200, json!({ "AccountLimit": { "ConcurrentExecutions": 10 } }).into());
    let found = preflight_with_quota(ten(), 11).await;
    assert_eq!((found.exit_code(), &found.problems), (ExitCode::ProblemsFound, &Vec::new()));
    assert_eq!(found.concurrency, Some(Concurrency::new(11, 10, "eu-central-1")));
    let lines = found.describe_findings();
    let limit = "concurrency: the Lambda limit in this account and region is 10 concurrent executions";
    assert!(lines.starts_with(&(NOT_DEPLOYED.to_owned() + limit)), "{lines}");
    assert!(lines.contains("--quota-code L-B99A9384 --desired-value 1000 --region eu-central-1"), "{lines}");
    let enough = preflight_with_quota(ten(), 10).await;
    assert_eq!((enough.exit_code(), enough.describe_findings()), (ExitCode::Done, NOT_DEPLOYED.to_owned()));
}

#[tokio::test]
async fn the_other_checks_still_run_without_permission_to_read_the_quota() {
    let denied = (403, json!({ "__type": "AccessDeniedException", "message": "no" }).into());
    let found = preflight_with_quota(denied, 30).await;
    assert_eq!(
        found.problems,
        [
            "could not determine the account's concurrency: lambda:GetAccountSettings: AccessDeniedException: no"
        ]
    );
    assert_eq!((found.exit_code(), found.concurrency), (ExitCode::Incomplete, None));
}

#[tokio::test]
async fn an_unreadable_template_ends_preflight_before_any_request() {
    let endpoint = Loopback::start_scripted::<LoopbackBody>([]);
    let error = run_preflight(
        &connection(&endpoint),
        &QueueSelection::from_stack("p"),
        Some(Path::new("no-such.json")),
    )
    .await
    .unwrap_err();
    assert!(error.to_string().starts_with("no-such.json: "), "{error}");
    assert_eq!(endpoint.requests().len(), 0);
}

/// If such a file were accepted, it would seem to need no concurrency, and the checks would pass.
#[tokio::test]
async fn json_that_is_not_a_template_is_refused() {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{{\"max_attempts\":2}}").unwrap();
    let endpoint = Loopback::start_scripted::<LoopbackBody>([]);
    let error = run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), Some(file.path()))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.ends_with(": not a CloudFormation template: it has no Resources"), "{error}");
}

/// An update keeps the queues that its stack owns.
#[tokio::test]
async fn the_queues_of_an_existing_stack_are_not_reported_as_taken() {
    let queues = json!({ "a": { "Type": "AWS::SQS::Queue", "Properties": { "QueueName": "p-source" } } });
    let template = template_with_resources(&queues);
    let mut answers = vec![(200, json!({ "AccountLimit": { "ConcurrentExecutions": 1000 } }).into())];
    answers.extend([deployed_stack(), deployed_stack()]);
    answers.extend(["source", "annotation", "final-dlq"].map(queue));
    answers.extend([mapping_list(&[]), mapping_list(&[]), mapping_list(&[])]);
    let endpoint = Loopback::start_scripted(answers);
    let found =
        run_preflight(&connection(&endpoint), &QueueSelection::from_stack("p"), Some(template.path()))
            .await
            .unwrap();
    assert_eq!((found.taken_queues.as_deref(), &found.problems), (Some(&[][..]), &Vec::new()));
    assert_eq!((found.exit_code(), endpoint.requests().len()), (ExitCode::Done, 9));
}

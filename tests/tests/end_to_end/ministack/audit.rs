//! `redeliver audit` with the real program: two thousand dead letters of all kinds, ours and others'.

use std::collections::HashMap;
use std::process::Stdio;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{MessageAttributeValue, SendMessageBatchRequestEntry};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::debug_binary;
use redeliver_tests::sqs::REGION;
use redeliver_tests::topology::TestTopology;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{id, new_topology};

const COUNT: u32 = 2000;
/// SQS's limit for the body and the attributes together.
const MESSAGE_BYTES_MAX: usize = 1_048_576;

fn text_attribute(value: &str) -> MessageAttributeValue {
    MessageAttributeValue::builder().data_type("String").string_value(value).build().unwrap()
}

/// Returns the attributes that the annotator adds to a message.
fn failure_attributes(error_type: &str, fingerprint: &str) -> HashMap<String, MessageAttributeValue> {
    let dead_letter = json!({
        "stage": "failed-message-processor",
        "cause": {"type": "HttpStatus.503", "message": "HTTP 503 Service Unavailable"},
        "attempts": 2,
        "first_sent_time": "2026-01-01T00:00:00.000000Z",
        "dead_lettered_at": "2026-01-01T00:10:00.000000Z",
        "sqs_message_id": "an-earlier-one",
        "fingerprint": fingerprint,
    });
    HashMap::from([
        ("ErrorType".to_owned(), text_attribute(error_type)),
        ("ErrorDetails".to_owned(), text_attribute("HttpStatus.503: HTTP 503 Service Unavailable")),
        ("DeadLetter".to_owned(), text_attribute(&dead_letter.to_string())),
    ])
}

/// Returns the n-th dead letter: its body and attributes.
fn dead_letter(n: u32) -> (String, HashMap<String, MessageAttributeValue>) {
    let body = json!({"metadata": {"message_id": id(n), "retry_attempt": 2}, "data": {"n": n}}).to_string();
    match n % 5 {
        0 => (body, failure_attributes("RETRY_ATTEMPT_EXCEEDED", "00000000000000aa")),
        1 => ("{\"rubbish\"".to_owned(), failure_attributes("INVALID_MESSAGE_FORMAT", "00000000000000bb")),
        2 => {
            let mut attributes = failure_attributes("NON_RETRYABLE_ERROR", "00000000000000cc");
            let bytes =
                MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0, 255]));
            attributes.insert("bytes".to_owned(), bytes.build().unwrap());
            (body, attributes)
        }
        3 => (format!("somebody else's {n}"), HashMap::new()),
        _ => {
            let mut attributes = failure_attributes("RETRY_ATTEMPT_EXCEEDED", "00000000000000aa");
            attributes.extend((0..7).map(|n| (format!("producer-{n}"), text_attribute("kept"))));
            (body, attributes)
        }
    }
}

/// Fills the final DLQ with dead letters, one of them as large as SQS allows.
async fn fill_dlq(topology: &TestTopology) {
    for batch in (0..COUNT).collect::<Vec<_>>().chunks(10) {
        let entries = batch.iter().map(|n| {
            let (body, attributes) = dead_letter(*n);
            let entry = SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(body);
            entry.set_message_attributes(Some(attributes)).build().unwrap()
        });
        let request = topology.client.send_message_batch().queue_url(&topology.final_dlq.url);
        let sent = request.set_entries(Some(entries.collect())).send().await.unwrap();
        assert!(sent.failed.is_empty(), "{:?}", sent.failed);
    }
    let attributes = failure_attributes("RETRY_ATTEMPT_EXCEEDED", "00000000000000aa");
    let size: usize = attributes
        .iter()
        .map(|(name, value)| name.len() + value.data_type().len() + value.string_value().unwrap().len())
        .sum();
    let head = format!(r#"{{"metadata":{{"message_id":"{}","retry_attempt":2}},"data":{{"x":""#, id(COUNT));
    let padding = "x".repeat(MESSAGE_BYTES_MAX - size - head.len() - 3);
    let request = topology.client.send_message().queue_url(&topology.final_dlq.url);
    let request = request.message_body(format!(r#"{head}{padding}"}}}}"#));
    request.set_message_attributes(Some(attributes)).send().await.unwrap();
}

fn redeliver_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(debug_binary("redeliver"));
    command.args(arguments).args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs the program and returns the exit code and the standard output.
async fn run_redeliver(arguments: &[&str]) -> (Option<i32>, String) {
    let output = redeliver_command(arguments).output().await.unwrap();
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    let printed = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), if printed.is_empty() { output_text } else { printed })
}

#[tokio::test]
async fn an_audit_groups_two_thousand_dead_letters_and_consumes_none() {
    let topology = new_topology().await;
    fill_dlq(&topology).await;
    let (dlq, source) = (topology.final_dlq.url.as_str(), topology.source.url.as_str());
    let all = u64::from(COUNT) + 1;

    let (code, report) = run_redeliver(&["audit", "--queue", dlq, "--format", "json"]).await;
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{report}"));
    assert_eq!(code, Some(3));
    assert_eq!((&report["total"], &report["coverage"]["seen"]), (&json!(all), &json!(all)));
    let by_error_type = json!({
        "INVALID_MESSAGE_FORMAT": 400,
        "NON_RETRYABLE_ERROR": 400,
        "RETRY_ATTEMPT_EXCEEDED": 801,
        "UNANNOTATED": 400,
    });
    assert_eq!(report["by_error_type"], by_error_type);
    let groups: HashMap<_, _> = report["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| (group["fingerprint"].as_str().unwrap(), group["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        (groups["00000000000000aa"], groups["00000000000000bb"], groups["00000000000000cc"]),
        (801, 400, 400)
    );
    assert_eq!(
        topology.final_dlq.message_counts(&topology.client).await,
        [all, 0, 0],
        "nothing is consumed or held"
    );

    let some = ["audit", "--queue", dlq, "--format", "json", "--where", r#".attributes.bytes == "AP8=""#];
    let (_, report) = run_redeliver(&some).await;
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["total"], 400);

    // The messages to send back: all valid ones with our metadata, including those with ten attributes and those of one
    // MiB.
    let (code, plan) = run_redeliver(&["redrive", "--queue", dlq, "--to", source, "--format", "json"]).await;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let staying: u64 =
        plan["staying"].as_array().unwrap().iter().map(|why| why["count"].as_u64().unwrap()).sum();
    assert_eq!(
        (code, &plan["planned"], staying),
        (Some(5), &json!(1201), 800),
        "invalid and foreign messages stay"
    );
    assert_eq!(topology.final_dlq.message_counts(&topology.client).await, [all, 0, 0]);
}

/// The existing file could be the report of last night's incident, or the only copy of purged messages.
#[tokio::test]
async fn an_existing_file_is_not_overwritten() {
    let topology = new_topology().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.html");
    std::fs::write(&path, "precious").unwrap();
    let name = path.to_str().unwrap();
    for option in ["--output", "--save"] {
        let (code, output_text) =
            run_redeliver(&["audit", "--queue", &topology.final_dlq.url, option, name]).await;
        assert_eq!(
            (code, output_text.starts_with(&format!("error: {name}"))),
            (Some(1), true),
            "{output_text}"
        );
        assert!(
            output_text.ends_with("it already exists; name another file, so that nothing is overwritten\n"),
            "{output_text}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}

#[tokio::test]
async fn auditing_an_empty_queue_succeeds_and_wrong_arguments_are_reported() {
    let topology = new_topology().await;
    let dlq = topology.final_dlq.url.as_str();
    let (code, report) = run_redeliver(&["audit", "--queue", dlq, "--format", "json"]).await;
    assert_eq!((code, &serde_json::from_str::<Value>(&report).unwrap()["total"]), (Some(0), &json!(0)));
    for (arguments, failed, sentence) in [
        (["audit", "--queue", dlq, "--where", ".a |"], 2, "the filter `.a |` is wrong at byte 4"),
        (["audit", "--queue", &topology.source.url, "--format", "json"], 1, "has a redrive policy"),
        (["audit", "--stack", "no-such-stack", "--format", "json"], 1, "stack no-such-stack: "),
    ] {
        let (code, output_text) = run_redeliver(&arguments).await;
        assert_eq!(code, Some(failed), "{arguments:?}: {output_text}");
        assert!(output_text.contains(sentence), "{arguments:?}: {output_text}");
    }
}

#[tokio::test]
async fn a_cron_job_reports_each_new_cause_once() {
    let topology = new_topology().await;
    let put = async |n: u32| {
        let (body, attributes) = dead_letter(n);
        let request = topology.client.send_message().queue_url(&topology.final_dlq.url).message_body(body);
        request.set_message_attributes(Some(attributes)).send().await.unwrap();
    };
    let file = super::new_journal();
    let since = ["audit", "--queue", &topology.final_dlq.url, "--known-causes", file.to_str().unwrap()];
    assert_eq!(run_redeliver(&since).await, (Some(0), String::new()));
    put(0).await;
    put(4).await;
    let (code, reported) = run_redeliver(&since).await;
    assert_eq!((code, reported.lines().count()), (Some(6), 1), "{reported}");
    assert!(reported.starts_with("new cause: RETRY_ATTEMPT_EXCEEDED: HttpStatus.503: "), "{reported}");
    assert!(
        reported.trim_end().ends_with("; --group 00000000000000aa)") && reported.contains("(2 messages, "),
        "{reported}"
    );
    assert_eq!(run_redeliver(&since).await, (Some(3), String::new()), "nothing new");

    // An explicitly requested report is printed alongside the new causes.
    put(2).await;
    let (code, report) = run_redeliver(&[&since[..], &["--format", "json"]].concat()).await;
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{report}"));
    assert_eq!((code, &report["total"]), (Some(6), &json!(3)));
    let (code, report) = run_redeliver(&[&since[..], &["--format", "json"]].concat()).await;
    assert!(code == Some(3) && report.starts_with('{'), "{report}");

    std::fs::write(&file, "precious").unwrap();
    let (code, output_text) = run_redeliver(&since).await;
    assert!(code == Some(1) && output_text.contains("is not a file of known causes"), "{output_text}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    std::fs::remove_file(&file).unwrap();
}

//! `redeliver` on a terminal or in a pipeline: errors and reports show the place, not the value.

use std::process::Stdio;

use redeliver_tests::http_target::{HttpTargetServer, Reply};
use redeliver_tests::ministack::Ministack;
use redeliver_tests::settings::{PATIENCE, debug_binary};
use redeliver_tests::sqs::{REGION, unique_name};
use tokio::process::Command;

use super::*;

/// Runs the program and returns the standard output and the standard error.
async fn run_redeliver(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(debug_binary("redeliver"));
    command
        .args(arguments)
        .env_clear()
        .envs(verbose_variables())
        .env("AWS_REGION", REGION)
        .stdin(Stdio::null());
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    let ended = tokio::time::timeout(PATIENCE, command.output());
    let output = ended.await.expect("the program ends").unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (stdout, stderr)
}

fn write_message_file(lines: &[String]) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(unique_name("secret-lines"));
    let _of_an_earlier_run = std::fs::remove_file(path.with_extension("sent"));
    std::fs::write(&path, lines.join("\n")).unwrap();
    path.display().to_string()
}

fn lines() -> Vec<String> {
    vec![
        message(1, &json!({})),
        message(2, &json!({ "n": BODY })),
        format!("no JSON: {BODY}"),
        format!("\u{1}{BODY}"),
        format!(r#"{{"metadata":{{"message_id":"{METADATA}"}},"data":{{}}}}"#),
        format!(r#"{{"metadata":{{"{MEMBER_NAME}":1}},"data":"{BODY}"}}"#),
        BODY.repeat(70_000),
    ]
}

#[tokio::test]
async fn local_and_check_print_no_values() {
    let (messages, target) = (write_message_file(&lines()), HttpTargetServer::start().await);
    target.script_replies(&id(1), [Reply::Status(500); 9]);
    let url = format!("{}?key={QUERY}", target.url());
    for arguments in [
        &["local", messages.as_str(), "--fail-rate", "1"][..],
        &["local", &messages, "--fail-permanently", "1", "--format", "json"],
        &["local", &messages, "--target", &url],
        &["check", &messages],
    ] {
        let (stdout, stderr) = run_redeliver(arguments).await;
        assert!(!stdout.is_empty(), "{stderr}");
        secrets().assert_absent("standard output", &stdout);
        secrets().assert_absent("standard error", &stderr);
    }
    assert!(!target.requests_for(&id(1)).is_empty(), "the canary was in use");
    let credentials = format!("https://user:{HEADER}@example.com/{QUERY}");
    for arguments in [
        &["local", messages.as_str(), "--target", &credentials][..],
        &["local", &messages, "--endpoint-url", &credentials],
        &["audit", "--queue", "https://sqs.eu-west-1.amazonaws.com/0/q", "--endpoint-url", &credentials],
    ] {
        let (_, stderr) = run_redeliver(arguments).await;
        assert!(stderr.contains("credentials"), "{stderr}");
        secrets().assert_absent("standard error", &stderr);
    }
}

#[tokio::test]
async fn send_and_redrive_print_no_values() {
    let (topology, endpoint) = (new_topology().await, Ministack::shared().endpoint_url());
    let messages = write_message_file(&lines());
    let (stdout, stderr) = run_redeliver(&[
        "send",
        &messages,
        "--apply",
        "--queue",
        &topology.source.url,
        "--endpoint-url",
        &endpoint,
    ])
    .await;
    assert!(stderr.contains(":3:") && stderr.contains(":5:"), "{stderr}");
    secrets().assert_absent("standard output", &stdout);
    secrets().assert_absent("standard error", &stderr);

    let body = message(7, &json!({}));
    for text in [body.as_str(), &lines()[2], &lines()[4]] {
        let request = topology.client.send_message().queue_url(&topology.final_dlq.url).message_body(text);
        request.send().await.unwrap();
    }
    let redrive = ["redrive", "--queue", &topology.final_dlq.url, "--to", &topology.source.url];
    let redrive = [&redrive[..], &["--endpoint-url", &endpoint]].concat();
    for (filter, expected) in [
        (&["--where", ".body + 1"][..], "cannot calculate with two values"),
        (&["--where", ".body.data.text | tonumber"], "whose text may quote the message"),
        (&["--where", "error(.body)"], "whose text may quote the message"),
        (&["--edit", ".body.data.text[]"], "cannot use a value as "),
    ] {
        let (stdout, stderr) = run_redeliver(&[&redrive[..], filter].concat()).await;
        assert!(format!("{stdout}{stderr}").contains(expected), "{expected}: {stdout}{stderr}");
        secrets().assert_absent("standard output", &stdout);
        secrets().assert_absent("standard error", &stderr);
    }
    let (_, stderr) = run_redeliver(&[&redrive[..], &["--apply"]].concat()).await;
    secrets().assert_absent("standard error", &stderr);
    let audit = ["audit", "--queue", &topology.final_dlq.url, "--endpoint-url", &endpoint];
    let (_, stderr) = run_redeliver(&audit).await;
    secrets().assert_absent("standard error", &stderr);
}

#[tokio::test]
async fn an_unreachable_aws_endpoint_is_reported_without_credentials() {
    let unused_endpoint = "http://127.0.0.1:9";
    let (queue, messages) = (format!("{unused_endpoint}/000000000000/q"), write_message_file(&lines()[..1]));
    for arguments in [
        &["audit", "--queue", &queue][..],
        &["redrive", "--queue", &queue, "--to", &queue],
        &["send", &messages, "--apply", "--queue", &queue],
        &["status", "--stack", "no-such-stack"],
    ] {
        let mut command = Command::new(debug_binary("redeliver"));
        command.args(arguments).env_clear().envs(verbose_variables()).env("AWS_REGION", REGION);
        command.env("AWS_ENDPOINT_URL", unused_endpoint).env("AWS_MAX_ATTEMPTS", "1").stdin(Stdio::null());
        let output = command.output().await.unwrap();
        let reported = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(!output.status.success() && !reported.is_empty(), "{arguments:?}");
        secrets().assert_absent("the output", &reported);
    }
}

//! `redeliver local` on an endpoint, in real time.

use std::time::Duration;

use aws_sdk_sqs::Client;
use redeliver_tests::ministack::Ministack;
use redeliver_tests::sqs::{Queue, client};

use super::*;

#[tokio::test]
async fn the_loop_runs_on_an_endpoint_in_real_time_and_touches_no_queue_but_its_own() {
    let endpoint = Ministack::start();
    let client = client(&endpoint.endpoint_url());
    let theirs = Queue::create(&client, "somebody-elses", None).await;
    let policy = br#"{"max_attempts":2,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
    let policy = Scratch::new("endpoint-policy.json", policy);
    let url = endpoint.endpoint_url();
    let arguments = [
        "local",
        EXAMPLE,
        "--endpoint-url",
        &url,
        "--policy",
        policy.name(),
        "--fail-first",
        "1",
        "--format",
        "json",
    ];
    let arguments = arguments.map(str::to_owned);
    let output = tokio::task::spawn_blocking(move || redeliver(&arguments.each_ref().map(String::as_str)));
    let report = report(&output.await.expect("the program ends"));
    assert_eq!((&report["sent"], &report["processed"]), (&22.into(), &12.into()), "{report}");
    assert_eq!(report["dead_lettered"]["INVALID_MESSAGE_FORMAT"], 5, "{report}");
    assert_eq!(report["dead_lettered"]["INVALID_MESSAGE_SCHEMA"], 4, "{report}");
    assert_eq!((&report["unaccounted"], &report["waiting"]), (&0.into(), &0.into()), "{report}");
    assert_eq!(queue_urls(&client).await, [theirs.url]);
}

#[tokio::test]
async fn an_interrupt_ends_the_loop_with_a_report_and_leaves_no_queue() {
    let endpoint = Ministack::start();
    let client = client(&endpoint.endpoint_url());
    let policy = br#"{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}"#;
    let policy = Scratch::new("interrupt-policy.json", policy);
    let url = endpoint.endpoint_url();
    let arguments = ["local", EXAMPLE, "--endpoint-url", &url, "--policy", policy.name(), "--fail-rate", "1"];
    let retried = |[_, _, delayed]: [u64; 3]| delayed > 0;
    let output = interrupted(&client, &arguments, retried).await;
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("still waiting"), "{}", stderr(&output));
    assert_eq!(queue_urls(&client).await, [""; 0]);
}

#[tokio::test]
async fn an_interrupt_while_messages_are_fed_says_how_many_were_sent_and_leaves_no_queue() {
    let endpoint = Ministack::start();
    let client = client(&endpoint.endpoint_url());
    let messages = Scratch::new("interrupt.jsonl", "{}\n".repeat(100_000).as_bytes());
    let url = endpoint.endpoint_url();
    let fed = |[visible, _, _]: [u64; 3]| visible > 0;
    let output = interrupted(&client, &["local", messages.name(), "--endpoint-url", &url], fed).await;
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert!(stderr(&output).contains("of 100000"), "{}", stderr(&output));
    assert_eq!(queue_urls(&client).await, [""; 0]);
}

/// Runs the program, and interrupts it as Ctrl-C does once its source queue's depth is `due`.
async fn interrupted(client: &Client, arguments: &[&str], due: impl Fn([u64; 3]) -> bool) -> Output {
    let child = tokio::process::Command::from(program(arguments))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the program starts");
    let process = child.id().expect("it runs");
    let until_due = async {
        while !source_depth(client).await.is_some_and(&due) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, until_due).await.expect("its source queue fills");
    let signal = Command::new("sh").args(["-c", &format!("kill -INT {process}")]).status();
    assert!(signal.is_ok_and(|status| status.success()));
    child.wait_with_output().await.expect("the program ends")
}

/// The depth of the program's source queue; `None` before there is one.
async fn source_depth(client: &Client) -> Option<[u64; 3]> {
    let url = queue_urls(client).await.into_iter().find(|url| url.ends_with("-source"))?;
    Some(Queue { url, arn: String::new() }.depth(client).await)
}

async fn queue_urls(client: &Client) -> Vec<String> {
    client.list_queues().send().await.expect("it answers").queue_urls.unwrap_or_default()
}

//! The strategy `ordered` with the real program, on FIFO queues.

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use redeliver_tests::sqs::{TestQueue, unique_name};

use super::*;
use crate::ministack::called_messages_in_group;
use crate::ministack::redrive::{
    new_journal_path, redrive_command, redrive_command_from, run_and_parse_report,
};

/// Returns the topology with a FIFO source queue, and the DLQ of that queue.
async fn fifo_topology() -> (TestTopology, TestQueue) {
    let (mut topology, name) = (new_topology().await, unique_name("e2e"));
    let client = &topology.client;
    let dlq = TestQueue::create(client, &format!("{name}-source-dlq.fifo"), None).await;
    topology.source = TestQueue::create(client, &format!("{name}-source.fifo"), Some((&dlq, 1000))).await;
    (topology, dlq)
}

/// Sends messages in this group.
async fn send(topology: &TestTopology, group: &str, numbers: std::ops::Range<u32>) {
    let entries = numbers.map(|n| {
        let entry = SendMessageBatchRequestEntry::builder().id(n.to_string());
        let entry = entry.message_group_id(group).message_deduplication_id(n.to_string());
        entry.message_body(test_message(n, &json!({ "group": group }))).build().unwrap()
    });
    let request = topology.client.send_message_batch().queue_url(&topology.source.url);
    let sent = request.set_entries(Some(entries.collect())).send().await.unwrap();
    assert!(sent.failed.is_empty(), "{:?}", sent.failed);
}

fn ordered_command(
    topology: &TestTopology,
    source_dlq: &TestQueue,
    target: &HttpTargetServer,
    batch: &str,
) -> Command {
    let functions = ["message-processor", "final-dlq-annotator", "--wait", "1s", "--invocation", "8s"];
    let mut command = command(topology, target.url(), &functions);
    command.env_remove("INTERMEDIATE_DLQ_URL").env("STRATEGY", "ordered").env("BATCH_SIZE", batch);
    command.env("VISIBILITY_TIMEOUT_SECONDS", "30").env("RETENTION_SECONDS", "345600");
    command.env("SOURCE_DLQ_URL", &source_dlq.url);
    // With a batch size of one, a receive by the killed process counts as an attempt.
    let policy = r#"{"max_attempts":9,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
    command.env("RETRY_POLICY", policy);
    command
}

#[tokio::test]
async fn groups_keep_their_order_through_failures_and_a_killed_process() {
    for batch in ["1", "10"] {
        let ((topology, source_dlq), target) = (fifo_topology().await, HttpTargetServer::start().await);
        target.script_replies(&id(1), [Reply::Status(500), Reply::Status(500)]);
        target.script_replies(&id(6), [Reply::Status(410), Reply::Status(410)]);
        target.script_replies(&id(11), [Reply::Hang]);
        send(&topology, "a", 0..4).await;
        send(&topology, "b", 5..9).await;
        send(&topology, "c", 10..14).await;
        let mut killed = RunningWorker::start(ordered_command(&topology, &source_dlq, &target, batch)).await;
        let give_up = Instant::now() + PATIENCE;
        while !called_messages_in_group(&target, "c").starts_with(&[10, 11]) {
            assert!(Instant::now() < give_up, "{batch}: {:?}", called_messages_in_group(&target, "c"));
            sleep(Duration::from_millis(20)).await;
        }
        killed.process.kill().await.unwrap();

        let mut working = RunningWorker::start(ordered_command(&topology, &source_dlq, &target, batch)).await;
        wait_until_settled(&topology).await;
        working.signal("TERM", "stopping").await;
        assert_eq!(working.wait_for_exit().await.0, Some(0));
        for (group, numbers) in [("a", 0..4), ("b", 5..9), ("c", 10..14)] {
            let (called, mut first) = (called_messages_in_group(&target, group), Vec::new());
            called.iter().for_each(|n| {
                if !first.contains(n) {
                    first.push(*n)
                }
            });
            assert_eq!(first, Vec::from_iter(numbers), "{batch}: {called:?}");
        }
        // One more call if the process was killed after the response.
        let failing = called_messages_in_group(&target, "a").iter().filter(|n| **n == 1).count();
        assert!((3..=4).contains(&failing), "{batch}: {failing}");
        let records = final_records(&topology).await;
        let end = |record: &AnnotatedRecord| {
            (record.error_type.clone(), record.body["metadata"]["message_id"].as_str().unwrap().to_owned())
        };
        let ends: Vec<_> = records.iter().map(end).collect();
        // Two if the process was killed after it sent the verdict, but before it deleted the message.
        assert!((1..=2).contains(&ends.len()), "{batch}: {ends:?}");
        assert!(
            ends.iter().all(|end| *end == ("NON_RETRYABLE_ERROR".to_owned(), id(6))),
            "{batch}: {ends:?}"
        );
    }
}

#[tokio::test]
async fn a_message_that_sqs_moved_to_the_fifo_dlq_is_annotated() {
    let ((mut topology, source_dlq), target) = (fifo_topology().await, HttpTargetServer::start().await);
    let command = ordered_command(&topology, &source_dlq, &target, "1");
    // As if SQS had moved the messages there.
    topology.source = source_dlq;
    send(&topology, "a", 0..2).await;
    let mut working = RunningWorker::start(command).await;
    wait_until_settled(&topology).await;
    working.signal("TERM", "stopping").await;
    assert_eq!(working.wait_for_exit().await.0, Some(0));
    let records = final_records(&topology).await;
    let ends: Vec<_> = records.iter().map(|record| record.error_type.as_str()).collect();
    assert_eq!(ends, ["ORCHESTRATION_FAILED"; 2]);
}

#[tokio::test]
async fn a_redriven_message_goes_to_the_end_of_its_group_once() {
    let ((topology, source_dlq), target) = (fifo_topology().await, HttpTargetServer::start().await);
    target.script_replies(&id(1), [Reply::Status(422)]);
    send(&topology, "a", 0..3).await;
    let mut working = RunningWorker::start(ordered_command(&topology, &source_dlq, &target, "1")).await;
    wait_until_settled(&topology).await;
    assert_eq!(called_messages_in_group(&target, "a"), [0, 1, 2]);
    let dead = new_journal_path();
    let mut audit = Command::new(debug_binary("redeliver"));
    audit.args(["audit", "--queue", &topology.final_dlq.url, "--save"]).arg(&dead).env_clear();
    audit.args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
    assert_eq!(audit.output().await.unwrap().status.code(), Some(3), "it has a dead letter");

    let output = redrive_command(&topology, &new_journal_path(), &[]).output().await.unwrap();
    let output_text = String::from_utf8(output.stderr).unwrap();
    let planned: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output_text}"));
    assert_eq!((output.status.code(), &planned["planned"]), (Some(0), &json!(1)), "{output_text}");
    let remark = "the source queue is a FIFO queue: each dead letter goes to the end of its group, behind messages that \
                  were sent later; ";
    assert!(output_text.contains(remark), "{output_text}");
    assert_eq!(called_messages_in_group(&target, "a"), [0, 1, 2], "not sent yet");

    // The redriven message goes behind one that fails again and again.
    target.script_replies(&id(3), [Reply::Status(409); 3]);
    send(&topology, "a", 3..5).await;
    let (first, apply) = (new_journal_path(), ["--apply", "--watch", "0s"]);
    let (code, done) = run_and_parse_report(redrive_command(&topology, &first, &apply)).await;
    assert_eq!((code, &done["sent"]), (Some(0), &json!(1)), "{done}");
    wait_until_settled(&topology).await;
    let called = [0, 1, 2, 3, 3, 3, 3, 4, 1];
    assert_eq!(called_messages_in_group(&target, "a"), called);

    let (code, done) = run_and_parse_report(redrive_command(&topology, &first, &apply)).await;
    assert_eq!((code, &done["sent"]), (Some(0), &json!(0)), "{done}");
    // Without its journal, the same dead letter is sent again.
    let again =
        redrive_command_from(&[dead.to_str().unwrap()], &topology.source.url, &new_journal_path(), &apply);
    let (code, done) = run_and_parse_report(again).await;
    assert_eq!((code, &done["sent"]), (Some(0), &json!(1)), "{done}");
    wait_until_settled(&topology).await;
    assert_eq!(called_messages_in_group(&target, "a"), called, "no copy");
    working.signal("TERM", "stopping").await;
    assert_eq!(working.wait_for_exit().await.0, Some(0));
}

/// Runs `redeliver unblock` on these queues.
async fn unblock(blocked: &TestQueue, source: &TestQueue, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(debug_binary("redeliver"));
    command.arg("unblock").args(arguments).args(["--queue", &blocked.url, "--source", &source.url]);
    command.args([
        "--endpoint-url",
        &Ministack::shared().endpoint_url(),
        "--region",
        REGION,
        "--format",
        "json",
    ]);
    run_and_parse_report(command).await
}

async fn wait_for_calls(target: &HttpTargetServer, group: &str, calls: &[u32]) {
    let give_up = Instant::now() + PATIENCE;
    while called_messages_in_group(target, group) != calls {
        assert!(Instant::now() < give_up, "{:?}, not {calls:?}", called_messages_in_group(target, group));
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn blocked_groups_wait_until_a_person_decides() {
    let ((topology, source_dlq), target) = (fifo_topology().await, HttpTargetServer::start().await);
    let blocked = TestQueue::create(&topology.client, &unique_name("e2e-blocked"), None).await;
    target.script_replies(&id(1), [Reply::Status(409), Reply::Status(409)]);
    target.script_replies(&id(6), [Reply::Status(422)]);
    send(&topology, "a", 0..3).await;
    send(&topology, "b", 5..8).await;
    let mut command = ordered_command(&topology, &source_dlq, &target, "1");
    command.env("BLOCKED_QUEUE_URL", &blocked.url);
    let policy = r#"{"max_attempts":1,"on_give_up":"block","backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
    let mut working = RunningWorker::start({
        command.env("RETRY_POLICY", policy);
        command
    })
    .await;
    wait_for_calls(&target, "a", &[0, 1, 1]).await;
    wait_for_calls(&target, "b", &[5, 6]).await;

    // A notice becomes visible after a minute.
    let give_up = Instant::now() + PATIENCE;
    let listed = loop {
        let (code, listed) = unblock(&blocked, &topology.source, &[]).await;
        if listed["groups"].as_array().unwrap().len() == 2 {
            assert_eq!(code, Some(0));
            break listed;
        }
        assert_eq!(code, Some(4), "{listed}");
        assert!(Instant::now() < give_up, "{listed}");
        sleep(Duration::from_secs(1)).await;
    };
    let reported = |n: usize| {
        let group = &listed["groups"][n];
        [&group["group"], &group["error_type"], &group["message_id"], &group["attempts"]].map(Value::clone)
    };
    let mut reported = [reported(0), reported(1)];
    reported.sort_by_key(|group| group[0].to_string());
    let expected = [
        [json!("a"), json!("RETRY_ATTEMPT_EXCEEDED"), json!(id(1)), json!(1)],
        [json!("b"), json!("NON_RETRYABLE_ERROR"), json!(id(6)), json!(0)],
    ];
    assert_eq!(reported, expected);
    assert_eq!(
        (called_messages_in_group(&target, "a").len(), called_messages_in_group(&target, "b").len()),
        (3, 2),
        "they wait"
    );

    let (code, retried) = unblock(&blocked, &topology.source, &["a", "--retry", "--apply"]).await;
    assert_eq!((code, &retried["groups"][0]["unblocked"]), (Some(0), &json!(true)), "{retried}");
    wait_for_calls(&target, "a", &[0, 1, 1, 1, 2]).await;
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup.jsonl");
    let take_out = ["b", "--backup", backup.to_str().unwrap(), "--apply"];
    let (code, released) = unblock(&blocked, &topology.source, &take_out).await;
    assert_eq!((code, &released["groups"][0]["unblocked"]), (Some(0), &json!(true)), "{released}");
    wait_for_calls(&target, "b", &[5, 6, 7]).await;
    let (code, none) = unblock(&blocked, &topology.source, &[]).await;
    assert_eq!((code, &none["groups"]), (Some(0), &json!([])));

    let mut sends = Command::new(debug_binary("redeliver"));
    sends
        .args(["send", "--backup"])
        .arg(&backup)
        .args(["--queue", &topology.source.url, "--apply"])
        .env_clear();
    sends.args(["--endpoint-url", &Ministack::shared().endpoint_url(), "--region", REGION]);
    let sent = sends.output().await.unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", String::from_utf8_lossy(&sent.stderr));
    wait_for_calls(&target, "b", &[5, 6, 7, 6]).await;
    wait_until_settled(&topology).await;
    working.signal("TERM", "stopping").await;
    assert_eq!(working.wait_for_exit().await.0, Some(0));
    assert!(final_records(&topology).await.is_empty());
}

//! The strategy `ordered` with the real program, on FIFO queues.

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use redeliver_tests::sqs::{Queue, unique};

use super::*;

/// The topology with a FIFO source queue, and that queue's DLQ.
async fn ordered() -> (Topology, Queue) {
    let (mut topology, name) = (topology().await, unique("e2e"));
    let client = &topology.client;
    let dlq = Queue::create(client, &format!("{name}-source-dlq.fifo"), None).await;
    topology.source = Queue::create(client, &format!("{name}-source.fifo"), Some((&dlq, 1000))).await;
    (topology, dlq)
}

/// Sends messages of this group.
async fn send(topology: &Topology, group: &str, numbers: std::ops::Range<u32>) {
    let entries = numbers.map(|n| {
        let entry = SendMessageBatchRequestEntry::builder().id(n.to_string());
        let entry = entry.message_group_id(group).message_deduplication_id(n.to_string());
        entry.message_body(message(n, &json!({ "group": group }))).build().unwrap()
    });
    let request = topology.client.send_message_batch().queue_url(&topology.source.url);
    let sent = request.set_entries(Some(entries.collect())).send().await.unwrap();
    assert!(sent.failed.is_empty(), "{:?}", sent.failed);
}

fn ordered_command(topology: &Topology, source_dlq: &Queue, target: &HttpTarget, batch: &str) -> Command {
    let functions = ["message-processor", "final-dlq-annotator", "--wait", "1s", "--invocation", "8s"];
    let mut command = command(topology, target.url(), &functions);
    command.env_remove("INTERMEDIATE_DLQ_URL").env("STRATEGY", "ordered").env("BATCH_SIZE", batch);
    command.env("VISIBILITY_TIMEOUT_SECONDS", "30").env("RETENTION_SECONDS", "345600");
    command.env("SOURCE_DLQ_URL", &source_dlq.url);
    // A receive of the killed process is an attempt in batches of one.
    let policy = r#"{"max_attempts":9,"backoff":{"kind":"fixed","delay_seconds":1,"jitter":"none"}}"#;
    command.env("RETRY_POLICY", policy);
    command
}

/// The numbers of the group's calls, in the order in which they came.
fn calls(target: &HttpTarget, group: &str) -> Vec<u32> {
    let of_group = target.requests_with(&format!("\"group\":\"{group}\""));
    let number = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["metadata"]["message_id"].as_str().unwrap()[..8].parse().unwrap()
    };
    of_group.iter().map(|request| number(&request.body)).collect()
}

#[tokio::test]
async fn each_group_keeps_its_order_through_failures_and_a_process_that_is_killed() {
    for batch in ["1", "10"] {
        let ((topology, source_dlq), target) = (ordered().await, HttpTarget::start().await);
        target.script(&id(1), [Reply::Status(503), Reply::Status(503)]);
        target.script(&id(6), [Reply::Status(404), Reply::Status(404)]);
        target.script(&id(11), [Reply::Hang]);
        send(&topology, "a", 0..4).await;
        send(&topology, "b", 5..9).await;
        send(&topology, "c", 10..14).await;
        let mut killed = Working::start(ordered_command(&topology, &source_dlq, &target, batch)).await;
        let give_up = Instant::now() + PATIENCE;
        while !calls(&target, "c").starts_with(&[10, 11]) {
            assert!(Instant::now() < give_up, "{batch}: {:?}", calls(&target, "c"));
            sleep(Duration::from_millis(20)).await;
        }
        killed.process.kill().await.unwrap();

        let mut working = Working::start(ordered_command(&topology, &source_dlq, &target, batch)).await;
        settle(&topology).await;
        working.signal("TERM", "stopping").await;
        assert_eq!(working.end().await.0, Some(0));
        for (group, numbers) in [("a", 0..4), ("b", 5..9), ("c", 10..14)] {
            let (called, mut first) = (calls(&target, group), Vec::new());
            called.iter().for_each(|n| {
                if !first.contains(n) {
                    first.push(*n)
                }
            });
            assert_eq!(first, Vec::from_iter(numbers), "{batch}: {called:?}");
        }
        // One more if the process was killed after the answer.
        let failing = calls(&target, "a").iter().filter(|n| **n == 1).count();
        assert!((3..=4).contains(&failing), "{batch}: {failing}");
        let records = final_records(&topology).await;
        let ends: Vec<_> = records.iter().map(|record| (record.error_type.as_str(), &record.body)).collect();
        let [("NON_RETRYABLE_ERROR", body)] = ends[..] else { panic!("{batch}: {ends:?}") };
        assert_eq!(body["metadata"]["message_id"], id(6));
    }
}

#[tokio::test]
async fn a_message_that_sqs_moved_is_explained_from_the_fifo_dlq() {
    let ((mut topology, source_dlq), target) = (ordered().await, HttpTarget::start().await);
    let command = ordered_command(&topology, &source_dlq, &target, "1");
    // As if SQS had moved them there.
    topology.source = source_dlq;
    send(&topology, "a", 0..2).await;
    let mut working = Working::start(command).await;
    settle(&topology).await;
    working.signal("TERM", "stopping").await;
    assert_eq!(working.end().await.0, Some(0));
    let records = final_records(&topology).await;
    let ends: Vec<_> = records.iter().map(|record| record.error_type.as_str()).collect();
    assert_eq!(ends, ["ORCHESTRATION_FAILED"; 2]);
}

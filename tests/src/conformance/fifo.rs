//! FIFO queues: "FIFO queue delivery logic in Amazon SQS" in the Amazon SQS Developer Guide, and "SendMessage" in the
//! Amazon SQS API Reference. A receive can always return fewer messages than are available.

use std::collections::BTreeMap;
use std::time::Duration;

use redeliver_core::limits::{DelaySeconds, VisibilitySeconds};
use redeliver_core::message::{Content, ReceivedMessage};
use redeliver_core::ports::{
    Clock, FIFO_SUFFIX, Fault, Queue, QueueService, QueueSettings, ReceiveOptions, RedriveSettings,
    VisibilityControl as _,
};

use super::bench::{
    BrokenRule, ConformanceBench, ensure, ensure_eq, plain_content, queue_settings, to_visibility,
};

/// Creates a message in this group. Its body is also its deduplication id.
fn fifo_content(body: impl Into<String>, group: &str) -> Content {
    let body = body.into();
    Content {
        message_group_id: Some(group.to_owned()),
        deduplication_id: Some(body.replace(' ', "-")),
        ..plain_content(body)
    }
}

pub(super) async fn a_group_is_received_in_send_order<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(30).await?;
    let bodies: Vec<_> = (10..35).map(|number| number.to_string()).collect();
    bench.send_all(&queue, bodies.iter().map(|body| fifo_content(body, "a")).collect()).await?;
    ensure_eq!(drain_queue(bench, &queue, bodies.len()).await?, bodies, "bodies in order");
    Ok(())
}

pub(super) async fn an_in_flight_message_holds_back_only_its_own_group<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(300).await?;
    bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    let first = bench.receive_one(&queue).await?;
    bench.send_all(&queue, vec![fifo_content("a2", "a"), fifo_content("b1", "b")]).await?;
    ensure_eq!(bench.receive_one(&queue).await?.body, "b1", "the message of the other group");
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "a message of a group that is in flight");
    ensure_eq!(queue.delete_batch(&[first.receipt_handle]).await, [Ok(())], "outcomes");
    ensure_eq!(bench.receive_one(&queue).await?.body, "a2", "the next message of the group");
    Ok(())
}

pub(super) async fn visibility_zero_returns_a_message_before_its_successors<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(300).await?;
    bench.send_all(&queue, ["a1", "a2", "a3"].map(|body| fifo_content(body, "a")).into()).await?;
    let first = receive_first::<S>(&queue).await?;
    ensure_eq!(first.body, "a1", "the first message");
    let outcomes = queue.change_visibility_batch(&[(first.receipt_handle, VisibilitySeconds::ZERO)]).await;
    ensure_eq!(outcomes, [Ok(())], "outcomes");
    ensure_eq!(drain_queue(bench, &queue, 3).await?, ["a1", "a2", "a3"], "bodies in order");
    Ok(())
}

pub(super) async fn a_message_hidden_for_longer_holds_back_its_group<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(2).await?;
    bench.send_all(&queue, ["a1", "a2"].map(|body| fifo_content(body, "a")).into()).await?;
    let first = receive_first::<S>(&queue).await?;
    let start = bench.now();
    let longer = [(first.receipt_handle, to_visibility(6))];
    ensure_eq!(queue.change_visibility_batch(&longer).await, [Ok(())], "outcomes");
    bench.sleep(Duration::from_secs(2)).await;
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "a message of a group that is in flight");
    ensure_eq!(drain_queue(bench, &queue, 2).await?, ["a1", "a2"], "bodies in order");
    bench.ensure_elapsed(start, Duration::from_secs(6), "the group came again")
}

/// "Exactly-once processing in Amazon SQS": within five minutes, a repeated send is confirmed but adds no message.
pub(super) async fn a_repeated_deduplication_id_adds_nothing<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(300).await?;
    bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    ensure_eq!(drain_queue(bench, &queue, 1).await?, ["a1"], "bodies");
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "the repeated send added a message");
    Ok(())
}

/// "Exactly-once processing in Amazon SQS", and "SendMessage": even "after the message is received and deleted".
pub(super) async fn a_deleted_message_is_still_deduplicated<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(300).await?;
    bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    drain_queue(bench, &queue, 1).await?;
    bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    ensure!(bench.poll_once(&queue, 1).await?.is_empty(), "the repeated send added a message");
    bench.send_all(&queue, vec![fifo_content("a2", "a")]).await?;
    ensure_eq!(drain_queue(bench, &queue, 1).await?, ["a2"], "bodies of a send with another id");
    Ok(())
}

/// Not documented by AWS, but a producer that resends a message must be able to trace it.
pub(super) async fn a_repeated_send_returns_the_first_message_id<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(300).await?;
    let first = bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    ensure_eq!(
        bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?,
        first,
        "ids of the repeated send"
    );
    Ok(())
}

pub(super) async fn a_missing_message_group_id_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    expect_refusal(bench, Content { message_group_id: None, ..fifo_content("wrong", "a") }).await
}

pub(super) async fn a_missing_deduplication_id_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    expect_refusal(bench, Content { deduplication_id: None, ..fifo_content("wrong", "a") }).await
}

pub(super) async fn an_invalid_deduplication_id_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    for wrong in ["order 1", "a\tb", &"i".repeat(129)] {
        let deduplication_id = Some(wrong.to_owned());
        expect_refusal(bench, Content { deduplication_id, ..fifo_content("wrong", "a") }).await?;
    }
    Ok(())
}

/// "SendMessage": "When you set FifoQueue, you can't set DelaySeconds per message."
pub(super) async fn a_message_delay_on_a_fifo_queue_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let delay = DelaySeconds::new(1).unwrap_or(DelaySeconds::MAX);
    expect_refusal(bench, Content { delay, ..fifo_content("wrong", "a") }).await
}

pub(super) async fn a_deduplication_id_on_a_standard_queue_is_a_sender_fault<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    bench.expect_refusal(vec![("a deduplication id".to_owned(), fifo_content("wrong", "a"))]).await
}

/// "ReceiveMessage", Amazon SQS API Reference: "if a consumer whose message processing time is longer than the
/// visibility timeout tries to delete the processed messages, the action fails with an error".
pub(super) async fn an_expired_receipt_handle_deletes_nothing_from_a_fifo_queue<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(1).await?;
    bench.send_all(&queue, vec![fifo_content("a1", "a")]).await?;
    let handle = bench.receive_one(&queue).await?.receipt_handle;
    bench.sleep(Duration::from_secs(3)).await;
    let outcomes = queue.delete_batch(&[handle]).await;
    let faults: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|e| e.fault)).collect();
    ensure_eq!(faults, [Some(Fault::Sender)], "faults");
    ensure_eq!(bench.receive_one(&queue).await?.body, "a1", "the message that came again");
    Ok(())
}

pub(super) async fn a_redrive_to_a_fifo_queue_keeps_group_and_order<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    let dlq = bench.create_fifo_queue(30).await?;
    let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count: 1 });
    let source =
        bench.create_fifo_queue_with_settings(&QueueSettings { redrive, ..queue_settings(1) }).await?;
    let sent = [("a1", "a"), ("a2", "a"), ("b1", "b")];
    bench.send_all(&source, sent.map(|(body, group)| fifo_content(body, group)).into()).await?;
    let give_up = bench.now() + Duration::from_secs(60);
    let mut moved = BTreeMap::<_, Vec<_>>::new();
    while moved.values().map(Vec::len).sum::<usize>() < sent.len() {
        ensure!(bench.now() < give_up, "only {moved:?} moved within 60 s");
        for message in bench.poll_once(&source, 1).await? {
            ensure_eq!(message.receive_count, 1, "ApproximateReceiveCount");
        }
        for message in bench.poll_once(&dlq, 1).await? {
            let group = message.message_group_id.unwrap_or_default();
            moved.entry(group).or_default().push(message.body);
            ensure_eq!(dlq.delete_batch(&[message.receipt_handle]).await, [Ok(())], "outcomes");
        }
    }
    let group_bodies = |group: &str| moved.get(group).cloned().unwrap_or_default();
    ensure_eq!(group_bodies("a"), ["a1", "a2"], "the moved messages of group a");
    ensure_eq!(group_bodies("b"), ["b1"], "the moved messages of group b");
    Ok(())
}

/// "Using dead-letter queues in Amazon SQS": both queues must have the same type.
pub(super) async fn a_standard_dead_letter_queue_for_a_fifo_queue_is_refused<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    expect_queue_refusal(bench, FIFO_SUFFIX, &bench.create_queue(30).await?).await
}

/// "Using dead-letter queues in Amazon SQS": both queues must have the same type.
pub(super) async fn a_fifo_dead_letter_queue_for_a_standard_queue_is_refused<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
) -> Result<(), BrokenRule> {
    expect_queue_refusal(bench, "", &bench.create_fifo_queue(30).await?).await
}

/// Tries to create a queue whose name has this suffix, with a dead-letter queue of the wrong type.
async fn expect_queue_refusal<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    suffix: &str,
    dlq: &S::Queue,
) -> Result<(), BrokenRule> {
    let redrive = Some(RedriveSettings { target_arn: dlq.arn().to_owned(), max_receive_count: 1 });
    let created = bench.try_create_queue(suffix, &QueueSettings { redrive, ..queue_settings(30) }).await;
    ensure_eq!(created.err().map(|error| error.fault), Some(Fault::Sender), "fault");
    Ok(())
}

async fn expect_refusal<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    wrong: Content,
) -> Result<(), BrokenRule> {
    let queue = bench.create_fifo_queue(300).await?;
    bench
        .expect_refusal_on(&queue, &fifo_content("right", "right"), vec![(format!("{wrong:?}"), wrong)])
        .await
}

/// Receives only the first available message.
async fn receive_first<S: QueueService>(queue: &S::Queue) -> Result<ReceivedMessage, BrokenRule> {
    let one = ReceiveOptions { max_messages: 1, wait: Duration::from_secs(20), visibility: None };
    queue.receive(one).await?.pop().ok_or_else(|| BrokenRule::new("no message"))
}

/// Receives and deletes this number of messages, and returns their bodies in the order received.
async fn drain_queue<S: QueueService, C: Clock>(
    bench: &ConformanceBench<'_, S, C>,
    queue: &S::Queue,
    count: usize,
) -> Result<Vec<String>, BrokenRule> {
    let give_up = bench.now() + Duration::from_secs(60);
    let mut bodies = Vec::new();
    while bodies.len() < count {
        ensure!(bench.now() < give_up, "only {bodies:?} of {count} within 60 s");
        for message in bench.poll_once(queue, 5).await? {
            ensure_eq!(queue.delete_batch(&[message.receipt_handle]).await, [Ok(())], "outcomes");
            bodies.push(message.body);
        }
    }
    Ok(bodies)
}
